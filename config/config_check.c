/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "config/config_value.h"
#include "config/endpoint.h"
#include "config/key_values.h"
#include "common/cleanup.h"

/* Returns the origin of the value to correct if two options contradict each other: that of `a`,
 * unless it is built in. */
static const struct config_origin *origin_to_correct(const struct config_state *state,
						     enum config_index a, enum config_index b)
{
	return &state->origins[state->origins[a].kind == CONFIG_BUILT_IN ? b : a];
}

static void check_certificates(struct config_state *state, bool tls)
{
	const struct config *c = &state->config;

	if (*c->key_file && !*c->certificate_file)
		config_fault(state, &state->origins[OPTION_export_key_file],
			     "export.key_file needs export.certificate_file: set both or none");
	if (*c->certificate_file && !*c->key_file)
		config_fault(state, &state->origins[OPTION_export_certificate_file],
			     "export.certificate_file needs export.key_file: set both or none");
	if (!tls && *c->ca_file)
		config_warn(
		    &state->origins[OPTION_export_ca_file],
		    "export.ca_file is not used, because the endpoint has no TLS; use https://");
	if (!tls && *c->certificate_file && *c->key_file)
		config_warn(
		    &state->origins[OPTION_export_certificate_file],
		    "export.certificate_file is not used, because the endpoint has no TLS; use "
		    "https://");
}

/* Without TLS, headers reach whatever process has the port, on this machine too, and everybody who
 * reads the network. Samples reach them as well, but are worth less than a token. */
static void check_plaintext(struct config_state *state, const struct endpoint *endpoint)
{
	const struct config *c = &state->config;

	if ((*c->headers || *c->headers_file) && !c->plaintext_headers)
		config_fault(state,
			     &state->origins[*c->headers ? OPTION_export_headers
							 : OPTION_export_headers_file],
			     "headers are usually secret, and the endpoint has no TLS: use "
			     "https://, or set export.plaintext_headers");
	if (!endpoint->loopback)
		config_warn(&state->origins[OPTION_export_endpoint],
			    "export.endpoint: without TLS, everybody who can read the network sees "
			    "the profiles; use https://");
}

static void check_endpoint(struct config_state *state)
{
	const struct config_origin *origin = &state->origins[OPTION_export_endpoint];
	struct endpoint endpoint;

	/* A wrong endpoint was reported when it was set. */
	if (endpoint_parse(state->config.endpoint, state->config.insecure, &endpoint))
		return;
	if (endpoint.path_ignored)
		config_warn(origin,
			    "export.endpoint: the path after host and port is ignored, because "
			    "OTLP/gRPC has none");
	if (endpoint.port == ENDPOINT_HTTP_PORT)
		config_warn(origin,
			    "export.endpoint: port %d is usually OTLP/HTTP; OTLP/gRPC usually has "
			    "port %d",
			    ENDPOINT_HTTP_PORT, ENDPOINT_PORT);
	if (!endpoint.tls)
		check_plaintext(state, &endpoint);
	check_certificates(state, endpoint.tls);
}

static void check_sizes(struct config_state *state)
{
	const struct config *c = &state->config;

	if (c->spool_memory_bytes < c->max_request_bytes)
		config_fault(
		    state,
		    origin_to_correct(state, OPTION_spool_memory_max_bytes,
				      OPTION_export_max_request_bytes),
		    "spool.memory_max_bytes must not be less than export.max_request_bytes, "
		    "otherwise no request fits");
	if (*c->spool_directory && c->spool_max_bytes < c->max_request_bytes)
		config_fault(
		    state,
		    origin_to_correct(state, OPTION_spool_max_bytes,
				      OPTION_export_max_request_bytes),
		    "spool.max_bytes must not be less than export.max_request_bytes, otherwise no "
		    "request fits");
}

/* Sets identity.service_name, if it is not set, to service.name of identity.resource_attributes. */
static void default_service_name(struct config_state *state)
{
	struct config *c = &state->config;
	_cleanup_key_values_ struct key_values list = {0};
	char reason[CONFIG_REASON_BYTES];

	if (*c->service_name ||
	    key_values_parse(KEY_VALUES_ATTRIBUTES, c->resource_attributes, &list, reason))
		return;
	const char *name = key_values_get(&list, "service.name");
	if (name)
		config_set(state, &config_options[OPTION_identity_service_name], name,
			   &state->origins[OPTION_identity_resource_attributes]);
}

static void check_strict_memory(struct config_state *state)
{
	const struct config *c = &state->config;

	if (c->strict_memory && (c->process_service_name || *c->environment_variables))
		config_warn(&state->origins[OPTION_runtimes_strict_memory],
			    "runtimes.strict_memory: without CAP_DAC_READ_SEARCH no process's "
			    "environment can be read, which identity.process_service_name and "
			    "identity.environment_variables need");
}

static void check_file(struct config_state *state, enum config_index index)
{
	const struct config_option *o = &config_options[index];
	const char *path = config_value_text(o, &state->config);
	_cleanup_close_ int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

	if (*path && fd < 0)
		config_fault(state, &state->origins[index], "%s: cannot be read: %s", o->flag,
			     strerror(errno));
}

static void check_headers(struct config_state *state)
{
	const struct config *c = &state->config;
	_cleanup_key_values_ struct key_values list = {0};
	struct config_origin origin = {CONFIG_FILE, c->headers_file, 0};
	char reason[KEY_VALUES_REASON_BYTES];
	bool exposed = false;
	const char *fault;

	if (!*c->headers_file)
		return;
	fault = key_values_read_headers(c->headers_file, &list, &origin.line, &exposed, reason);
	if (fault) {
		config_fault(state, &origin, "%s", fault);
		return;
	}
	origin.line = 0;
	if (exposed)
		config_warn(
		    &origin,
		    "headers are secret, and everyone may read this file; change its mode to "
		    "0600");
	fault = key_values_parse(KEY_VALUES_HEADERS, c->headers, &list, reason);
	if (fault)
		config_fault(state, &state->origins[OPTION_export_headers],
			     "export.headers with export.headers_file: %s", fault);
}

void config_check(struct config_state *state)
{
	check_endpoint(state);
	check_sizes(state);
	default_service_name(state);
	check_strict_memory(state);
	if (state->mode != CONFIG_CHECK)
		return;
	check_file(state, OPTION_export_ca_file);
	check_file(state, OPTION_export_certificate_file);
	check_file(state, OPTION_export_key_file);
	check_headers(state);
}

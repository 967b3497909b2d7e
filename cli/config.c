/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/config_load.h"
#include "cli/config_value.h"
#include "cli/endpoint.h"
#include "cli/key_values.h"
#include "common/cleanup.h"
#include "common/exit_status.h"

static void say(const struct config_origin *origin, const char *severity, const char *format,
		va_list args) __attribute__((format(printf, 3, 0)));

static void say(const struct config_origin *origin, const char *severity, const char *format,
		va_list args)
{
	if (!origin || origin->kind == CONFIG_BUILT_IN)
		fputs("bulkhead run: ", stderr);
	else if (origin->kind == CONFIG_FILE && origin->line)
		fprintf(stderr, "%s:%u: ", origin->name, origin->line);
	else
		fprintf(stderr, "%s%s: ", origin->kind == CONFIG_FLAG ? "--" : "", origin->name);
	fputs(severity, stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void config_fault(struct config_load *load, const struct config_origin *origin, const char *format,
		  ...)
{
	va_list args;

	if (load->faults++ >= CONFIG_FAULTS_SHOWN)
		return;
	va_start(args, format);
	say(origin, "", format, args);
	va_end(args);
}

void config_warn(const struct config_origin *origin, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(origin, "warning: ", format, args);
	va_end(args);
}

void config_set(struct config_load *load, const struct config_option *o, const char *text,
		const struct config_origin *origin)
{
	char reason[CONFIG_REASON_BYTES];
	const char *fault = config_value_set(o, text, &load->config, reason);

	if (!fault)
		load->origins[o - config_options] = *origin;
	else if (origin->kind == CONFIG_FLAG)
		config_fault(load, origin, "%s", fault);
	else
		config_fault(load, origin, "%s: %s", o->flag, fault);
}

/* The one of two that somebody set, to tell where to look. */
static const struct config_origin *set_one(const struct config_load *load, enum config_index a,
					   enum config_index b)
{
	return &load->origins[load->origins[a].kind == CONFIG_BUILT_IN ? b : a];
}

static void check_certificates(struct config_load *load, bool tls)
{
	const struct config *c = &load->config;

	if (*c->key_file && !*c->certificate_file)
		config_fault(load, &load->origins[OPTION_export_key_file],
			     "export.key_file is of no use without export.certificate_file");
	if (*c->certificate_file && !*c->key_file)
		config_fault(load, &load->origins[OPTION_export_certificate_file],
			     "export.certificate_file is of no use without export.key_file");
	if (!tls && *c->ca_file)
		config_warn(&load->origins[OPTION_export_ca_file],
			    "export.ca_file is not used: the endpoint is without TLS");
	if (!tls && *c->certificate_file && *c->key_file)
		config_warn(&load->origins[OPTION_export_certificate_file],
			    "export.certificate_file is not used: the endpoint is without TLS");
}

static void check_endpoint(struct config_load *load)
{
	const struct config_origin *origin = &load->origins[OPTION_export_endpoint];
	struct endpoint endpoint;

	/* Each was checked when it was set. */
	if (endpoint_parse(load->config.endpoint, load->config.insecure, &endpoint))
		return;
	if (endpoint.path_ignored)
		config_warn(origin, "export.endpoint: what follows host and port is ignored");
	if (endpoint.port == ENDPOINT_HTTP_PORT)
		config_warn(origin,
			    "export.endpoint: port %d is customary for OTLP/HTTP; gRPC's is %d",
			    ENDPOINT_HTTP_PORT, ENDPOINT_PORT);
	check_certificates(load, endpoint.tls);
}

static void check_sizes(struct config_load *load)
{
	const struct config *c = &load->config;

	if (c->spool_memory_bytes < c->max_request_bytes)
		config_fault(
		    load,
		    set_one(load, OPTION_spool_memory_max_bytes, OPTION_export_max_request_bytes),
		    "spool.memory_max_bytes is less than export.max_request_bytes: no request "
		    "fits");
	if (*c->spool_directory && c->spool_max_bytes < c->max_request_bytes)
		config_fault(
		    load, set_one(load, OPTION_spool_max_bytes, OPTION_export_max_request_bytes),
		    "spool.max_bytes is less than export.max_request_bytes: no request fits");
}

/* identity.service_name goes before service.name of the attributes, whatever their sources. */
static void settle_service_name(struct config_load *load)
{
	struct config *c = &load->config;
	_cleanup_key_values_ struct key_values list = {0};
	char reason[CONFIG_REASON_BYTES];

	if (*c->service_name ||
	    key_values_parse(KEY_VALUES_ATTRIBUTES, c->resource_attributes, &list, reason))
		return;
	const char *name = key_values_get(&list, "service.name");
	if (name)
		config_set(load, &config_options[OPTION_identity_service_name], name,
			   &load->origins[OPTION_identity_resource_attributes]);
}

static void check_strict_memory(struct config_load *load)
{
	const struct config *c = &load->config;

	if (c->strict_memory && (c->process_service_name || *c->environment_variables))
		config_warn(&load->origins[OPTION_runtimes_strict_memory],
			    "runtimes.strict_memory: without CAP_DAC_READ_SEARCH no process's "
			    "environment can be read, which identity.process_service_name and "
			    "identity.environment_variables need");
}

static void check_file(struct config_load *load, enum config_index index)
{
	const struct config_option *o = &config_options[index];
	const char *path = config_value_text(o, &load->config);
	_cleanup_close_ int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

	if (*path && fd < 0)
		config_fault(load, &load->origins[index], "%s: it cannot be read: %s", o->flag,
			     strerror(errno));
}

static void check_headers(struct config_load *load)
{
	const struct config *c = &load->config;
	_cleanup_key_values_ struct key_values list = {0};
	struct config_origin origin = {CONFIG_FILE, c->headers_file, 0};
	char reason[KEY_VALUES_REASON_BYTES];
	bool exposed = false;
	const char *fault;

	if (!*c->headers_file)
		return;
	fault = key_values_read_headers(c->headers_file, &list, &origin.line, &exposed, reason);
	if (fault) {
		config_fault(load, &origin, "%s", fault);
		return;
	}
	origin.line = 0;
	if (exposed)
		config_warn(&origin, "headers are secret, and everyone may read this file");
	fault = key_values_parse(KEY_VALUES_HEADERS, c->headers, &list, reason);
	if (fault)
		config_fault(load, &load->origins[OPTION_export_headers],
			     "export.headers with export.headers_file: %s", fault);
}

static void check(struct config_load *load)
{
	check_endpoint(load);
	check_sizes(load);
	settle_service_name(load);
	check_strict_memory(load);
	if (load->mode != CONFIG_CHECK)
		return;
	/* Otherwise those who need them open them, and say so. */
	check_file(load, OPTION_export_ca_file);
	check_file(load, OPTION_export_certificate_file);
	check_file(load, OPTION_export_key_file);
	check_headers(load);
}

static void free_load(struct config_load **load)
{
	if (!*load)
		return;
	for (size_t i = 0; i < (*load)->path_count; i++)
		free((*load)->paths[i]);
	explicit_bzero(*load, sizeof(**load));
	free(*load);
}

static int finish(const struct config_load *load, struct config *config)
{
	if (load->faults > CONFIG_FAULTS_SHOWN)
		fprintf(stderr, "bulkhead run: and %u more faults\n",
			load->faults - CONFIG_FAULTS_SHOWN);
	if (load->faults)
		return STATUS_USAGE;
	switch (load->mode) {
	case CONFIG_RUN:
		*config = load->config;
		return 0;
	case CONFIG_CHECK:
		puts("configuration is valid");
		return -1;
	case CONFIG_DUMP:
		config_print_dump(load, stdout);
		return -1;
	case CONFIG_SAMPLE:
		config_print_sample(stdout);
		return -1;
	case CONFIG_HELP:
		config_print_help(stdout);
		return -1;
	}
	return STATUS_FAILED;
}

int config_load(int argc, char **argv, char *const environment[], struct config *config)
{
	static const struct config_origin built_in = {CONFIG_BUILT_IN, NULL, 0};
	_cleanup_(free_load) struct config_load *load = calloc(1, sizeof(*load));

	if (!load) {
		fprintf(stderr, "bulkhead run: %s\n", strerror(ENOMEM));
		return STATUS_FAILED;
	}
	config_flags_read(load, argc, argv);
	if (load->faults || load->mode >= CONFIG_SAMPLE)
		return finish(load, config);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++)
		config_set(load, &config_options[i], config_options[i].built_in, &built_in);
	config_files_apply(load, load->file ? load->file : CONFIG_DEFAULT_FILE, load->file != NULL);
	config_environment_apply(load, environment);
	config_flags_apply(load);
	check(load);
	return finish(load, config);
}

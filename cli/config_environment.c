/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment, by OpenTelemetry's "Environment Variable Specification": an empty variable is
 * one that is not set; a boolean is true only for "true"; numbers, enumerations and resource
 * attributes that are wrong are warned about and ignored. An endpoint, a file or headers that are
 * wrong are a fault nevertheless: going on would send profiles elsewhere, or nowhere.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/config_load.h"
#include "cli/config_value.h"
#include "cli/text_input.h"

/* As getenv does. */
static const char *find(char *const environment[], const char *name)
{
	const size_t length = strlen(name);

	for (; environment && *environment; environment++) {
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
			return (*environment)[length + 1] ? *environment + length + 1 : NULL;
	}
	return NULL;
}

static bool is_true(const char *text, const struct config_origin *origin)
{
	if (!strcasecmp(text, "true"))
		return true;
	if (strcasecmp(text, "false"))
		config_warn(origin, "only \"true\" is true here: taken as false");
	return false;
}

/* Milliseconds; 0 stands for no limit, and the greatest one is near enough. */
static const char *set_timeout(const struct config_option *o, const char *text,
			       struct config *config, char reason[static CONFIG_REASON_BYTES])
{
	char with_unit[32];

	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 12) {
		snprintf(reason, CONFIG_REASON_BYTES, "it must be a number of milliseconds");
		return reason;
	}
	if (strspn(text, "0") == strlen(text)) {
		*config_value_number(o, config) = o->max;
		return NULL;
	}
	snprintf(with_unit, sizeof(with_unit), "%sms", text);
	return config_value_set(o, with_unit, config, reason);
}

/* Whether the option is settled. */
static bool apply(struct config_load *load, const struct config_option *o, const char *text,
		  const struct config_origin *origin)
{
	char reason[CONFIG_REASON_BYTES];
	const char *fault;

	switch (o->type) {
	case CONFIG_TYPE_BOOLEAN:
		*config_value_boolean(o, &load->config) = is_true(text, origin);
		fault = NULL;
		break;
	case CONFIG_TYPE_DURATION:
		fault = set_timeout(o, text, &load->config, reason);
		break;
	case CONFIG_TYPE_COMPRESSION:
	case CONFIG_TYPE_ATTRIBUTES:
		fault = config_value_set(o, text, &load->config, reason);
		break;
	default:
		config_set(load, o, text, origin);
		return true;
	}
	if (fault)
		config_warn(origin, "%s: ignored", fault);
	else
		load->origins[o - config_options] = *origin;
	return !fault;
}

static void apply_variables(struct config_load *load, const struct config_option *o,
			    char *const environment[])
{
	for (size_t i = 0; i < sizeof(o->environment) / sizeof(o->environment[0]); i++) {
		const char *name = o->environment[i];
		const struct config_origin origin = {CONFIG_ENVIRONMENT, name, 0};
		const char *found = name ? find(environment, name) : NULL;
		char *copy = found ? strdup(found) : NULL;

		if (found && !copy)
			config_fault(load, &origin, "%s", strerror(ENOMEM));
		/* Files from which variables are taken often end with a newline. */
		const char *text = copy ? text_input_trim(copy) : "";
		const bool settled = *text && apply(load, o, text, &origin);
		if (copy)
			explicit_bzero(copy, strlen(found));
		free(copy);
		if (settled)
			return;
	}
}

static void check_protocol(char *const environment[])
{
	static const char *const names[] = {"OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL",
					    "OTEL_EXPORTER_OTLP_PROTOCOL"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct config_origin origin = {CONFIG_ENVIRONMENT, names[i], 0};
		const char *protocol = find(environment, names[i]);

		if (!protocol)
			continue;
		if (strcasecmp(protocol, "grpc"))
			config_warn(&origin, "only grpc is spoken: ignored");
		return;
	}
}

void config_environment_apply(struct config_load *load, char *const environment[])
{
	static const char disabled_name[] = "OTEL_SDK_DISABLED";
	const struct config_origin origin = {CONFIG_ENVIRONMENT, disabled_name, 0};
	const char *disabled = find(environment, disabled_name);

	for (size_t i = 0; i < CONFIG_OPTIONS; i++)
		apply_variables(load, &config_options[i], environment);
	check_protocol(environment);
	load->config.disabled = disabled && is_true(disabled, &origin);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment follows OpenTelemetry's "Environment Variable Specification":
 * - An empty variable counts as not set.
 * - A boolean is true only for "true".
 * - Wrong numbers, enumerations and resource attributes cause a warning and are ignored.
 * Wrong endpoints, files and headers are faults nevertheless: going on would send the profiles to
 * another place, or to none.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config_environment.h"
#include "config/config_value.h"
#include "config/text_input.h"

/* Returns the value of a variable, or NULL if it is not set or empty. */
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
		config_warn(origin, "must be true or false; it counts as false");
	return false;
}

/* Sets a timeout from a number of milliseconds. 0 means no limit; the greatest possible one is
 * used. */
static const char *set_timeout(const struct config_option *o, const char *text,
			       struct config *config, char reason[static CONFIG_REASON_BYTES])
{
	char with_unit[32];

	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 12) {
		snprintf(reason, CONFIG_REASON_BYTES, "must be a number of milliseconds");
		return reason;
	}
	if (strspn(text, "0") == strlen(text)) {
		*config_value_number(o, config) = o->max;
		return NULL;
	}
	snprintf(with_unit, sizeof(with_unit), "%sms", text);
	return config_value_set(o, with_unit, config, reason);
}

/* Returns true if the variable decides the option, so that the next variable is not looked at. */
static bool apply(struct config_state *state, const struct config_option *o, const char *text,
		  const struct config_origin *origin)
{
	char reason[CONFIG_REASON_BYTES];
	const char *fault;

	switch (o->type) {
	case CONFIG_TYPE_BOOLEAN:
		*config_value_boolean(o, &state->config) = is_true(text, origin);
		fault = NULL;
		break;
	case CONFIG_TYPE_DURATION:
		fault = set_timeout(o, text, &state->config, reason);
		break;
	case CONFIG_TYPE_COMPRESSION:
	case CONFIG_TYPE_ATTRIBUTES:
		fault = config_value_set(o, text, &state->config, reason);
		break;
	default:
		config_set(state, o, text, origin);
		return true;
	}
	if (fault)
		config_warn(origin, "%s; it is ignored", fault);
	else
		state->origins[o - config_options] = *origin;
	return !fault;
}

static void apply_variables(struct config_state *state, const struct config_option *o,
			    char *const environment[])
{
	for (size_t i = 0; i < sizeof(o->environment) / sizeof(o->environment[0]); i++) {
		const char *name = o->environment[i];
		const struct config_origin origin = {CONFIG_ENVIRONMENT, name, 0};
		const char *found = name ? find(environment, name) : NULL;
		char *copy = found ? strdup(found) : NULL;

		if (found && !copy)
			config_fault(state, &origin, "%s", strerror(ENOMEM));
		/* Variables that are filled from files often end with a newline. */
		const char *text = copy ? text_input_trim(copy) : "";
		const bool decided = *text && apply(state, o, text, &origin);
		if (copy)
			explicit_bzero(copy, strlen(found));
		free(copy);
		if (decided)
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
			config_warn(&origin, "only grpc is supported; it is ignored");
		return;
	}
}

void config_environment_apply(struct config_state *state, char *const environment[])
{
	static const char disabled_name[] = "OTEL_SDK_DISABLED";
	const struct config_origin origin = {CONFIG_ENVIRONMENT, disabled_name, 0};
	const char *disabled = find(environment, disabled_name);

	for (size_t i = 0; i < CONFIG_OPTIONS; i++)
		apply_variables(state, &config_options[i], environment);
	check_protocol(environment);
	state->config.disabled = disabled && is_true(disabled, &origin);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/config_value.h"

static void print_line(const struct config_origin *origin, const char *severity, const char *format,
		       va_list args) __attribute__((format(printf, 3, 0)));

static void print_line(const struct config_origin *origin, const char *severity, const char *format,
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

void config_fault(struct config_state *state, const struct config_origin *origin,
		  const char *format, ...)
{
	va_list args;

	if (state->faults++ >= CONFIG_FAULTS_SHOWN)
		return;
	va_start(args, format);
	print_line(origin, "", format, args);
	va_end(args);
}

void config_warn(const struct config_origin *origin, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(origin, "warning: ", format, args);
	va_end(args);
}

void config_set(struct config_state *state, const struct config_option *o, const char *text,
		const struct config_origin *origin)
{
	char reason[CONFIG_REASON_BYTES];
	const char *fault = config_value_set(o, text, &state->config, reason);

	if (!fault)
		state->origins[o - config_options] = *origin;
	else if (origin->kind == CONFIG_FLAG)
		config_fault(state, origin, "%s", fault);
	else
		config_fault(state, origin, "%s: %s", o->flag, fault);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "config/config_print.h"
#include "config/config_value.h"
#include "config/runtime_set.h"

enum {
	HELP_COLUMN = 46
};

static void print_section(size_t index, const char *format, FILE *out)
{
	const char *section = config_options[index].section;

	if (!index || strcmp(section, config_options[index - 1].section))
		fprintf(out, format, section);
}

void config_print_help(FILE *out)
{
	fputs(
	    "usage: bulkhead run [options]\n"
	    "\n"
	    "Profile the whole machine continuously and send the profiles by OTLP/gRPC.\n"
	    "\n"
	    "  --config FILE   read FILE instead of " CONFIG_DEFAULT_FILE "; then conf.d/*.conf\n"
	    "                  in the same directory, in the order of their names\n"
	    "  --check         check the configuration and the files that it names, and end\n"
	    "  --dump          print each value and where it comes from\n"
	    "  --sample        print a configuration file with all options and their defaults\n"
	    "\n"
	    "Flags override the environment (OpenTelemetry's OTEL_... variables), which overrides\n"
	    "the files. Each option below shows its default in parentheses.\n",
	    out);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		int used;

		print_section(i, "\n[%s]\n", out);
		/* Options that are secret have no flag. */
		if (o->traits & CONFIG_SECRET)
			continue;
		used = fprintf(out, "  --%s %s", o->flag, config_value_placeholder(o));
		fprintf(out, "%*s%s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "", o->help);
		if (*o->built_in)
			fprintf(out, " (%s)", o->built_in);
		fputc('\n', out);
	}
	fputs("\nExit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 the kernel lacks "
	      "a\n"
	      "required feature, 4 not permitted, 5 not everything was sent to the backend\n",
	      out);
}

static void print_variables(const struct config_option *o, FILE *out)
{
	if (!o->environment[0])
		return;
	fprintf(out, "# In the environment: %s", o->environment[0]);
	if (o->environment[1])
		fprintf(out, ", %s", o->environment[1]);
	fputc('\n', out);
}

void config_print_sample(FILE *out)
{
	fputs(
	    "# Configuration of bulkhead run, with the built-in values. Remove a # to change one.\n"
	    "# A comment needs a line of its own. Times: 500ms, 10s, 5m, 24h, 30d. Sizes: 64KiB, "
	    "3.5MiB, 1GiB.\n",
	    out);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];

		print_section(i, "\n[%s]\n", out);
		fprintf(out, "# %s", o->help);
		if (o->type <= CONFIG_TYPE_SIZE) {
			fputs(" (", out);
			config_value_print_bounds(o, out);
			fputc(')', out);
		} else if (o->type == CONFIG_TYPE_RUNTIMES) {
			fprintf(out, " (%s)", runtime_set_names());
		} else if (o->type == CONFIG_TYPE_BOOLEAN || o->type == CONFIG_TYPE_COMPRESSION) {
			fprintf(out, " (%s)", config_value_placeholder(o));
		}
		if (o->traits & CONFIG_SECRET)
			fputs("; secret: other users must not be able to read this file", out);
		fputc('\n', out);
		print_variables(o, out);
		fprintf(out, "#%s =%s%s\n", o->key, *o->built_in ? " " : "", o->built_in);
	}
}

void config_print_dump(const struct config_state *state, FILE *out)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		const struct config_origin *origin = &state->origins[i];

		fprintf(out, "%s = ", o->flag);
		config_value_print(o, &state->config, out);
		switch (origin->kind) {
		case CONFIG_BUILT_IN:
			fputs(" # built in\n", out);
			break;
		case CONFIG_FILE:
			fprintf(out, " # %s:%u\n", origin->name, origin->line);
			break;
		case CONFIG_ENVIRONMENT:
			fprintf(out, " # environment %s\n", origin->name);
			break;
		case CONFIG_FLAG:
			fprintf(out, " # flag --%s\n", origin->name);
			break;
		}
	}
	if (state->config.disabled)
		fputs("# nothing is profiled: environment OTEL_SDK_DISABLED\n", out);
}

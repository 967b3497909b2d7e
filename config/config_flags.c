/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getopt_long() is not used: it accepts abbreviated flags, which would become ambiguous when an
 * option is added to the table.
 */
#include <stdio.h>
#include <string.h>

#include "config/config_flags.h"
#include "common/log.h"

enum {
	NAME_BYTES = 64
};

/* Escapes `text` up to the first =. What follows it may be a secret. */
static const char *escape_name(const char *text, char shown[static NAME_BYTES])
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	return log_escape(name, shown, NAME_BYTES);
}

static void refuse_unknown(struct config_state *state, const char *argument)
{
	char shown[NAME_BYTES], section[NAME_BYTES];
	const struct config_option *meant;
	char *key;

	escape_name(argument, shown);
	snprintf(section, sizeof(section), "%s", shown + strspn(shown, "-"));
	key = strchr(section, '.');
	if (key)
		*key++ = 0;
	/* A flag without a section may be meant as a key. */
	meant = config_table_nearest(section, key ? key : section);
	if (meant && !(meant->traits & CONFIG_SECRET))
		config_fault(state, NULL, "%s: unknown flag; did you mean --%s?", shown,
			     meant->flag);
	else
		config_fault(state, NULL, "%s: unknown flag; see bulkhead run --help", shown);
}

static bool set_mode(struct config_state *state, const char *flag)
{
	static const struct {
		const char *flag;
		enum config_mode mode;
	} modes[] = {
	    {"--check", CONFIG_CHECK}, {"--dump", CONFIG_DUMP}, {"--sample", CONFIG_SAMPLE},
	    {"--help", CONFIG_HELP},   {"-h", CONFIG_HELP},
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(flag, modes[i].flag)) {
			if (state->mode < modes[i].mode)
				state->mode = modes[i].mode;
			return true;
		}
	}
	return false;
}

/* Returns the option that "-F", "--freq" or "--section.key" (`length` bytes of `argument`) stands
 * for. */
static const struct config_option *find(const char *argument, size_t length)
{
	if (argument[1] == 'F' || (length == 6 && !strncmp(argument, "--freq", length)))
		return &config_options[OPTION_agent_frequency];
	return length > 2 ? config_table_find_flag(argument + 2, length - 2) : NULL;
}

/* Accepts "-F20", "-F 20", "--name=value" and "--name value". An unknown flag ends the parsing,
 * since the next argument may be its value. */
void config_flags_read(struct config_state *state, int argc, char **argv)
{
	static const char file[] = "--config";

	for (int i = 1; i < argc; i++) {
		const char *argument = argv[i];
		const size_t length = strcspn(argument, "=");
		const bool is_file = length == strlen(file) && !strncmp(argument, file, length);
		char shown[NAME_BYTES];

		if (set_mode(state, argument))
			continue;
		if (strncmp(argument, "--", 2) && strncmp(argument, "-F", 2)) {
			refuse_unknown(state, argument);
			return;
		}
		const struct config_option *o = is_file ? NULL : find(argument, length);
		const char *value = argument[1] == 'F'
					? (argument[2] ? argument + 2 : NULL)
					: (argument[length] ? argument + length + 1 : NULL);
		if (!o && !is_file) {
			refuse_unknown(state, argument);
			return;
		}
		if (!value && ++i < argc)
			value = argv[i];
		if (!value)
			config_fault(state, NULL,
				     "%s: the value is missing; see bulkhead run --help",
				     escape_name(argument, shown));
		else if (is_file)
			state->file = value;
		else if (o->traits & CONFIG_SECRET)
			config_fault(state, NULL,
				     "--%s: is secret, and every user can see flags; set it in a "
				     "file or in the environment, or use --export.headers_file",
				     o->flag);
		else
			state->flag_values[o - config_options] = value;
	}
}

void config_flags_apply(struct config_state *state)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_origin origin = {CONFIG_FLAG, config_options[i].flag, 0};

		if (state->flag_values[i])
			config_set(state, &config_options[i], state->flag_values[i], &origin);
	}
}

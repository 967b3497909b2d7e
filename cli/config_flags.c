/* SPDX-License-Identifier: Apache-2.0 */
/* Not getopt_long: flags come from the table, and abbreviated ones would break when it grows. */
#include <stdio.h>
#include <string.h>

#include "cli/config_load.h"
#include "common/log.h"

enum {
	NAME_BYTES = 64
};

/* `text` up to a =, behind which may be a secret, fit to be shown. */
static const char *show(const char *text, char shown[static NAME_BYTES])
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	return log_escape(name, shown, NAME_BYTES);
}

static void refuse_unknown(struct config_load *load, const char *argument)
{
	char shown[NAME_BYTES], section[NAME_BYTES];
	const struct config_option *meant;
	char *key;

	show(argument, shown);
	snprintf(section, sizeof(section), "%s", shown + strspn(shown, "-"));
	key = strchr(section, '.');
	if (key)
		*key++ = 0;
	/* A flag without a section is a key to those who know the files. */
	meant = config_table_nearest(section, key ? key : section);
	if (meant && !(meant->traits & CONFIG_SECRET))
		config_fault(load, NULL, "%s: unknown flag; did you mean --%s?", shown,
			     meant->flag);
	else
		config_fault(load, NULL, "%s: unknown flag; see bulkhead run --help", shown);
}

static bool set_mode(struct config_load *load, const char *flag)
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
			if (load->mode < modes[i].mode)
				load->mode = modes[i].mode;
			return true;
		}
	}
	return false;
}

/* The option that "-F", "--freq" or "--section.key" (`length` bytes of `argument`) stands for. */
static const struct config_option *find(const char *argument, size_t length)
{
	if (argument[1] == 'F' || (length == 6 && !strncmp(argument, "--freq", length)))
		return &config_options[OPTION_agent_frequency];
	return length > 2 ? config_table_find_flag(argument + 2, length - 2) : NULL;
}

/* "-F20", "-F 20"; "--name=value", "--name value". Ends at what is unknown, since nobody knows
 * whether it has a value. */
void config_flags_read(struct config_load *load, int argc, char **argv)
{
	static const char file[] = "--config";

	for (int i = 1; i < argc; i++) {
		const char *argument = argv[i];
		const size_t length = strcspn(argument, "=");
		const bool is_file = length == strlen(file) && !strncmp(argument, file, length);
		char shown[NAME_BYTES];

		if (set_mode(load, argument))
			continue;
		if (strncmp(argument, "--", 2) && strncmp(argument, "-F", 2)) {
			refuse_unknown(load, argument);
			return;
		}
		const struct config_option *o = is_file ? NULL : find(argument, length);
		const char *value = argument[1] == 'F'
					? (argument[2] ? argument + 2 : NULL)
					: (argument[length] ? argument + length + 1 : NULL);
		if (!o && !is_file) {
			refuse_unknown(load, argument);
			return;
		}
		if (!value && ++i < argc)
			value = argv[i];
		if (!value)
			config_fault(load, NULL,
				     "%s: its value is missing; see bulkhead run --help",
				     show(argument, shown));
		else if (is_file)
			load->file = value;
		else if (o->traits & CONFIG_SECRET)
			config_fault(load, NULL,
				     "--%s: it is secret, and everyone sees flags: set it in a "
				     "file or in the environment, or use --export.headers_file",
				     o->flag);
		else
			load->flag_values[o - config_options] = value;
	}
}

void config_flags_apply(struct config_load *load)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_origin origin = {CONFIG_FLAG, config_options[i].flag, 0};

		if (load->flag_values[i])
			config_set(load, &config_options[i], load->flag_values[i], &origin);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options, made from config.def, and searches in it. */
#ifndef CONFIG_CONFIG_TABLE_H
#define CONFIG_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum config_type {
	CONFIG_TYPE_NUMBER,
	CONFIG_TYPE_PERCENT,
	CONFIG_TYPE_DURATION, /* stored in nanoseconds */
	CONFIG_TYPE_SIZE,     /* in bytes */
	CONFIG_TYPE_BOOLEAN,
	CONFIG_TYPE_COMPRESSION, /* none or gzip */
	CONFIG_TYPE_RUNTIMES,	 /* stored as a set of 1 << enum runtime_id */
	CONFIG_TYPE_TEXT,
	CONFIG_TYPE_FILE,
	CONFIG_TYPE_DIRECTORY, /* an absolute path */
	CONFIG_TYPE_ENDPOINT,
	CONFIG_TYPE_HEADERS,
	CONFIG_TYPE_ATTRIBUTES,
	CONFIG_TYPE_NAMES, /* of environment variables */
	CONFIG_TYPE_GROUP,
	CONFIG_TYPE_DIRECTORIES, /* absolute paths, separated by colons */
};

enum config_traits {
	CONFIG_SECRET = 1,   /* never shown; has no flag */
	CONFIG_OPTIONAL = 2, /* may be empty */
	CONFIG_ZERO = 4,     /* 0 is allowed although it is below the minimum */
};

struct config_option {
	const char *section, *key;
	const char *flag; /* "section.key": the flag without the -- */
	enum config_type type;
	size_t offset, size; /* of the member of struct config */
	const char *built_in;
	uint64_t min, max;
	const char *environment[2]; /* NULL: none */
	unsigned int traits;
	const char *help;
};

/* The index of each option in config_options: OPTION_export_endpoint, ... */
enum config_index {
#define CONFIG_OPTION(section, key, ...) OPTION_##section##_##key,
#include "config/config.def"
#undef CONFIG_OPTION
	CONFIG_OPTIONS
};

extern const struct config_option config_options[CONFIG_OPTIONS];

/* Find an option by its section and key, or by its flag. Both return NULL if there is none. */
const struct config_option *config_table_find(const char *section, const char *key);
const struct config_option *config_table_find_flag(const char *name, size_t length);

/* Return the option or section for "did you mean": the one whose name differs least, or NULL if all
 * differ much. */
const struct config_option *config_table_nearest(const char *section, const char *key);
const char *config_table_nearest_section(const char *section);

#endif

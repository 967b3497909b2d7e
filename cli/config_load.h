/* SPDX-License-Identifier: Apache-2.0 */
/* The state of config_load, shared by its sources: flags, environment, files. */
#ifndef CLI_CONFIG_LOAD_H
#define CLI_CONFIG_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/config.h"
#include "cli/config_table.h"

enum {
	CONFIG_FILES_MAX = 256, /* with conf.d's */
	CONFIG_FILE_BYTES = 1 << 20,
	CONFIG_FAULTS_SHOWN = 50
};

#define CONFIG_DEFAULT_FILE "/etc/bulkhead/bulkhead.conf"

enum config_mode {
	CONFIG_RUN,
	CONFIG_CHECK,
	CONFIG_DUMP,
	CONFIG_SAMPLE,
	CONFIG_HELP, /* the greatest of what is asked for is done */
};

struct config_origin {
	enum config_origin_kind kind;
	const char *name;  /* path, variable, flag without the --; NULL if built in */
	unsigned int line; /* of a file; 0: the file as a whole */
};

struct config_load {
	struct config config;
	struct config_origin origins[CONFIG_OPTIONS];
	char *paths[CONFIG_FILES_MAX]; /* owned; origins point at them */
	size_t path_count;
	unsigned int faults;

	/* From the flags. */
	enum config_mode mode;
	const char *file;			 /* NULL: the default */
	const char *flag_values[CONFIG_OPTIONS]; /* NULL: not given */
};

/* One line on stderr: where, what is wrong. */
void config_fault(struct config_load *load, const struct config_origin *origin, const char *format,
		  ...) __attribute__((format(printf, 3, 4)));
void config_warn(const struct config_origin *origin, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Set an option and remember where it came from; a fault if the text is wrong. */
void config_set(struct config_load *load, const struct config_option *option, const char *text,
		const struct config_origin *origin);

/* The sources; faults are counted in `load`. */
void config_flags_read(struct config_load *load, int argc, char **argv);
void config_flags_apply(struct config_load *load);
void config_environment_apply(struct config_load *load, char *const environment[]);
/* The file and its conf.d. `required`: it must exist. */
void config_files_apply(struct config_load *load, const char *path, bool required);

/* --help, --sample, --dump. */
void config_print_help(FILE *out);
void config_print_sample(FILE *out);
void config_print_dump(const struct config_load *load, FILE *out);

#endif

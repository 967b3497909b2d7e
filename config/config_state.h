/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state while the configuration is loaded: the values so far, where each came from, and how
 * many faults were found. The sources (flags, environment, files) and the checks work on it.
 */
#ifndef CONFIG_CONFIG_STATE_H
#define CONFIG_CONFIG_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/config_table.h"

enum {
	CONFIG_FILES_MAX = 256, /* including those in conf.d/ */
	CONFIG_FAULTS_SHOWN = 50
};

/* From which source a value came. */
enum config_origin_kind {
	CONFIG_BUILT_IN,
	CONFIG_FILE,
	CONFIG_ENVIRONMENT,
	CONFIG_FLAG
};

#define CONFIG_DEFAULT_FILE "/etc/bulkhead/bulkhead.conf"

enum config_mode {
	CONFIG_RUN,
	CONFIG_CHECK,
	CONFIG_DUMP,
	CONFIG_SAMPLE,
	CONFIG_HELP, /* if several are asked for, the greatest is done */
};

struct config_origin {
	enum config_origin_kind kind;
	const char *name;  /* path, variable, or flag without the --; NULL if built in */
	unsigned int line; /* of a file; 0: the file as a whole */
};

struct config_state {
	struct config config;
	struct config_origin origins[CONFIG_OPTIONS];
	char *paths[CONFIG_FILES_MAX]; /* owned; origins point at them */
	size_t path_count;
	unsigned int faults;

	/* What the flags asked for. */
	enum config_mode mode;
	const char *file;			 /* NULL: the default */
	const char *flag_values[CONFIG_OPTIONS]; /* NULL: not given */
};

/* Prints a fault or a warning as one line on stderr: where it is, and what is wrong. Only the first
 * CONFIG_FAULTS_SHOWN faults are printed; all are counted. */
void config_fault(struct config_state *state, const struct config_origin *origin,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));
void config_warn(const struct config_origin *origin, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets an option and records where it came from. A wrong text is a fault, and the option keeps its
 * value. */
void config_set(struct config_state *state, const struct config_option *option, const char *text,
		const struct config_origin *origin);

#endif

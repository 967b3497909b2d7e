/* SPDX-License-Identifier: Apache-2.0 */
/* The value of one option: parsed from a text into struct config, and printed. */
#ifndef CONFIG_CONFIG_VALUE_H
#define CONFIG_CONFIG_VALUE_H

#include <stdint.h>
#include <stdio.h>

#include "config/config.h"
#include "config/config_table.h"

enum {
	CONFIG_REASON_BYTES = 256
};

/* Sets an option from a text. Returns NULL; or `reason`, which then says what is wrong without
 * quoting the text, and `config` is unchanged. */
const char *config_value_set(const struct config_option *option, const char *text,
			     struct config *config, char reason[static CONFIG_REASON_BYTES]);

/* Prints the value as in a file; a secret only as (set) or (not set). */
void config_value_print(const struct config_option *option, const struct config *config, FILE *out);

/* Prints "1 ... 997" or "1s ... 5m, or 0"; nothing for an option without bounds. */
void config_value_print_bounds(const struct config_option *option, FILE *out);

/* Returns "TIME" or "none|gzip": the placeholder of the value in --help. */
const char *config_value_placeholder(const struct config_option *option);

/* Return the member of `config` that holds the value. There are three kinds of members. */
uint64_t *config_value_number(const struct config_option *option, struct config *config);
bool *config_value_boolean(const struct config_option *option, struct config *config);
char *config_value_text(const struct config_option *option, struct config *config);

#endif

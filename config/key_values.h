/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of names and values. They are parsed from "name=value,name=value", the format of
 * OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES (W3C Baggage without properties), and
 * from files of headers.
 */
#ifndef CONFIG_KEY_VALUES_H
#define CONFIG_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KEY_VALUES_MAX = 64,
	KEY_VALUES_HEADERS_MAX = 32, /* the limit of the transport */
	KEY_VALUES_BYTES = 16384,    /* of all names and values, each with a NUL */
	KEY_VALUES_FILE_BYTES = 65536,
	KEY_VALUES_REASON_BYTES = 160
};

enum key_values_kind {
	/* gRPC metadata: names in lower case; values of visible ASCII and spaces */
	KEY_VALUES_HEADERS,
	/* names and values are UTF-8 without control characters */
	KEY_VALUES_ATTRIBUTES,
};

/* Initialised as {0}. It may hold secrets, which key_values_fini() wipes. It has no pointers, so it
 * can be copied. */
struct key_values {
	size_t count, used;
	uint16_t keys[KEY_VALUES_MAX], values[KEY_VALUES_MAX]; /* offsets into text */
	char text[KEY_VALUES_BYTES];
};

/* Return the name or the value of a pair, NUL-terminated, which is valid until the list changes. */
const char *key_values_key(const struct key_values *list, size_t index);
const char *key_values_value(const struct key_values *list, size_t index);
/* Returns the value of `key`, or NULL. */
const char *key_values_get(const struct key_values *list, const char *key);

/* Adds "name=value,name=value" to the list. %XX is decoded; spaces around names and values, and
 * empty pairs, are skipped. A name that exists gets the new value. Returns NULL; or `reason`, which
 * then names the wrong pair by its position without quoting it, and `list` must not be used. */
const char *key_values_parse(enum key_values_kind kind, const char *text, struct key_values *list,
			     char reason[static KEY_VALUES_REASON_BYTES]);

/* Does the same with a file of headers, which has one "name: value" per line. Nothing is decoded; a
 * line that starts with # is a comment; a name that is given twice is wrong. `line` is the wrong
 * line, 0 for the file as a whole. `exposed`: other users may read the file (mode o+r). */
const char *key_values_read_headers(const char *path, struct key_values *list, unsigned int *line,
				    bool *exposed, char reason[static KEY_VALUES_REASON_BYTES]);

void key_values_fini(struct key_values *list);

#define _cleanup_key_values_ __attribute__((cleanup(key_values_fini)))

#endif

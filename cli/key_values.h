/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of names and values: "name=value,name=value" of OTEL_EXPORTER_OTLP_HEADERS and
 * OTEL_RESOURCE_ATTRIBUTES (the form of W3C Baggage without properties), and files of headers.
 */
#ifndef CLI_KEY_VALUES_H
#define CLI_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KEY_VALUES_MAX = 64,
	KEY_VALUES_HEADERS_MAX = 32, /* as many as the transport takes */
	KEY_VALUES_BYTES = 16384,    /* of all, with a NUL each */
	KEY_VALUES_FILE_BYTES = 65536,
	KEY_VALUES_REASON_BYTES = 160
};

enum key_values_kind {
	/* gRPC metadata: names in lower case; values of visible ASCII and spaces. */
	KEY_VALUES_HEADERS,
	/* UTF-8 without control characters. */
	KEY_VALUES_ATTRIBUTES,
};

/* May hold secrets: key_values_fini wipes it. Begins as {0}; no pointer in it. */
struct key_values {
	size_t count, used;
	uint16_t keys[KEY_VALUES_MAX], values[KEY_VALUES_MAX]; /* offsets into text */
	char text[KEY_VALUES_BYTES];
};

/* NUL-terminated, valid until the list changes. */
const char *key_values_key(const struct key_values *list, size_t index);
const char *key_values_value(const struct key_values *list, size_t index);
/* The value of `key`, NULL if there is none. */
const char *key_values_get(const struct key_values *list, const char *key);

/* Add "name=value,name=value" to the list; %XX are decoded, spaces around names and values and
 * empty members are left out. A name that is there already gets the new value. NULL; or what is
 * wrong, without any of the text but the number of the pair, written to `reason`: `list` is then to
 * be given up. */
const char *key_values_parse(enum key_values_kind kind, const char *text, struct key_values *list,
			     char reason[static KEY_VALUES_REASON_BYTES]);

/* Likewise for a file of headers: "name: value" a line, as they are (nothing is decoded), # begins
 * a comment line. A name given twice in it is wrong. `line`: where it is wrong, 0: the file as a
 * whole. `exposed`: others may read it (mode o+r). */
const char *key_values_read_headers(const char *path, struct key_values *list, unsigned int *line,
				    bool *exposed, char reason[static KEY_VALUES_REASON_BYTES]);

void key_values_fini(struct key_values *list);

#define _cleanup_key_values_ __attribute__((cleanup(key_values_fini)))

#endif

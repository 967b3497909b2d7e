/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parsers of a configuration file, a file of headers, an endpoint, and key-value pairs. The
 * first byte of the input selects the parser. An accepted value must satisfy the parser's header. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config_load.h"
#include "config/config_table.h"
#include "config/config_value.h"
#include "config/endpoint.h"
#include "config/key_values.h"
#include "config/text_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void check_list(enum key_values_kind kind, const struct key_values *list)
{
	check(list->count <=
	      (kind == KEY_VALUES_HEADERS ? KEY_VALUES_HEADERS_MAX : KEY_VALUES_MAX));
	check(list->used <= sizeof(list->text));
	for (size_t i = 0; i < list->count; i++) {
		const char *key = key_values_key(list, i);

		check(*key && text_input_printable(key));
		check(text_input_printable(key_values_value(list, i)));
		check(key_values_get(list, key) == key_values_value(list, i));
		if (kind == KEY_VALUES_HEADERS)
			check(strncmp(key, "grpc-", 5) && !strpbrk(key, " :=,ABCXYZ\""));
	}
}

static void check_config(struct config *c)
{
	char reason[CONFIG_REASON_BYTES];

	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];

		if (o->type <= CONFIG_TYPE_SIZE) {
			const uint64_t n = *config_value_number(o, c);

			check((n >= o->min && n <= o->max) || (!n && o->traits & CONFIG_ZERO));
		} else if (o->type >= CONFIG_TYPE_TEXT) {
			char *text = config_value_text(o, c);

			check(memchr(text, 0, o->size) != NULL);
			check(text_input_printable(text));
			check(*text || o->traits & CONFIG_OPTIONAL);
			/* What was accepted once is accepted again. */
			char *copy = strdup(text);
			check(!config_value_set(o, copy, c, reason) && !strcmp(copy, text));
			free(copy);
		}
	}
	check(c->spool_memory_bytes >= c->max_request_bytes);
	check(!*c->key_file == !*c->certificate_file);
}

static void check_endpoint(const struct endpoint *e)
{
	const char *path = endpoint_local_path(e->target);

	check(e->local == (path != NULL));
	if (e->local)
		check(!e->port && !e->tls && e->loopback && *path == '/' &&
		      strlen(path) < ENDPOINT_PATH_BYTES);
	else
		check(e->port && strlen(e->target) > 2 && strrchr(e->target, ':') &&
		      !strpbrk(e->target, "/@?# %"));
}

static void try_text(unsigned int kind, const char *text)
{
	char reason[KEY_VALUES_REASON_BYTES];
	struct key_values list = {0};
	struct endpoint e;

	if (kind == 2) {
		if (!endpoint_parse(text, true, &e))
			check_endpoint(&e);
		return;
	}
	const enum key_values_kind which = kind == 3 ? KEY_VALUES_HEADERS : KEY_VALUES_ATTRIBUTES;
	if (!key_values_parse(which, text, &list, reason))
		check_list(which, &list);
}

static void try_file(unsigned int kind, const char *path)
{
	char reason[KEY_VALUES_REASON_BYTES];
	char *argv[] = {(char *)(uintptr_t) "run", (char *)(uintptr_t) "--config",
			(char *)(uintptr_t)path};
	struct key_values list = {0};
	static struct config config;
	unsigned int line;
	bool exposed;

	if (kind == 0) {
		if (!config_load(3, argv, NULL, &config))
			check_config(&config);
	} else if (!key_values_read_headers(path, &list, &line, &exposed, reason)) {
		check_list(KEY_VALUES_HEADERS, &list);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	char path[64];

	if (!nowhere) {
		/* libFuzzer and the sanitizers write to descriptor 2 without stderr. */
		nowhere = fopen("/dev/null", "w");
		check(nowhere != NULL);
		stderr = nowhere;
	}
	if (!size)
		return 0;
	const unsigned int kind = data[0] % 5;
	if (kind >= 2) {
		char *text = strndup((const char *)data + 1, size - 1);

		try_text(kind, text);
		free(text);
		return 0;
	}
	const int fd = memfd_create("config", 0);
	check(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	try_file(kind, path);
	close(fd);
	return 0;
}

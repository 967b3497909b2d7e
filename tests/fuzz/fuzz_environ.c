/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of /proc/PID/environ. In addition to memory errors, it checks what environ.h
 * promises. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse/environ.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

/* Returns the value of `name` as getenv(3) would find it. */
static const char *first_value(const char *block, size_t size, const char *name)
{
	const size_t n = strlen(name);

	for (size_t at = 0; at < size;) {
		const char *end = memchr(block + at, 0, size - at);

		if (!end)
			return NULL;
		if (!strncmp(block + at, name, n) && block[at + n] == '=')
			return block + at + n + 1;
		at = (size_t)(end - block) + 1;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"OTEL_SERVICE_NAME", "A", "AA"};
	struct environ_variable v[3];

	memset(v, 'x', sizeof(v));
	for (int i = 0; i < 3; i++)
		v[i].name = names[i];
	environ_find((const char *)data, size, v, 3);
	for (int i = 0; i < 3; i++) {
		const char *value = first_value((const char *)data, size, names[i]);

		check(v[i].found == (value != NULL));
		check(memchr(v[i].value, 0, sizeof(v[i].value)));
		for (const char *c = v[i].value; *c; c++)
			check((uint8_t)*c >= 0x20 && *c != 0x7f);
		/* Plain text is not changed. */
		size_t plain = 0;
		while (value && value[plain] >= 0x20 && value[plain] < 0x7f &&
		       plain < ENVIRON_VALUE_MAX)
			plain++;
		check(!value || !strncmp(value, v[i].value, plain));
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/environ.h"

#include <string.h>

#include "common/utf8.h"

/* Takes an entry if it is the variable and the first of this name. */
static void entry_take(const char *entry, size_t length, struct environ_variable *variable)
{
	const size_t name_length = strlen(variable->name);

	if (variable->found || length <= name_length || entry[name_length] != '=' ||
	    memcmp(entry, variable->name, name_length))
		return;
	variable->found = true;
	utf8_copy(variable->value, sizeof(variable->value), entry + name_length + 1,
		  length - name_length - 1, UTF8_NO_CONTROLS);
}

void environ_find(const char *block, size_t length, struct environ_variable *variables,
		  unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		variables[i].found = false;
		variables[i].value[0] = 0;
	}
	while (length) {
		const char *end = memchr(block, 0, length);

		if (!end)
			return;
		const size_t n = (size_t)(end - block);
		for (unsigned int i = 0; i < count; i++)
			entry_take(block, n, &variables[i]);
		block = end + 1;
		length -= n + 1;
	}
}

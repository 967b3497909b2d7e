/* SPDX-License-Identifier: Apache-2.0 */
/* Text as /proc/PID/maps, and as /proc/PID/stat. Besides memory, it checks what proc_maps.h promises. */
#include <stdlib.h>
#include <string.h>

#include "parse/proc_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
	const char *begin, *end;
	size_t lines;
};

static void check(bool good)
{
	if (!good)
		abort();
}

static void on_mapping(void *context, const struct proc_mapping *mapping)
{
	struct text *text = context;

	check(mapping->start < mapping->end);
	check(mapping->path >= text->begin && mapping->path <= text->end);
	check(mapping->path_length <= (size_t)(text->end - mapping->path));
	check(!memchr(mapping->path, '\n', mapping->path_length));
	text->lines++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = {.begin = (const char *)data, .end = (const char *)data + size};
	size_t lines = size && data[size - 1] != '\n';
	char comm[17];

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	unsigned int skipped = proc_maps_parse(text.begin, size, on_mapping, &text);
	check(text.lines + skipped == lines);
	memset(comm, 'x', sizeof(comm));
	bool found = proc_stat_comm(text.begin, size, comm, sizeof(comm) - 1);
	check(comm[16] == 'x');
	check(!found || memchr(comm, 0, 16));
	uint64_t ticks;
	check(!proc_stat_start(text.begin, size, &ticks) || memrchr(text.begin, ')', size));
	return 0;
}

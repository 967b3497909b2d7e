/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parsers of /proc/PID/maps and /proc/PID/stat. In addition to memory errors, it checks
 * what proc_maps.h promises. */
#include <stdlib.h>
#include <string.h>

#include "parse/proc_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
	const char *start, *end;
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
	check(mapping->path >= text->start && mapping->path <= text->end);
	check(mapping->path_length <= (size_t)(text->end - mapping->path));
	check(!memchr(mapping->path, '\n', mapping->path_length));
	text->lines++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = {.start = (const char *)data, .end = (const char *)data + size};
	size_t lines = size && data[size - 1] != '\n';
	char comm[17];

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	unsigned int skipped = proc_maps_parse(text.start, size, on_mapping, &text);
	check(text.lines + skipped == lines);
	memset(comm, 'x', sizeof(comm));
	bool found = proc_stat_comm(text.start, size, comm, sizeof(comm) - 1);
	check(comm[16] == 'x');
	check(!found || memchr(comm, 0, 16));
	uint64_t ticks;
	check(!proc_stat_start(text.start, size, &ticks) || memrchr(text.start, ')', size));
	return 0;
}

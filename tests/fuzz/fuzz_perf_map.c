/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of maps of generated code, and the names that are made of them. The first byte
 * is the size of the pieces. In addition to memory errors, it checks that at each address the line
 * that was read last counts. */
#include <stdlib.h>
#include <string.h>

#include "parse/perf_map.h"
#include "tests/fuzz/seen_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_entry(void *context, const struct perf_map_entry *entry)
{
	struct seen *seen = context;

	check(entry->start < entry->end && entry->end <= PERF_MAP_END_MAX);
	check(entry->name_length && entry->name_length <= PERF_MAP_LINE_MAX);
	check(!memchr(entry->name, '\n', entry->name_length));
	check(!memchr(entry->name, 0, entry->name_length));
	if (seen->count == ENTRIES_MAX)
		return 1;
	seen->entries[seen->count++] =
	    (struct jit_entry){.start = entry->start, .end = entry->end, .id = ++seen->id};
	const struct jit_range range = {.start = entry->start, .end = entry->end, .id = seen->id};
	return jit_symbols_add(&seen->symbols, &range, entry->name, entry->name_length);
}

static void check_address(const struct seen *seen, uint64_t address)
{
	const struct jit_entry *entry = jit_symbols_find(&seen->symbols, address);

	check(!entry || jit_symbols_name(&seen->symbols, entry)[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct perf_map_parser parser;
	struct seen seen = {.count = 0};
	bool replaced = false;

	if (!size)
		return 0;
	const size_t piece = data[0] + 1u;
	perf_map_init(&parser);
	for (size_t at = 1; at < size; at += piece) {
		if (perf_map_feed(&parser, (const char *)data + at,
				  size - at < piece ? size - at : piece, on_entry, &seen))
			break;
		check(parser.skipped <= parser.lines);
		check(jit_symbols_sort(&seen.symbols, &replaced) == 0);
	}
	check(jit_symbols_sort(&seen.symbols, &replaced) == 0);
	seen_check_all(&seen, check_address);
	jit_symbols_free(&seen.symbols);
	return 0;
}

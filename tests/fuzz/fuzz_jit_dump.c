/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of jitdump files, and the names and lines that are made of them. The first byte
 * says how many bytes more are there at a time. In addition to memory errors, it checks that at
 * each address the code that came last counts, and that the parser gets on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/jit_dump.h"
#include "tests/fuzz/seen_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_code(struct seen *seen, const struct jit_dump_event *event)
{
	if (seen->count == ENTRIES_MAX)
		return -E2BIG;
	const struct jit_range range = {.start = event->start,
					.end = event->end,
					.id = seen->id + 1,
					.time_ns = event->time_ns};
	const int r =
	    event->kind == JIT_DUMP_MOVE
		? jit_symbols_move(&seen->symbols, event->from, &range)
		: jit_symbols_add(&seen->symbols, &range, event->text, event->text_length);
	if (r == -ENOENT)
		return 0;
	check(r == 0);
	seen->entries[seen->count++] = (struct jit_entry){
	    .start = event->start, .end = event->end, .id = ++seen->id, .time_ns = event->time_ns};
	return 0;
}

static int on_event(void *context, const struct jit_dump_event *event)
{
	struct seen *seen = context;

	check(event->start < event->end && event->end <= JIT_DUMP_END_MAX);
	check(!event->text_length || !memchr(event->text, 0, event->text_length));
	switch (event->kind) {
	case JIT_DUMP_LINES:
		jit_symbols_drop_lines(&seen->symbols);
		return 0;
	case JIT_DUMP_LINE:
		check(event->text_length <= JIT_DUMP_FILE_MAX);
		check(!(event->same_file && event->text_length));
		jit_symbols_add_line(&seen->symbols, event->start & 0xffff, event->line,
				     event->same_file ? NULL : event->text, event->text_length);
		return 0;
	case JIT_DUMP_LOAD:
		check(event->text_length && event->text_length <= JIT_DUMP_NAME_MAX);
		return on_code(seen, event);
	case JIT_DUMP_MOVE:
		return on_code(seen, event);
	}
	return 0;
}

static void check_address(const struct seen *seen, uint64_t address)
{
	const struct jit_entry *entry = jit_symbols_find(&seen->symbols, address);
	const char *file;

	if (!entry)
		return;
	check(jit_symbols_name(&seen->symbols, entry)[0]);
	/* At any time, it is some code with this address. */
	for (size_t i = 0; i < seen->count; i++) {
		const struct jit_entry *then =
		    jit_symbols_find_at(&seen->symbols, address, seen->entries[i].time_ns);

		check(then && address >= then->start && address < then->end);
		check(jit_symbols_name(&seen->symbols, then)[0]);
	}
	jit_symbols_line(&seen->symbols, entry, address, 0, &file);
	check(strlen(file) <= JIT_DUMP_FILE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_dump_parser parser;
	struct seen seen = {.count = 0};
	bool replaced = false;
	ssize_t used = 0;

	if (!size)
		return 0;
	const size_t piece = data[0] + 1u;
	jit_dump_init(&parser);
	for (size_t at = 1, end = 1; end < size && used >= 0;) {
		end = size - end < piece ? size : end + piece;
		used = jit_dump_feed(&parser, data + at, end - at, on_event, &seen);
		check(used <= (ssize_t)(end - at));
		check(used || end - at < JIT_DUMP_PIECE_BYTES || !memcmp(data + at, "\0\0\0", 4));
		at += used < 0 ? 0 : (size_t)used;
		at += jit_dump_skip(&parser, end - at);
		check(jit_symbols_sort(&seen.symbols, &replaced) == 0);
	}
	seen_check_all(&seen, check_address);
	jit_symbols_free(&seen.symbols);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/v8_builtins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_window.h"

enum {
	HASHES_BYTES = 24, /* before the table of builtins */
	TABLE_ALIGNMENT = 8,
	CODE_ALIGNMENT = 64,
	PAGE_BYTES = 4096,
	INT3 = 0xcc,
	BUILTIN_BYTES_MAX = 1 << 20,
	WORD_BYTES = sizeof(uint32_t),
	/* Builtins that are compared before a place is looked at as a whole, and the most bytes of
	 * code that they have. V8's first ones have 7 KiB. */
	COMPARED = 8,
	COMPARED_BYTES_MAX = 32 << 10,
	/* Places that are looked at as a whole. Only a forged file has several. */
	CANDIDATES_MAX = 16,
	/* The alignment of the table of sizes (compilers align large arrays to 32 bytes), and how
	 * many sizes of each row are compared. */
	SIZES_ALIGNMENT = 16,
	SIZES_COMPARED = 14,
};

/* What is searched, in `need` bytes from each multiple of `alignment` on. */
struct scan {
	const struct elf_image *image;
	uint64_t alignment;
	size_t need;
	uint64_t left; /* bytes that may still be searched */
	unsigned int candidates;
	/* Returns whether the bytes look like what is searched. */
	bool (*matches)(const struct scan *scan, const uint8_t *bytes);
	/* Looks at a place as a whole. Returns 0, -ENOENT to go on, or an error. */
	int (*take)(struct scan *scan, uint64_t vaddr);
	struct v8_builtins_table *table;
	unsigned int bytecodes;
	uint64_t found;
};

static int scan_piece(void *context, uint64_t vaddr, struct cursor piece)
{
	struct scan *scan = context;
	int r = -ENOENT;

	for (uint64_t at = -vaddr & (scan->alignment - 1);
	     r == -ENOENT && at + scan->need <= cursor_left(&piece); at += scan->alignment) {
		if (scan->matches(scan, piece.at + at) && scan->candidates++ < CANDIDATES_MAX)
			r = scan->take(scan, vaddr + at);
	}
	return r;
}

static int scan_segments(struct scan *scan, bool executable)
{
	return elf_window_segments(scan->image, executable, &scan->left, scan->need, scan_piece,
				   scan);
}

/* Reads up to `most` bytes of the file at a virtual address into memory that the caller frees.
 * Returns 0, -ENOENT if fewer than `least` are there, or an error. */
static int read_some(const struct elf_image *image, uint64_t vaddr, size_t least, size_t most,
		     uint8_t **bytes, size_t *length)
{
	const struct elf_segment *segment = elf_image_find_segment(image, vaddr, least);

	if (!segment)
		return -ENOENT;
	const uint64_t there = segment->file_size - (vaddr - segment->vaddr);

	return elf_image_read_vaddr(image, vaddr, there < most ? there : most, most, bytes, length);
}

/* --- the table --- */

/* Reads an entry of the table, of the builtin that must begin at `offset`. Returns whether it is
 * one. */
static bool read_entry(struct cursor *c, unsigned int entry_words, uint32_t offset,
		       struct v8_builtin *builtin)
{
	builtin->offset = cursor_u32(c);
	builtin->bytes = cursor_u32(c);
	cursor_skip(c, (entry_words - 2) * WORD_BYTES);
	return !c->failed && builtin->offset == offset && builtin->bytes &&
	       builtin->bytes <= BUILTIN_BYTES_MAX;
}

/* Returns where the next builtin begins, in the block. */
static uint32_t builtin_end(const struct v8_builtin *builtin)
{
	return builtin->offset +
	       ((builtin->bytes + CODE_ALIGNMENT) & ~(uint32_t)(CODE_ALIGNMENT - 1));
}

static bool table_matches(const struct scan *scan, const uint8_t *bytes)
{
	struct cursor c = cursor_init(bytes + HASHES_BYTES, scan->need - HASHES_BYTES);
	struct v8_builtin builtin = {0};
	uint32_t offset = 0;

	for (unsigned int i = 0; i < COMPARED; i++) {
		if (!read_entry(&c, scan->table->entry_words, offset, &builtin))
			return false;
		offset = builtin_end(&builtin);
	}
	return offset <= COMPARED_BYTES_MAX;
}

static int table_take(struct scan *scan, uint64_t vaddr)
{
	struct v8_builtins_table *table = scan->table;
	const size_t entry_bytes = (size_t)table->entry_words * WORD_BYTES;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct v8_builtin builtin = {0};
	uint32_t offset = 0;
	size_t length;
	int r = read_some(scan->image, vaddr + HASHES_BYTES, V8_BUILTINS_LEAST * entry_bytes,
			  V8_BUILTINS_MAX * entry_bytes, &bytes, &length);

	if (r < 0)
		return r;
	struct cursor c = cursor_init(bytes, length);
	table->count = 0;
	while (table->count < V8_BUILTINS_MAX &&
	       read_entry(&c, table->entry_words, offset, &builtin)) {
		table->builtins[table->count++] = builtin;
		offset = builtin_end(&builtin);
		if (offset > V8_BUILTINS_CODE_BYTES_MAX)
			return -ENOENT;
	}
	table->code_bytes = offset;
	/* The file may have changed since the first ones were compared. */
	return table->count >= V8_BUILTINS_LEAST &&
		       builtin_end(&table->builtins[COMPARED - 1]) <= COMPARED_BYTES_MAX
		   ? 0
		   : -ENOENT;
}

/* --- the code --- */

/* Returns whether the code is followed by padding only, up to the next builtin. */
static bool is_padded(const struct v8_builtin *builtin, const uint8_t *code)
{
	for (uint32_t i = builtin->offset + builtin->bytes; i < builtin_end(builtin); i++) {
		if (code[i] != INT3)
			return false;
	}
	return true;
}

static bool code_matches(const struct scan *scan, const uint8_t *bytes)
{
	/* Padding alone is no code. */
	if (bytes[0] == INT3)
		return false;
	for (unsigned int i = 0; i < COMPARED; i++) {
		if (!is_padded(&scan->table->builtins[i], bytes))
			return false;
	}
	return true;
}

static int code_take(struct scan *scan, uint64_t vaddr)
{
	const struct v8_builtins_table *table = scan->table;
	_cleanup_free_ uint8_t *code = NULL;
	size_t length;
	int r = elf_image_read_vaddr(scan->image, vaddr, table->code_bytes, table->code_bytes,
				     &code, &length);

	for (unsigned int i = 0; r == 0 && i < table->count; i++)
		r = is_padded(&table->builtins[i], code) ? 0 : -ENOENT;
	if (r == 0)
		scan->found = vaddr;
	return r;
}

/* Returns the offset of `wanted` in the code from `from` on, or -1. */
static int find_code(const uint8_t *code, size_t length, size_t from, const char *wanted,
		     size_t wanted_length)
{
	const uint8_t *found = memmem(code + from, length - from, wanted, wanted_length);

	return found ? (int)(found - code) : -1;
}

bool v8_entry_examine(struct v8_entry *entry, const uint8_t *code, size_t length)
{
	/* push rbp; mov rbp, rsp; push rsi; push rdi; push rax */
	static const char push[] = "\x55\x48\x89\xe5\x56\x57\x50";
	static const char call[] = "\xff\xd1"; /* call rcx */
	/* leave; pop rcx; add rsp, rbx; push rcx; ret (until 12.4) */
	static const char leave[] = "\xc9\x59\x48\x03\xe3\x51\xc3";
	/* leave; pop rcx; lea rsp, [rsp + rbx * 8]; push rcx; ret */
	static const char leave_slots[] = "\xc9\x59\x48\x8d\x24\xdc\x51\xc3";

	if (length > V8_ENTRY_BYTES_MAX)
		return false;
	const int pushed = find_code(code, length, 0, push, sizeof(push) - 1);
	if (pushed < 0)
		return false;
	const int called = find_code(code, length, (size_t)pushed, call, sizeof(call) - 1);
	if (called < 0)
		return false;
	int left = find_code(code, length, (size_t)called, leave, sizeof(leave) - 1);
	size_t left_bytes = sizeof(leave) - 1;
	uint16_t shift = 0;
	if (left < 0) {
		left_bytes = sizeof(leave_slots) - 1;
		left = find_code(code, length, (size_t)called, leave_slots, left_bytes);
		shift = 3;
	}
	if (left < 0)
		return false;
	entry->shift = shift;
	entry->push = (uint16_t)pushed;
	entry->call = (uint16_t)called;
	entry->leave = (uint16_t)left;
	entry->removed = (uint16_t)((size_t)left + left_bytes - 2);
	return true;
}

int v8_builtins_find_table(struct v8_builtins_table *table, const struct elf_image *image,
			   uint64_t *start)
{
	struct scan of_table = {.image = image,
				.alignment = TABLE_ALIGNMENT,
				.need = HASHES_BYTES +
					(size_t)COMPARED * table->entry_words * WORD_BYTES,
				.left = V8_SEARCH_BYTES_MAX,
				.matches = table_matches,
				.take = table_take,
				.table = table};
	int r = scan_segments(&of_table, false);
	/* Some linkers place read-only data next to code. */
	if (r == -ENOENT)
		r = scan_segments(&of_table, true);
	if (r < 0)
		return r;
	struct scan of_code = {.image = image,
			       .alignment = PAGE_BYTES,
			       .need = builtin_end(&table->builtins[COMPARED - 1]),
			       .left = V8_SEARCH_BYTES_MAX,
			       .matches = code_matches,
			       .take = code_take,
			       .table = table};
	r = scan_segments(&of_code, true);
	*start = of_code.found;
	return r;
}

/* Finds InterpreterEntryTrampoline before the handlers, of which the first is `end`. */
static int find_entry(struct v8_builtins *builtins, const struct elf_image *image,
		      const struct v8_builtins_table *table, unsigned int end)
{
	for (unsigned int i = 0; i < end; i++) {
		const struct v8_builtin *b = &table->builtins[i];
		_cleanup_free_ uint8_t *code = NULL;
		struct v8_entry entry;
		size_t length;
		int r = elf_image_read_vaddr(image, builtins->start + b->offset, b->bytes,
					     BUILTIN_BYTES_MAX, &code, &length);

		if (r < 0)
			return r;
		if (!v8_entry_examine(&entry, code, length))
			continue;
		builtins->entry = builtins->start + b->offset;
		builtins->entry_end = builtins->entry + b->bytes;
		return 0;
	}
	return -ENOENT;
}

int v8_builtins_find(struct v8_builtins *builtins, const struct elf_image *image,
		     const struct v8_builtins_form *form)
{
	if (form->entry_words < 2 || form->entry_words > V8_BUILTINS_ENTRY_WORDS_MAX)
		return -ENOENT;
	_cleanup_free_ struct v8_builtins_table *table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->entry_words = form->entry_words;
	struct v8_builtins found = {0};
	int r = v8_builtins_find_table(table, image, &found.start);
	if (r < 0)
		return r;
	if (table->count <= form->handlers || !form->handlers)
		return -ENOENT;
	const unsigned int first_handler = table->count - form->handlers;
	found.end = found.start + table->code_bytes;
	found.handlers = found.start + table->builtins[first_handler].offset;
	r = find_entry(&found, image, table, first_handler);
	if (r == 0)
		*builtins = found;
	return r == -ENODATA ? -ENOENT : r;
}

/* --- the sizes of bytecodes --- */

static bool sizes_match(const struct scan *scan, const uint8_t *bytes)
{
	/* Wide, ExtraWide, DebugBreakWide, DebugBreakExtraWide, DebugBreak0 to DebugBreak6, Ldar,
	 * LdaZero, LdaSmi. */
	static const uint8_t rows[V8_BYTECODE_SCALES][SIZES_COMPARED] = {
	    {1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2},
	    {1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3},
	    {1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5}};

	for (unsigned int i = 0; i < V8_BYTECODE_SCALES; i++) {
		if (memcmp(bytes + (size_t)i * scan->bytecodes, rows[i], SIZES_COMPARED) != 0)
			return false;
	}
	return true;
}

static int sizes_take(struct scan *scan, uint64_t vaddr)
{
	scan->found = vaddr;
	return 0;
}

int v8_bytecode_sizes_find(uint64_t *vaddr, const struct elf_image *image, unsigned int count)
{
	struct scan scan = {.image = image,
			    .alignment = SIZES_ALIGNMENT,
			    .need = (size_t)count * V8_BYTECODE_SCALES,
			    .left = V8_SEARCH_BYTES_MAX,
			    .matches = sizes_match,
			    .take = sizes_take,
			    .bytecodes = count};

	if (count < SIZES_COMPARED || count > UINT8_MAX + 1)
		return -ENOENT;
	int r = scan_segments(&scan, false);
	if (r == -ENOENT)
		r = scan_segments(&scan, true);
	if (r == 0)
		*vaddr = scan.found;
	return r;
}

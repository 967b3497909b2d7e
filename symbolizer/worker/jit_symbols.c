/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_symbols.h. */
#include "symbolizer/worker/jit_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/search.h"
#include "symbolizer/worker/limits.h"

enum {
	FIRST_ENTRIES = 64,
	FIRST_TEXT_BYTES = 4096,
	FIRST_LINES = 256,
	/* What is not used any more is searched for when there is twice as much, and this much in
	 * addition, because that takes as long as to merge everything. */
	TEXT_SLACK_BYTES = 32 << 10,
	LINES_SLACK = 4096,
};
_Static_assert(LIMIT_JIT_TEXT_BYTES < UINT32_MAX && LIMIT_JIT_LINES < UINT32_MAX, "offsets fit");

#define NO_ENTRY SIZE_MAX

/* Appends a string. Its offset is `*at`. Returns as jit_symbols_add(). */
static int add_text(struct jit_symbols *symbols, const char *text, size_t length, size_t *at)
{
	const size_t used = symbols->text_used + length + 1;
	const int r = ARRAY_RESERVE(symbols->text, symbols->text_capacity, used, FIRST_TEXT_BYTES,
				    LIMIT_JIT_TEXT_BYTES);

	if (r < 0)
		return r;
	memcpy(symbols->text + symbols->text_used, text, length);
	symbols->text[used - 1] = 0;
	*at = symbols->text_used;
	symbols->text_used = used;
	return 0;
}

/* Makes room for one entry. Returns as jit_symbols_add(). */
static int reserve_entry(struct jit_symbols *symbols)
{
	/* Ranges that were cut may have made more of them. */
	if (symbols->count >= LIMIT_JIT_ENTRIES)
		return -E2BIG;
	return ARRAY_RESERVE(symbols->entries, symbols->capacity, symbols->count + 1, FIRST_ENTRIES,
			     LIMIT_JIT_ENTRIES);
}

int jit_symbols_add(struct jit_symbols *symbols, const struct jit_range *range, const char *name,
		    size_t name_length)
{
	size_t at;
	int r = reserve_entry(symbols);

	if (!r)
		r = add_text(symbols, name, name_length, &at);
	if (r < 0)
		return r;
	symbols->entries[symbols->count++] = (struct jit_entry){
	    .start = range->start,
	    .end = range->end,
	    .id = range->id,
	    .time_ns = range->time_ns,
	    .origin = range->start,
	    .name = at,
	    .first_line = (uint32_t)symbols->first_added,
	    .line_count = (uint32_t)(symbols->line_count - symbols->first_added)};
	symbols->first_added = symbols->line_count;
	return 0;
}

/* --- lines --- */

int jit_symbols_add_line(struct jit_symbols *symbols, uint64_t offset, uint32_t line,
			 const char *file, size_t file_length)
{
	const char *last = symbols->has_file ? symbols->text + symbols->last_file : NULL;
	size_t at = symbols->last_file;

	if (symbols->line_count - symbols->first_added >= LIMIT_JIT_ENTRY_LINES)
		return -E2BIG;
	if (!file && !last)
		return -ENOENT;
	int r = ARRAY_RESERVE(symbols->lines, symbols->line_capacity, symbols->line_count + 1,
			      FIRST_LINES, LIMIT_JIT_LINES);
	/* Mostly a file has many functions. */
	if (!r && file &&
	    !(last && strlen(last) == file_length && !memcmp(last, file, file_length)))
		r = add_text(symbols, file, file_length, &at);
	if (r < 0)
		return r;
	symbols->last_file = at;
	symbols->has_file = true;
	symbols->lines[symbols->line_count++] =
	    (struct jit_line){.offset = offset < UINT32_MAX ? (uint32_t)offset : UINT32_MAX,
			      .line = line,
			      .file = (uint32_t)at};
	return 0;
}

void jit_symbols_drop_lines(struct jit_symbols *symbols)
{
	symbols->line_count = symbols->first_added;
}

uint32_t jit_symbols_line(const struct jit_symbols *symbols, const struct jit_entry *entry,
			  uint64_t address, uint64_t shift, const char **file)
{
	const uint64_t offset = address - entry->origin + shift;

	*file = "";
	if (!entry->line_count)
		return 0;
	const struct jit_line *lines = symbols->lines + entry->first_line, *found = NULL;
	/* They need not be sorted. */
	for (uint32_t i = 0; i < entry->line_count; i++) {
		if (lines[i].offset <= offset && (!found || lines[i].offset >= found->offset))
			found = &lines[i];
	}
	*file = symbols->text + lines->file;
	return found && !strcmp(symbols->text + found->file, *file) ? found->line : 0;
}

/* --- moved code --- */

/* Returns the entry with this address that was added last, or NULL. */
static const struct jit_entry *find_last(const struct jit_symbols *symbols, uint64_t address)
{
	for (size_t i = symbols->count; i-- > symbols->sorted;) {
		if (address >= symbols->entries[i].start && address < symbols->entries[i].end)
			return &symbols->entries[i];
	}
	return jit_symbols_find(symbols, address);
}

int jit_symbols_move(struct jit_symbols *symbols, uint64_t from, const struct jit_range *range)
{
	const struct jit_entry *old = find_last(symbols, from);

	if (!old)
		return -ENOENT;
	struct jit_entry moved = *old;
	const int r = reserve_entry(symbols);
	if (r < 0)
		return r;
	moved.start = moved.origin = range->start;
	moved.end = range->end;
	moved.id = range->id;
	moved.time_ns = range->time_ns;
	symbols->entries[symbols->count++] = moved;
	return 0;
}

/* --- making ranges --- */

/* The entries that contain the current address are in a heap: the one with the highest id is the
 * first. Those that have ended are removed when they are the first. */
struct sweep {
	const struct jit_entry *entries;
	size_t old, old_end; /* the next one of those that are sorted already */
	size_t new, new_end; /* the next one of those that were added */
	size_t *heap;
	size_t heap_count;
	struct jit_entry *out;
	size_t out_count;
	uint64_t *emitted; /* how many addresses of each entry are in `out` */
};

static int compare_entries(const void *a, const void *b)
{
	const struct jit_entry *one = a, *other = b;

	if (one->start != other->start)
		return one->start < other->start ? -1 : 1;
	return one->id < other->id ? -1 : one->id > other->id;
}

/* Returns the entry that starts next, or NO_ENTRY. */
static size_t sweep_peek(const struct sweep *sweep)
{
	const bool has_old = sweep->old < sweep->old_end, has_new = sweep->new < sweep->new_end;

	if (has_old &&
	    (!has_new || sweep->entries[sweep->old].start <= sweep->entries[sweep->new].start))
		return sweep->old;
	return has_new ? sweep->new : NO_ENTRY;
}

static bool is_newer(const struct sweep *sweep, size_t place, size_t other)
{
	return sweep->entries[sweep->heap[place]].id > sweep->entries[sweep->heap[other]].id;
}

static void heap_swap(struct sweep *sweep, size_t a, size_t b)
{
	const size_t entry = sweep->heap[a];

	sweep->heap[a] = sweep->heap[b];
	sweep->heap[b] = entry;
}

/* Adds the entry that starts next. */
static void sweep_push(struct sweep *sweep, size_t entry)
{
	size_t at = sweep->heap_count++;

	if (entry < sweep->old_end)
		sweep->old++;
	else
		sweep->new ++;
	sweep->heap[at] = entry;
	for (; at && is_newer(sweep, at, (at - 1) / 2); at = (at - 1) / 2)
		heap_swap(sweep, at, (at - 1) / 2);
}

static void sweep_pop(struct sweep *sweep)
{
	size_t at = 0;

	sweep->heap[0] = sweep->heap[--sweep->heap_count];
	for (size_t child; (child = 2 * at + 1) < sweep->heap_count; at = child) {
		if (child + 1 < sweep->heap_count && is_newer(sweep, child + 1, child))
			child++;
		if (!is_newer(sweep, child, at))
			return;
		heap_swap(sweep, child, at);
	}
}

/* Appends a range of an entry, which may continue the last range. */
static void sweep_emit(struct sweep *sweep, const struct jit_entry *entry, uint64_t start,
		       uint64_t end)
{
	struct jit_entry *last = sweep->out_count ? &sweep->out[sweep->out_count - 1] : NULL;

	if (last && last->end == start && last->id == entry->id) {
		last->end = end;
		return;
	}
	sweep->out[sweep->out_count] = *entry;
	sweep->out[sweep->out_count].start = start;
	sweep->out[sweep->out_count].end = end;
	sweep->out_count++;
}

/* Each range ends where an entry starts or ends. So there are less than two for each entry. */
static void sweep_all(struct sweep *sweep)
{
	uint64_t position = 0;

	for (;;) {
		while (sweep->heap_count && sweep->entries[sweep->heap[0]].end <= position)
			sweep_pop(sweep);
		size_t next = sweep_peek(sweep);
		if (!sweep->heap_count && next == NO_ENTRY)
			return;
		if (!sweep->heap_count)
			position = sweep->entries[next].start;
		for (; next != NO_ENTRY && sweep->entries[next].start <= position;
		     next = sweep_peek(sweep))
			sweep_push(sweep, next);
		const struct jit_entry *newest = &sweep->entries[sweep->heap[0]];
		const uint64_t end = next != NO_ENTRY && sweep->entries[next].start < newest->end
					 ? sweep->entries[next].start
					 : newest->end;
		sweep_emit(sweep, newest, position, end);
		sweep->emitted[sweep->heap[0]] += end - position;
		position = end;
	}
}

/* --- what was replaced --- */

/* Keeps a range that was replaced in part or as a whole. Without memory, it is dropped. */
static void keep_replaced(struct jit_symbols *symbols, const struct jit_entry *entry)
{
	if (!symbols->replaced)
		symbols->replaced = calloc(JIT_REPLACED_COUNT, sizeof(*symbols->replaced));
	if (symbols->replaced)
		symbols->replaced[symbols->replaced_count++ % JIT_REPLACED_COUNT] = *entry;
}

/* Drops them, because their names and lines are to be. */
static void drop_replaced(struct jit_symbols *symbols)
{
	symbols->replaced_count = 0;
	symbols->replaced_ns = 0;
}

/* Keeps those entries of a sweep of which not all addresses are left. Returns whether there is one
 * among the entries that were sorted before. */
static bool find_replaced(struct jit_symbols *symbols, const struct sweep *sweep)
{
	uint64_t youngest_ns = 0;
	bool any_old = false, any = false;

	for (size_t i = 0; i < symbols->count; i++) {
		const struct jit_entry *entry = &symbols->entries[i];

		if (entry->time_ns > youngest_ns)
			youngest_ns = entry->time_ns;
		if (sweep->emitted[i] == entry->end - entry->start)
			continue;
		any_old |= i < symbols->sorted;
		any |= entry->time_ns != 0;
		if (entry->time_ns)
			keep_replaced(symbols, entry);
	}
	if (any && symbols->replaced_ns < youngest_ns)
		symbols->replaced_ns = youngest_ns;
	return any_old;
}

/* --- what is not used any more --- */

/* Moves the lines that are still in use to an array of their own. Ranges of one entry that are
 * apart get a copy each. Without memory, or if that does not save any, all stays as it is. */
static void drop_unused_lines(struct jit_symbols *symbols)
{
	const size_t added = symbols->line_count - symbols->first_added;
	size_t needed = added, at = 0;

	if (symbols->line_count < 2 * symbols->lines_kept + LINES_SLACK)
		return;
	for (size_t i = 0; i < symbols->count; i++)
		needed += symbols->entries[i].line_count;
	symbols->lines_kept = needed;
	if (needed > symbols->line_count / 2)
		return;
	drop_replaced(symbols);
	struct jit_line *lines = calloc(needed ? needed : 1, sizeof(*lines));
	if (!lines)
		return;
	for (size_t i = 0; i < symbols->count; i++) {
		struct jit_entry *entry = &symbols->entries[i];

		memcpy(lines + at, symbols->lines + entry->first_line,
		       entry->line_count * sizeof(*lines));
		entry->first_line = (uint32_t)at;
		at += entry->line_count;
	}
	memcpy(lines + at, symbols->lines + symbols->first_added, added * sizeof(*lines));
	free(symbols->lines);
	symbols->lines = lines;
	symbols->line_count = needed;
	symbols->line_capacity = needed ? needed : 1;
	symbols->first_added = at;
}

/* Returns whether a line has another file than the one before. */
static bool has_new_file(const struct jit_symbols *symbols, size_t line)
{
	return !line || symbols->lines[line].file != symbols->lines[line - 1].file;
}

/* Returns how many bytes of text are in use. */
static size_t needed_text(const struct jit_symbols *symbols)
{
	size_t needed = 0;

	for (size_t i = 0; i < symbols->count; i++)
		needed += strlen(symbols->text + symbols->entries[i].name) + 1;
	for (size_t i = 0; i < symbols->line_count; i++)
		needed += has_new_file(symbols, i)
			      ? strlen(symbols->text + symbols->lines[i].file) + 1
			      : 0;
	return needed;
}

/* Copies a string to the end of a text. Returns where it is. */
static size_t copy_text(const struct jit_symbols *symbols, size_t from, char *text, size_t *used)
{
	const size_t length = strlen(symbols->text + from) + 1, at = *used;

	memcpy(text + at, symbols->text + from, length);
	*used += length;
	return at;
}

/* Moves the names and files that are still in use to a text of their own. Ranges of one entry that
 * are apart get a copy each, and so do lines of one file that are apart. Without memory, or if that
 * does not save any, all stays as it is. */
static void drop_unused_text(struct jit_symbols *symbols)
{
	size_t used = 0, old_file = 0;

	if (symbols->text_used < 2 * symbols->text_kept + TEXT_SLACK_BYTES)
		return;
	const size_t needed = needed_text(symbols);
	symbols->text_kept = needed;
	if (needed > symbols->text_used / 2)
		return;
	drop_replaced(symbols);
	char *text = malloc(needed ? needed : 1);
	if (!text)
		return;
	for (size_t i = 0; i < symbols->count; i++)
		symbols->entries[i].name =
		    copy_text(symbols, symbols->entries[i].name, text, &used);
	for (size_t i = 0; i < symbols->line_count; i++) {
		const size_t file = symbols->lines[i].file;

		symbols->lines[i].file = i && file == old_file
					     ? symbols->lines[i - 1].file
					     : (uint32_t)copy_text(symbols, file, text, &used);
		old_file = file;
	}
	free(symbols->text);
	symbols->text = text;
	symbols->text_used = used;
	symbols->text_capacity = needed ? needed : 1;
	symbols->has_file = symbols->line_count;
	symbols->last_file = symbols->has_file ? symbols->lines[symbols->line_count - 1].file : 0;
}

int jit_symbols_sort(struct jit_symbols *symbols, bool *replaced)
{
	const size_t old = symbols->sorted, added = symbols->count - old;

	if (!added)
		return 0;
	struct jit_entry *out = calloc(2 * symbols->count, sizeof(*out));
	_cleanup_free_ size_t *heap = calloc(symbols->count, sizeof(*heap));
	_cleanup_free_ uint64_t *emitted = calloc(symbols->count, sizeof(*emitted));
	if (!out || !heap || !emitted) {
		free(out);
		symbols->count = old;
		return -ENOMEM;
	}
	qsort(symbols->entries + old, added, sizeof(*out), compare_entries);
	struct sweep sweep = {.entries = symbols->entries,
			      .old_end = old,
			      .new = old,
			      .new_end = symbols->count,
			      .heap = heap,
			      .emitted = emitted,
			      .out = out};
	sweep_all(&sweep);
	*replaced |= find_replaced(symbols, &sweep);
	free(symbols->entries);
	symbols->entries = out;
	symbols->capacity = 2 * symbols->count;
	ARRAY_FIT(symbols->entries, symbols->capacity, sweep.out_count);
	symbols->sorted = symbols->count = sweep.out_count;
	drop_unused_lines(symbols);
	drop_unused_text(symbols);
	return 0;
}

/* --- lookup --- */

const struct jit_entry *jit_symbols_find(const struct jit_symbols *symbols, uint64_t address)
{
	const size_t after =
	    SEARCH_LOWER_BOUND(i, symbols->sorted, symbols->entries[i].start <= address);

	return after && address < symbols->entries[after - 1].end ? &symbols->entries[after - 1]
								  : NULL;
}

const struct jit_entry *jit_symbols_find_at(const struct jit_symbols *symbols, uint64_t address,
					    uint64_t time_ns)
{
	const struct jit_entry *now = jit_symbols_find(symbols, address), *then = NULL;
	const size_t count = symbols->replaced_count < JIT_REPLACED_COUNT ? symbols->replaced_count
									  : JIT_REPLACED_COUNT;

	if (!now || now->time_ns <= time_ns)
		return now;
	for (size_t i = 0; i < count; i++) {
		const struct jit_entry *entry = &symbols->replaced[i];

		if (address >= entry->start && address < entry->end && entry->time_ns <= time_ns &&
		    (!then || entry->id > then->id))
			then = entry;
	}
	return then ? then : now;
}

size_t jit_symbols_bytes(const struct jit_symbols *symbols)
{
	return symbols->capacity * sizeof(symbols->entries[0]) + symbols->text_capacity +
	       symbols->line_capacity * sizeof(symbols->lines[0]) +
	       (symbols->replaced ? JIT_REPLACED_COUNT * sizeof(symbols->replaced[0]) : 0);
}

void jit_symbols_free(struct jit_symbols *symbols)
{
	free(symbols->entries);
	free(symbols->text);
	free(symbols->lines);
	free(symbols->replaced);
	*symbols = (struct jit_symbols){0};
}

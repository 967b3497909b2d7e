/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_file.h. */
#include "symbolizer/worker/jit_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "parse/perf_map.h"
#include "symbolizer/worker/limits.h"

enum {
	/* Bytes that are read at once, which takes some 0.5 ms. */
	SLICE_BYTES = 64 << 10,
	/* Names that are sorted together, unless the file ends. A move is searched among these. */
	SORTED_AT_ONCE = 4096,
};
_Static_assert((int)SLICE_BYTES >= (int)JIT_DUMP_PIECE_BYTES, "each slice can be parsed in part");

void jit_file_init(struct jit_file *file)
{
	*file = (struct jit_file){.fd = -1};
}

/* Starts again at the start of the file. */
static void rewind_file(struct jit_file *file)
{
	jit_symbols_free(&file->symbols);
	if (file->map)
		perf_map_init(file->map);
	jit_dump_init(&file->dump);
	file->offset = file->end = 0;
	file->unread = true;
	file->broken = false;
}

int jit_file_open(struct jit_file *file, int fd, bool is_dump)
{
	struct perf_map_parser *map = is_dump ? NULL : malloc(sizeof(*map));

	if (!is_dump && !map)
		return -ENOMEM;
	jit_file_init(file);
	file->fd = fd;
	file->map = map;
	rewind_file(file);
	return 0;
}

void jit_file_close(struct jit_file *file)
{
	jit_symbols_free(&file->symbols);
	if (file->fd >= 0)
		close(file->fd);
	free(file->map);
	jit_file_init(file);
}

/* --- names and lines --- */

struct feeding {
	struct jit_file *file;
	uint64_t *id;
	uint64_t now_ns;
	bool dropped;
};

/* Adds a name. When there is no room for more, those so far are dropped: some of them may be
 * replaced by the ones that follow. */
static int add_name(struct feeding *feeding, const struct jit_range *range, const char *name,
		    size_t length)
{
	struct jit_symbols *symbols = &feeding->file->symbols;
	const int r = jit_symbols_add(symbols, range, name, length);

	if (r != -E2BIG)
		return r;
	feeding->dropped = true;
	jit_symbols_free(symbols);
	return jit_symbols_add(symbols, range, name, length);
}

static int on_map_entry(void *context, const struct perf_map_entry *entry)
{
	struct feeding *feeding = context;
	const struct jit_range range = {
	    .start = entry->start, .end = entry->end, .id = ++*feeding->id};

	return add_name(feeding, &range, entry->name, entry->name_length);
}

/* Returns the addresses of code. A time that is still to come is by another clock. */
static struct jit_range event_range(struct feeding *feeding, const struct jit_dump_event *event)
{
	return (struct jit_range){.start = event->start,
				  .end = event->end,
				  .id = ++*feeding->id,
				  .time_ns =
				      event->time_ns <= feeding->now_ns ? event->time_ns : 0};
}

/* A process without memory for them has names without lines, and so has one with too many. */
static int add_line(struct feeding *feeding, const struct jit_dump_event *event)
{
	const struct jit_dump_parser *parser = &feeding->file->dump;
	const int r = jit_symbols_add_line(&feeding->file->symbols, event->start - parser->lines_of,
					   event->line, event->same_file ? NULL : event->text,
					   event->text_length);

	return r == -ENOENT || r == -E2BIG ? 0 : r;
}

/* Code that moves keeps its name. */
static int add_move(struct feeding *feeding, const struct jit_dump_event *event)
{
	const struct jit_range range = event_range(feeding, event);
	const int r = jit_symbols_move(&feeding->file->symbols, event->from, &range);

	return r == -ENOENT || r == -E2BIG ? 0 : r;
}

/* Returns whether the lines of code with this name are of use: V8 (as of Node 20) writes those of
 * its baseline code with offsets in its bytecode. The names of such code start like this. */
static bool may_have_lines(const struct jit_dump_parser *parser, const char *name, size_t length)
{
	static const char baseline[] = "JS:^";
	const size_t start = sizeof(baseline) - 1;

	return !parser->is_of_v8 || length < start || memcmp(name, baseline, start) != 0;
}

static int on_dump_event(void *context, const struct jit_dump_event *event)
{
	struct feeding *feeding = context;
	struct jit_symbols *symbols = &feeding->file->symbols;
	struct jit_range range;

	switch (event->kind) {
	case JIT_DUMP_LINES:
		jit_symbols_drop_lines(symbols);
		return 0;
	case JIT_DUMP_LINE:
		return add_line(feeding, event);
	case JIT_DUMP_MOVE:
		return add_move(feeding, event);
	case JIT_DUMP_LOAD:
		/* Lines of other code are of no use. */
		if (event->start != feeding->file->dump.lines_of ||
		    !may_have_lines(&feeding->file->dump, event->text, event->text_length))
			jit_symbols_drop_lines(symbols);
		range = event_range(feeding, event);
		return add_name(feeding, &range, event->text, event->text_length);
	}
	return 0;
}

/* --- reading --- */

/* Parses a slice of a jitdump. Returns how many bytes were used, or a negative errno. */
static ssize_t feed_dump(struct jit_file *file, const uint8_t *data, size_t length,
			 struct feeding *feeding)
{
	const ssize_t used = jit_dump_feed(&file->dump, data, length, on_dump_event, feeding);

	if (used != -EBADMSG)
		return used;
	/* The names so far are right. */
	file->broken = true;
	return (ssize_t)length;
}

/* Parses a slice. Returns how many bytes were used, or -ENOMEM. */
static ssize_t feed(struct jit_file *file, const uint8_t *data, size_t length,
		    struct feeding *feeding)
{
	if (!file->map)
		return feed_dump(file, data, length, feeding);
	const int r = perf_map_feed(file->map, (const char *)data, length, on_map_entry, feeding);
	return r < 0 ? r : (ssize_t)length;
}

/* Makes the names that were added known, at the end of the file, or if there are many of them: that
 * takes as long as to go through all names. Returns 0 or -ENOMEM. */
static int sort(struct jit_file *file, struct jit_file_changes *changes)
{
	const struct jit_symbols *symbols = &file->symbols;

	return file->unread && symbols->count - symbols->sorted < SORTED_AT_ONCE
		   ? 0
		   : jit_symbols_sort(&file->symbols, &changes->replaced);
}

/* Without memory, no names are left. */
static void give_up(struct jit_file *file, struct jit_file_changes *changes)
{
	jit_symbols_free(&file->symbols);
	if (file->map)
		perf_map_init(file->map);
	file->broken = !file->map;
	changes->replaced = true;
}

/* Goes beyond bytes of a jitdump that need not be read. */
static void skip(struct jit_file *file)
{
	struct stat st;

	if (!file->dump.to_skip || file_read_status(file->fd, &st) < 0 ||
	    (uint64_t)st.st_size <= file->offset)
		return;
	file->offset += jit_dump_skip(&file->dump, (uint64_t)st.st_size - file->offset);
}

void jit_file_read(struct jit_file *file, uint64_t *id, struct jit_file_changes *changes)
{
	struct feeding feeding = {.file = file, .id = id, .now_ns = clock_monotonic_ns()};
	uint8_t data[SLICE_BYTES];
	ssize_t n = 0, used = 0;

	skip(file);
	if (!file->broken && file->offset < LIMIT_JIT_FILE_BYTES)
		n = file_read_fully_at(file->fd, file->offset, data, sizeof(data));
	file->end = file->offset + (uint64_t)(n > 0 ? n : 0);
	if (n > 0)
		used = feed(file, data, (size_t)n, &feeding);
	file->offset += used < 0 ? (uint64_t)n : (uint64_t)used;
	/* Nothing is used of space that is not written yet. */
	file->unread = n == (ssize_t)sizeof(data) && used && !file->broken;
	changes->dropped |= feeding.dropped;
	changes->replaced |= feeding.dropped;
	if (used < 0 || sort(file, changes) < 0)
		give_up(file, changes);
}

int jit_file_check(struct jit_file *file, struct jit_file_changes *changes)
{
	struct stat st;
	const int r = file_read_status(file->fd, &st);

	if (r < 0)
		return r;
	if ((uint64_t)st.st_size < file->offset) {
		rewind_file(file);
		changes->replaced = true;
	} else if ((uint64_t)st.st_size > file->end) {
		file->unread = true;
	}
	return 0;
}

const char *jit_file_find(const struct jit_file *file, uint64_t address, uint64_t time_ns,
			  const char **source, uint32_t *line)
{
	const struct jit_entry *entry = jit_symbols_find_at(&file->symbols, address, time_ns);

	if (!entry)
		return NULL;
	*line = jit_symbols_line(&file->symbols, entry, address,
				 file->dump.lines_are_exact ? 0 : JIT_DUMP_LINE_SHIFT, source);
	return jit_symbols_name(&file->symbols, entry);
}

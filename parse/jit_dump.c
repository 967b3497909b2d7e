/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_dump.h. */
#include "parse/jit_dump.h"

#include <errno.h>
#include <string.h>

#include "common/cursor.h"

enum {
	MAGIC = 0x4a695444,
	VERSION = 1,
	HEADER_BYTES = 40,
	/* Of a record are at most this many bytes after its last line. */
	ALIGNMENT = 8,
	FLAG_ARCH_TIMESTAMP = 1,
	/* The kinds of records, and the bytes of each before what has no fixed size. */
	CODE_LOAD = 0,
	CODE_MOVE = 1,
	CODE_DEBUG_INFO = 2,
	PREFIX_BYTES = 16,
	LOAD_BYTES = 56,
	MOVE_BYTES = 64,
	DEBUG_INFO_BYTES = 32,
	LINE_BYTES = 16,
};
_Static_assert((int)JIT_DUMP_PIECE_BYTES >= (int)LOAD_BYTES + JIT_DUMP_NAME_MAX + 1 &&
		   (int)JIT_DUMP_PIECE_BYTES >= (int)LINE_BYTES + JIT_DUMP_FILE_MAX + 1,
	       "everything fits into a piece");

/* V8 has this in the padding of the header (LogWriteHeader in src/diagnostics/perf-jit.cc). */
#define PADDING_OF_V8 0xdeadbeefu

/* What every record starts with. */
struct prefix {
	uint32_t kind, bytes; /* of the whole record */
	uint64_t time_ns;
};

/* Where a piece is parsed. */
struct piece {
	struct jit_dump_parser *parser;
	struct cursor at;
	jit_dump_visit_fn *visit;
	void *context;
};

enum {
	NEEDS_MORE = 0,
	GO_ON = 1,
};

void jit_dump_init(struct jit_dump_parser *parser)
{
	*parser = (struct jit_dump_parser){0};
}

/* Finds the end of a string that starts at the cursor and has `most` bytes at most, of which all
 * are in the file. Returns true, and the length without the NUL; or false if that is not there yet.
 * `*terminated` is false if none of these bytes is a NUL. */
static bool find_text(const struct cursor *c, uint64_t most, size_t *length, bool *terminated)
{
	const size_t there = cursor_left(c) < most ? cursor_left(c) : (size_t)most;
	const uint8_t *nul = memchr(c->at, 0, there);

	*terminated = nul != NULL;
	*length = nul ? (size_t)(nul - c->at) : there;
	return nul || there == most;
}

/* Sets a range of addresses. Returns false if there are no such addresses in user space. */
static bool set_range(struct jit_dump_event *event, uint64_t start, uint64_t bytes)
{
	if (bytes == 0 || start >= JIT_DUMP_END_MAX || bytes > JIT_DUMP_END_MAX - start)
		return false;
	event->start = start;
	event->end = start + bytes;
	return true;
}

/* Reports an event, unless it is not `good`. Returns GO_ON or the visitor's negative errno. */
static int report(struct piece *piece, const struct jit_dump_event *event, bool good)
{
	if (!good) {
		piece->parser->skipped++;
		return GO_ON;
	}
	const int r = piece->visit(piece->context, event);
	return r < 0 ? r : GO_ON;
}

static int parse_header(struct piece *piece)
{
	struct cursor *c = &piece->at;

	if (cursor_left(c) < HEADER_BYTES)
		return NEEDS_MORE;
	const uint32_t magic = cursor_u32(c);
	const uint32_t version = cursor_u32(c);
	const uint32_t bytes = cursor_u32(c);
	cursor_skip(c, 4); /* the machine */
	const uint32_t padding = cursor_u32(c);
	cursor_skip(c, 12); /* pid and time */
	const uint64_t flags = cursor_u64(c);
	if (magic != MAGIC || version != VERSION || bytes < HEADER_BYTES)
		return -EBADMSG;
	piece->parser->foreign_clock = flags & FLAG_ARCH_TIMESTAMP;
	piece->parser->is_of_v8 = padding == PADDING_OF_V8;
	piece->parser->to_skip = bytes - HEADER_BYTES;
	piece->parser->began = true;
	return GO_ON;
}

/* Parses the start of a JIT_CODE_LOAD: pid, tid, vma, address, size, index, name. */
static int parse_load(struct piece *piece, const struct prefix *prefix)
{
	struct jit_dump_event event = {.kind = JIT_DUMP_LOAD, .time_ns = prefix->time_ns};
	struct cursor c = piece->at;
	bool terminated;
	const uint64_t name_bytes = prefix->bytes - LOAD_BYTES;

	cursor_skip(&c, PREFIX_BYTES + 16);
	const uint64_t start = cursor_u64(&c);
	const uint64_t bytes = cursor_u64(&c);
	cursor_skip(&c, 8);
	if (c.failed ||
	    !find_text(&c, name_bytes < JIT_DUMP_NAME_MAX ? name_bytes : JIT_DUMP_NAME_MAX,
		       &event.text_length, &terminated))
		return NEEDS_MORE;
	event.text = (const char *)c.at;
	cursor_skip(&piece->at, LOAD_BYTES);
	piece->parser->to_skip = name_bytes;
	return report(piece, &event, set_range(&event, start, bytes) && event.text_length);
}

/* Parses a JIT_CODE_MOVE: pid, tid, vma, old address, new address, size, index. */
static int parse_move(struct piece *piece, const struct prefix *prefix)
{
	struct jit_dump_event event = {.kind = JIT_DUMP_MOVE, .time_ns = prefix->time_ns};
	struct cursor c = piece->at;

	cursor_skip(&c, PREFIX_BYTES + 16);
	event.from = cursor_u64(&c);
	const uint64_t start = cursor_u64(&c);
	const uint64_t bytes = cursor_u64(&c);
	cursor_skip(&c, 8);
	if (c.failed)
		return NEEDS_MORE;
	piece->at = c;
	piece->parser->to_skip = prefix->bytes - MOVE_BYTES;
	return report(piece, &event, set_range(&event, start, bytes));
}

/* Parses the start of a JIT_CODE_DEBUG_INFO: address, number of lines. */
static int parse_debug_info(struct piece *piece, const struct prefix *prefix)
{
	struct jit_dump_event event = {.kind = JIT_DUMP_LINES, .time_ns = prefix->time_ns};
	struct jit_dump_parser *parser = piece->parser;
	struct cursor c = piece->at;

	cursor_skip(&c, PREFIX_BYTES);
	const uint64_t start = cursor_u64(&c);
	const uint64_t lines = cursor_u64(&c);
	if (c.failed)
		return NEEDS_MORE;
	piece->at = c;
	parser->bytes_left = prefix->bytes - DEBUG_INFO_BYTES;
	parser->lines_of = start;
	const bool good = set_range(&event, start, 1);
	parser->lines_left = good ? lines : 0;
	return report(piece, &event, good);
}

/* Ends a JIT_CODE_DEBUG_INFO. Its lines do not count if they do not fill it. */
static int end_lines(struct piece *piece)
{
	struct jit_dump_parser *parser = piece->parser;
	struct jit_dump_event event = {.kind = JIT_DUMP_LINES};
	const bool filled = !parser->lines_left && parser->bytes_left < ALIGNMENT;
	const bool has_lines = set_range(&event, parser->lines_of, 1);

	parser->to_skip = parser->bytes_left;
	parser->bytes_left = 0;
	if (filled || !has_lines)
		return GO_ON;
	parser->skipped++;
	return report(piece, &event, true);
}

/* Parses a line of a JIT_CODE_DEBUG_INFO: address, line, column, file. A file of "\xff" stands for
 * that of the line before. After the last line there may be padding. */
static int parse_line(struct piece *piece)
{
	struct jit_dump_event event = {.kind = JIT_DUMP_LINE};
	struct jit_dump_parser *parser = piece->parser;
	struct cursor c = piece->at;
	bool terminated;

	if (!parser->lines_left || parser->bytes_left <= LINE_BYTES)
		return end_lines(piece);
	const uint64_t start = cursor_u64(&c);
	event.line = cursor_u32(&c);
	cursor_skip(&c, 4);
	const uint64_t most = parser->bytes_left - LINE_BYTES;
	if (c.failed || !find_text(&c, most <= JIT_DUMP_FILE_MAX ? most : JIT_DUMP_FILE_MAX + 1,
				   &event.text_length, &terminated))
		return NEEDS_MORE;
	/* Where the next line starts is not known. */
	if (!terminated)
		return end_lines(piece);
	event.text = (const char *)c.at;
	event.same_file = event.text_length == 1 && *c.at == 0xff;
	event.text_length = event.same_file ? 0 : event.text_length;
	cursor_string(&c);
	parser->bytes_left -= (uint64_t)(c.at - piece->at.at);
	parser->lines_left--;
	piece->at = c;
	const bool good = set_range(&event, start, 1) && start >= parser->lines_of;
	parser->lines_are_exact |=
	    good && !parser->is_of_v8 && start - parser->lines_of < JIT_DUMP_LINE_SHIFT;
	return report(piece, &event, good);
}

static int parse_record(struct piece *piece)
{
	struct cursor c = piece->at;
	struct prefix prefix;

	prefix.kind = cursor_u32(&c);
	prefix.bytes = cursor_u32(&c);
	prefix.time_ns = cursor_u64(&c);
	/* Space that was allocated and not written yet is zero. */
	if (c.failed || (!prefix.kind && !prefix.bytes && !prefix.time_ns))
		return NEEDS_MORE;
	if (prefix.bytes < PREFIX_BYTES)
		return -EBADMSG;
	if (piece->parser->foreign_clock)
		prefix.time_ns = 0;
	if (prefix.kind == CODE_LOAD && prefix.bytes >= LOAD_BYTES)
		return parse_load(piece, &prefix);
	if (prefix.kind == CODE_MOVE && prefix.bytes >= MOVE_BYTES)
		return parse_move(piece, &prefix);
	if (prefix.kind == CODE_DEBUG_INFO && prefix.bytes >= DEBUG_INFO_BYTES)
		return parse_debug_info(piece, &prefix);
	piece->parser->skipped += prefix.kind <= CODE_DEBUG_INFO;
	piece->at = c;
	piece->parser->to_skip = prefix.bytes - PREFIX_BYTES;
	return GO_ON;
}

ssize_t jit_dump_feed(struct jit_dump_parser *parser, const uint8_t *data, size_t length,
		      jit_dump_visit_fn *visit, void *context)
{
	struct piece piece = {
	    .parser = parser, .at = cursor_init(data, length), .visit = visit, .context = context};
	int r = GO_ON;

	while (r == GO_ON) {
		cursor_skip(&piece.at, jit_dump_skip(parser, cursor_left(&piece.at)));
		if (parser->to_skip)
			break;
		r = !parser->began	 ? parse_header(&piece)
		    : parser->bytes_left ? parse_line(&piece)
					 : parse_record(&piece);
	}
	return r == GO_ON || r == NEEDS_MORE ? (ssize_t)cursor_offset(&piece.at) : r;
}

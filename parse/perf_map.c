/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see perf_map.h. */
#include "parse/perf_map.h"

#include <string.h>

#include "parse/hex.h"

void perf_map_init(struct perf_map_parser *parser)
{
	/* Field by field, because `line` need not be cleared. */
	parser->lines = 0;
	parser->skipped = 0;
	parser->length = 0;
}

/* Reads a number and the blanks after it. Returns the position after them, or NULL if there is no
 * number, it has more than 64 bits, or no blank follows. */
static const char *take_hex(const char *at, const char *end, uint64_t *value)
{
	if (end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
		at += 2;

	const char *const first = at;
	int digit;

	*value = 0;
	for (; at < end && (digit = hex_digit(*at)) >= 0; at++) {
		if (*value >> 60)
			return NULL;
		*value = *value << 4 | (unsigned int)digit;
	}
	if (at == first || at == end || *at != ' ')
		return NULL;
	while (at < end && *at == ' ')
		at++;
	return at;
}

/* Parses one line, without its newline. Returns false if it has another form. */
static bool parse_line(const char *line, size_t length, struct perf_map_entry *entry)
{
	const char *end = line + length;
	uint64_t size;
	const char *at = take_hex(line, end, &entry->start);

	at = at ? take_hex(at, end, &size) : NULL;
	if (!at)
		return false;
	while (end > at && (end[-1] == ' ' || end[-1] == '\r'))
		end--;
	if (at == end || memchr(at, 0, (size_t)(end - at)))
		return false;
	if (size == 0 || entry->start >= PERF_MAP_END_MAX || size > PERF_MAP_END_MAX - entry->start)
		return false;
	entry->end = entry->start + size;
	entry->name = at;
	entry->name_length = (size_t)(end - at);
	return true;
}

static int take_line(struct perf_map_parser *parser, const char *line, size_t length,
		     perf_map_visit_fn *visit, void *context)
{
	struct perf_map_entry entry;

	parser->lines++;
	if (length > PERF_MAP_LINE_MAX)
		length = PERF_MAP_LINE_MAX;
	if (!parse_line(line, length, &entry)) {
		parser->skipped++;
		return 0;
	}
	return visit(context, &entry);
}

/* Appends to the line that was cut, as far as there is room. */
static void keep(struct perf_map_parser *parser, const char *data, size_t length)
{
	const size_t room = sizeof(parser->line) - parser->length;

	if (length > room)
		length = room;
	memcpy(parser->line + parser->length, data, length);
	parser->length += length;
}

int perf_map_feed(struct perf_map_parser *parser, const char *data, size_t length,
		  perf_map_visit_fn *visit, void *context)
{
	int r = 0;

	while (!r && length) {
		const char *newline = memchr(data, '\n', length);
		const size_t part = newline ? (size_t)(newline - data) : length;

		if (!newline || parser->length)
			keep(parser, data, part);
		if (!newline)
			return 0;
		if (parser->length)
			r = take_line(parser, parser->line, parser->length, visit, context);
		else
			r = take_line(parser, data, part, visit, context);
		parser->length = 0;
		data += part + 1;
		length -= part + 1;
	}
	return r;
}

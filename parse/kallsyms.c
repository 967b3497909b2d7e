/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses /proc/kallsyms.
 *
 * How this works: the text has several MB, and the reader passes it on in pieces of any size. A
 * line that is in a piece as a whole is parsed where it is. A line that is cut is kept in a buffer
 * until the next piece brings its end. Thus memory is constant, and nearly nothing is copied.
 *
 * Example: the pieces are "ffffffff81000000 T _st" and "ext\nffffffffc0201000 t init\t[ext4]\n".
 * The first one has no newline, so its 22 bytes are kept. The second one starts with "ext\n": the
 * kept line becomes "ffffffff81000000 T _stext" and is parsed. The last line is parsed in place:
 * address 0xffffffffc0201000, type t, name "init", module "ext4".
 *
 * Modules may be built by anybody, so names can have any bytes. A line of another form, or one that
 * is too long, is skipped and counted.
 */
#include "parse/kallsyms.h"

#include <string.h>

#include "parse/hex.h"

/* Returns the length of a word, which ends at the first blank or control character. Bytes above
 * 0x7f are accepted: the name is escaped where it is shown. */
static size_t word_length(const char *at, const char *end)
{
	const char *p = at;

	while (p < end && (unsigned char)*p > ' ' && *p != 0x7f)
		p++;
	return (size_t)(p - at);
}

static bool parse_module(const char *at, const char *end, struct kallsyms_symbol *symbol)
{
	while (at < end && (*at == '\t' || *at == ' '))
		at++;
	if (at == end)
		return true;

	size_t length = word_length(at, end);

	if (length < 3 || at[0] != '[' || at[length - 1] != ']' || at + length != end)
		return false;
	symbol->module = at + 1;
	symbol->module_length = length - 2;
	return true;
}

/* Parses one line, without its newline. Returns false if it has another form. */
static bool kallsyms_parse_line(const char *line, size_t length, struct kallsyms_symbol *symbol)
{
	const char *at = line, *end = line + length;
	struct kallsyms_symbol parsed = {0};
	int digit;

	for (; at < end && (digit = hex_digit(*at)) >= 0; at++) {
		if (at - line >= 16)
			return false;
		parsed.address = parsed.address << 4 | (unsigned int)digit;
	}
	/* There must be a blank, the type, a blank, and at least one character of the name. */
	if (at == line || end - at < 4 || at[0] != ' ' || at[2] != ' ')
		return false;
	parsed.type = at[1];
	if (!((parsed.type | 0x20) >= 'a' && (parsed.type | 0x20) <= 'z'))
		return false;
	at += 3;
	parsed.name = at;
	parsed.name_length = word_length(at, end);
	if (parsed.name_length == 0 || !parse_module(at + parsed.name_length, end, &parsed))
		return false;
	*symbol = parsed;
	return true;
}

void kallsyms_init(struct kallsyms_parser *parser, kallsyms_visit_fn *visit, void *context)
{
	/* Field by field, because `line` need not be cleared. */
	parser->visit = visit;
	parser->context = context;
	parser->lines = 0;
	parser->skipped = 0;
	parser->length = 0;
	parser->too_long = false;
}

static int take_line(struct kallsyms_parser *parser, const char *line, size_t length)
{
	struct kallsyms_symbol symbol;

	parser->lines++;
	if (length > KALLSYMS_LINE_MAX || !kallsyms_parse_line(line, length, &symbol)) {
		parser->skipped++;
		return 0;
	}
	return parser->visit(parser->context, &symbol);
}

/* Appends to the line that was cut. */
static void keep(struct kallsyms_parser *parser, const char *data, size_t length)
{
	if (parser->too_long || length > sizeof(parser->line) - parser->length) {
		parser->too_long = true;
		return;
	}
	memcpy(parser->line + parser->length, data, length);
	parser->length += length;
}

/* Parses the line that was cut, now that its end has arrived. */
static int take_kept(struct kallsyms_parser *parser)
{
	size_t length = parser->length;
	bool too_long = parser->too_long;

	parser->length = 0;
	parser->too_long = false;
	if (too_long) {
		parser->lines++;
		parser->skipped++;
		return 0;
	}
	return take_line(parser, parser->line, length);
}

int kallsyms_feed(struct kallsyms_parser *parser, const char *data, size_t length)
{
	const char *at = data, *end = data + length;
	int r = 0;

	while (!r && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t piece = (size_t)((newline ? newline : end) - at);

		if (!newline) {
			keep(parser, at, piece);
			break;
		}
		if (parser->length > 0 || parser->too_long) {
			keep(parser, at, piece);
			r = take_kept(parser);
		} else {
			r = take_line(parser, at, piece);
		}
		at = newline + 1;
	}
	return r;
}

int kallsyms_finish(struct kallsyms_parser *parser)
{
	if (parser->length == 0 && !parser->too_long)
		return 0;
	return take_kept(parser);
}

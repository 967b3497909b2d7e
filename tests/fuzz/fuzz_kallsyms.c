/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of /proc/kallsyms. The first byte of the input is the size of the pieces in which
 * the text is passed on; the result must not depend on it. */
#include "parse/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mix(uint64_t *hash, uint64_t value)
{
	*hash = (*hash ^ value) * 0x100000001b3u;
}

static int visit(void *context, const struct kallsyms_symbol *symbol)
{
	uint64_t *hash = context;

	if (symbol->name_length == 0 || symbol->name_length > KALLSYMS_LINE_MAX ||
	    (symbol->module && symbol->module_length == 0))
		__builtin_trap();
	mix(hash, symbol->address);
	mix(hash, (uint8_t)symbol->type);
	for (size_t i = 0; i < symbol->name_length; i++)
		mix(hash, (uint8_t)symbol->name[i]);
	for (size_t i = 0; i < symbol->module_length; i++)
		mix(hash, (uint8_t)symbol->module[i]);
	return 0;
}

static void parse(const uint8_t *data, size_t size, size_t piece, uint64_t result[3])
{
	struct kallsyms_parser parser;
	uint64_t hash = 0;

	kallsyms_init(&parser, visit, &hash);
	for (size_t at = 0; at < size; at += piece)
		kallsyms_feed(&parser, (const char *)data + at,
			      size - at < piece ? size - at : piece);
	kallsyms_finish(&parser);
	result[0] = hash;
	result[1] = parser.lines;
	result[2] = parser.skipped;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole[3], pieces[3];

	if (size < 2)
		return 0;
	parse(data + 1, size - 1, size, whole);
	parse(data + 1, size - 1, (size_t)data[0] + 1, pieces);
	if (whole[0] != pieces[0] || whole[1] != pieces[1] || whole[2] != pieces[2])
		__builtin_trap();
	return 0;
}

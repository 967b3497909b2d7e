/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A Script has a name, which is the file, and the source. The source is read once,
 * when the first function of the script is shown. In it, lines are counted, which V8 does itself
 * only when it first needs them (Script::line_ends), and the methods of classes are found
 * (v8_classes.c). If the source is too large to be read, lines are known if V8 has counted them.
 *
 * Example: the script 81 is /srv/app.js, "class A {" and "m() {} }" in two lines. The first line
 * ends at character 9. The parameters of m begin at character 11, so it is A.m, in line 2.
 */
#include "symbolizer/runtime/v8_script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/v8.h"
#include "common/array.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/v8_positions.h"

enum {
	SOURCE_PIECE_CHARACTERS = 8192,
	LINES_FIRST = 256,
};

static size_t script_bytes(const struct v8_script *script)
{
	return sizeof(*script) + strlen(script->name) + 1 +
	       script->line_capacity * sizeof(*script->line_ends) +
	       script->methods.capacity * sizeof(*script->methods.methods);
}

static void script_free(struct v8_script *script)
{
	if (!script)
		return;
	free(script->name);
	free(script->line_ends);
	free(script->methods.methods);
	free(script);
}

void v8_scripts_fini(struct v8_scripts *scripts)
{
	for (int i = 0; scripts->table && i < V8_SCRIPTS_CACHED; i++)
		script_free(scripts->table[i]);
	free(scripts->table);
	*scripts = (struct v8_scripts){0};
}

/* ---- Lines ---- */

struct lines {
	uint32_t *ends;
	size_t count, capacity;
};

static int lines_add(struct lines *lines, uint32_t end)
{
	const int r = ARRAY_RESERVE(lines->ends, lines->capacity, lines->count + 1, LINES_FIRST,
				    V8_LINES_MAX);

	if (r == 0)
		lines->ends[lines->count++] = end;
	return r;
}

/* Returns a character of a piece of the source. */
static uint32_t character(const uint8_t *bytes, bool wide, uint32_t i)
{
	return wide ? (uint32_t)(bytes[2 * i] | bytes[2 * i + 1] << 8) : bytes[i];
}

/* Adds the ends of lines among some characters. The end of a line is a line feed, a carriage return
 * without one, or one of two characters of Unicode (ECMAScript, "Line Terminators"). */
static int lines_scan(struct lines *lines, const uint8_t *bytes, bool wide, uint32_t count,
		      uint32_t base, uint32_t *before)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t c = character(bytes, wide, i);
		int r = 0;

		/* The pair is one end of a line, at its second character. */
		if (*before == '\r' && c != '\n')
			r = lines_add(lines, base + i - 1);
		if (r == 0 && (c == '\n' || c == 0x2028 || c == 0x2029))
			r = lines_add(lines, base + i);
		if (r < 0)
			return r;
		*before = c;
	}
	return 0;
}

/* Reads a field of a script that refers to a string, or to "undefined". -ENOENT: to that. -ESTALE:
 * the object has moved away. */
static int string_field(struct v8_heap *heap, uint64_t script, enum v8_constant field,
			uint64_t *string)
{
	uint16_t type;
	int r = v8_heap_word(heap, script, v8_constant(heap, field), string);

	if (r == 0)
		r = v8_heap_type(heap, *string, &type);
	return r < 0 ? r : v8_heap_is_string(type) ? 0 : -ENOENT;
}

/* Finds the source of a script. -E2BIG if it is too large to be read. */
static int source_find(struct v8_heap *heap, uint64_t script, struct v8_flat *flat)
{
	uint64_t source;
	int r = string_field(heap, script, V8_SCRIPT_SOURCE, &source);

	if (r == 0)
		r = v8_heap_flat(heap, source, flat);
	return r == 0 && (uint64_t)flat->length << flat->wide > V8_SOURCE_BYTES_MAX ? -E2BIG : r;
}

/* Reads the source of a script: counts its lines, and finds its classes. */
static int source_read(struct v8_heap *heap, uint64_t script, struct lines *lines,
		       struct v8_classes *classes)
{
	uint8_t piece[2 * SOURCE_PIECE_CHARACTERS];
	struct v8_flat flat;
	uint32_t before = 0;
	int r = source_find(heap, script, &flat);

	for (uint32_t done = 0; r == 0 && done < flat.length;) {
		const uint32_t left = flat.length - done;
		const uint32_t n = left < SOURCE_PIECE_CHARACTERS ? left : SOURCE_PIECE_CHARACTERS;

		r = memory_read(heap->memory, flat.address + ((uint64_t)done << flat.wide), piece,
				(size_t)n << flat.wide);
		if (r == 0)
			r = lines_scan(lines, piece, flat.wide, n, done, &before);
		for (uint32_t i = 0; r == 0 && i < n; i++)
			v8_classes_read(classes, character(piece, flat.wide, i));
		done += n;
	}
	return r == 0 ? lines_add(lines, flat.length) : r;
}

/* Takes the lines that V8 has counted. -ESTALE if it has not. */
static int lines_of_script(struct v8_heap *heap, uint64_t script, struct lines *lines)
{
	uint8_t *words = NULL;
	uint64_t array;
	size_t count = 0;
	int r = v8_heap_object(heap, script, v8_constant(heap, V8_SCRIPT_LINE_ENDS),
			       V8_TYPE_FIXED_ARRAY, &array);

	if (r == 0)
		r = v8_heap_array(heap, array, sizeof(uint64_t), V8_LINES_MAX, &words, &count);
	if (r == 0 && !count)
		r = -ESTALE;
	for (size_t i = 0; r == 0 && i < count; i++) {
		uint64_t word;

		memcpy(&word, words + i * sizeof(word), sizeof(word));
		if ((uint32_t)word || (i && word >> V8_SMI_SHIFT < lines->ends[i - 1]))
			r = -ESTALE;
		else
			r = lines_add(lines, (uint32_t)(word >> V8_SMI_SHIFT));
	}
	free(words);
	return r;
}

/* Reads lines and classes. What cannot be read is unknown. */
static int read_contents(struct v8_heap *heap, struct v8_script *script)
{
	struct v8_classes *classes = v8_classes_new();
	struct lines lines = {0};

	if (!classes)
		return -ENOMEM;
	int r = source_read(heap, script->address, &lines, classes);
	if (r == 0 && v8_classes_end(classes, &script->methods) == -ENOMEM)
		r = -ENOMEM;
	v8_classes_free(classes);
	const bool too_large = r == -E2BIG;
	if (too_large) {
		lines.count = 0;
		r = lines_of_script(heap, script->address, &lines);
	}
	script->line_ends = lines.ends;
	script->line_capacity = lines.capacity;
	script->line_count = r == 0 ? lines.count : 0;
	/* There are no lines without a source, and if it is in pieces or its lines are not counted.
	 * Other errors are those of objects that move while they are read. */
	return r == -ENOENT || r == -ENOTSUP || r == -E2BIG || too_large ? 0 : r;
}

static int script_read(struct v8_heap *heap, struct v8_script *script)
{
	char name[V8_FILE_BYTES] = "";
	uint64_t string;
	int32_t now;
	int r = string_field(heap, script->address, V8_SCRIPT_NAME, &string);

	if (r == 0)
		r = v8_heap_text(heap, string, name, sizeof(name));
	if (r == 0 || r == -ENOENT)
		r = v8_heap_small(heap, script->address, v8_constant(heap, V8_SCRIPT_LINE_OFFSET),
				  &script->first_line);
	if (r == 0)
		r = read_contents(heap, script);
	if (r == 0)
		r = v8_heap_small(heap, script->address, v8_constant(heap, V8_SCRIPT_ID), &now);
	if (r == 0 && now != script->id)
		r = -ESTALE;
	if (r == 0 && !(script->name = strdup(name)))
		r = -ENOMEM;
	return r;
}

int v8_script_get(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t address, int32_t id,
		  const struct v8_script **found)
{
	if (!scripts->table) {
		scripts->table = calloc(V8_SCRIPTS_CACHED, sizeof(*scripts->table));
		if (!scripts->table)
			return -ENOMEM;
		scripts->bytes = V8_SCRIPTS_CACHED * sizeof(*scripts->table);
	}
	struct v8_script **entry =
	    &scripts->table[(address >> 3 ^ (uint32_t)id) & (V8_SCRIPTS_CACHED - 1)];

	*found = *entry;
	if (*entry && (*entry)->address == address && (*entry)->id == id)
		return 0;
	struct v8_script *script = calloc(1, sizeof(*script));
	if (!script)
		return -ENOMEM;
	script->address = address;
	script->id = id;
	int r = script_read(heap, script);
	if (r < 0) {
		script_free(script);
		return r;
	}
	if (*entry)
		scripts->bytes -= script_bytes(*entry);
	script_free(*entry);
	*found = *entry = script;
	scripts->bytes += script_bytes(script);
	return 0;
}

uint32_t v8_script_line(const struct v8_script *script, int32_t offset)
{
	if (!script->line_count || offset < 0)
		return 0;
	return (uint32_t)script->first_line + 1 +
	       v8_position_line(script->line_ends, script->line_count, (uint32_t)offset);
}

int v8_script_class(struct v8_heap *heap, const struct v8_script *script, int32_t offset,
		    char *text, size_t size)
{
	struct v8_flat flat;
	struct v8_span name;

	if (offset < 0 || !v8_methods_find(&script->methods, (uint32_t)offset, &name))
		return -ENOENT;
	int r = source_find(heap, script->address, &flat);
	if (r == 0)
		r = v8_heap_slice(heap, &flat, name.start, name.length, text, size);
	/* There was a source. */
	return r == -ENOENT ? -ESTALE : r;
}

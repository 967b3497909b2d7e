/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A SharedFunctionInfo has the function's ScopeInfo (v8_scope.c), its Script and
 * its BytecodeArray. The Script has a name, which is the file, and the source, in which lines are
 * counted: V8 does that itself only when it first needs them (Script::line_ends).
 *
 * Before a function is shown, its identity is computed from the memory as it is then, and compared
 * with that of the sample. It is computed again after the name has been read, because the garbage
 * collector may have moved another object there meanwhile. What is cached is used only if the
 * identity still matches.
 *
 * Example: a sample has the SharedFunctionInfo at 0x77f0ffe2880 with the identity 0x5ac1f03e.
 * There, the Script has the number 81, and the function literal is 2; their hash is 0x5ac1f03e. So
 * it is the function "leaf", from character 27 of /srv/app.js on. The first line ends at character
 * 12: leaf begins in line 2.
 */
#include "symbolizer/runtime/v8_function.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/v8.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/v8_scope.h"

enum {
	HEAD_WORDS = 3, /* of a SharedFunctionInfo, from the Script on */
	/* InterpreterData and Code have the BytecodeArray in their first field after the map; of
	 * Code it is the one that otherwise has the data for deoptimization. */
	INTERPRETER_DATA_BYTECODES = 8,
	SOURCE_PIECE_CHARACTERS = 8192,
	LINES_STEP = 1024,
};

/* Reads the words from which the identity is made. `*script` is tagged. */
static int read_head(struct v8_heap *heap, uint64_t address, uint64_t *script, int32_t *script_id,
		     uint32_t *identity)
{
	const uint32_t offset = v8_constant(heap, V8_SHARED_SCRIPT);
	uint64_t words[HEAD_WORDS];
	int r = v8_heap_check(heap, address + V8_TAG, V8_TYPE_SHARED);

	if (r == 0)
		r = memory_read(heap->memory, address + offset, words, sizeof(words));
	if (r == 0)
		r = v8_heap_check(heap, words[0], V8_TYPE_SCRIPT);
	if (r == 0)
		r = v8_heap_small(heap, words[0], v8_constant(heap, V8_SCRIPT_ID), script_id);
	if (r < 0)
		return r;
	*script = words[0];
	*identity = v8_identity((uint32_t)*script_id, (uint32_t)(words[2] >> 32), words[1]);
	return 0;
}

int v8_function_identify(struct v8_heap *heap, uint64_t address, uint32_t *identity)
{
	uint64_t script;
	int32_t id;

	return read_head(heap, address, &script, &id, identity);
}

static void function_fini(struct v8_functions *functions, struct v8_function *function)
{
	if (!function->address)
		return;
	functions->bytes -= strlen(function->name) + 1 + function->positions_length;
	free(function->name);
	free(function->positions);
	memset(function, 0, sizeof(*function));
}

static void script_fini(struct v8_functions *functions, struct v8_script *script)
{
	if (!script->address)
		return;
	functions->bytes -=
	    strlen(script->name) + 1 + script->line_count * sizeof(*script->line_ends);
	free(script->name);
	free(script->line_ends);
	memset(script, 0, sizeof(*script));
}

void v8_functions_fini(struct v8_functions *functions)
{
	for (int i = 0; i < V8_FUNCTIONS_CACHED; i++)
		function_fini(functions, &functions->functions[i]);
	for (int i = 0; i < V8_SCRIPTS_CACHED; i++)
		script_fini(functions, &functions->scripts[i]);
}

/* ---- Lines ---- */

struct lines {
	uint32_t *ends;
	size_t count;
};

static int lines_add(struct lines *lines, uint32_t end)
{
	if (lines->count == V8_LINES_MAX)
		return -E2BIG;
	if (lines->count % LINES_STEP == 0) {
		uint32_t *more =
		    realloc(lines->ends, (lines->count + LINES_STEP) * sizeof(*lines->ends));
		if (!more)
			return -ENOMEM;
		lines->ends = more;
	}
	lines->ends[lines->count++] = end;
	return 0;
}

/* Adds the ends of lines among some characters. The end of a line is a line feed, a carriage return
 * without one, or one of two characters of Unicode (ECMAScript, "Line Terminators"). */
static int lines_scan(struct lines *lines, const uint8_t *bytes, bool wide, uint32_t count,
		      uint32_t base, uint32_t *before)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t c =
		    wide ? (uint32_t)(bytes[2 * i] | bytes[2 * i + 1] << 8) : bytes[i];
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

/* Counts the lines of the source of a script. */
static int lines_of_source(struct v8_heap *heap, uint64_t script, struct lines *lines)
{
	uint8_t piece[2 * SOURCE_PIECE_CHARACTERS];
	struct v8_flat flat;
	uint32_t before = 0;
	uint64_t source;
	int r = v8_heap_word(heap, script, v8_constant(heap, V8_SCRIPT_SOURCE), &source);

	if (r == 0)
		r = v8_heap_flat(heap, source, &flat);
	for (uint32_t done = 0; r == 0 && done < flat.length;) {
		const uint32_t left = flat.length - done;
		const uint32_t n = left < SOURCE_PIECE_CHARACTERS ? left : SOURCE_PIECE_CHARACTERS;

		r = memory_read(heap->memory, flat.address + ((uint64_t)done << flat.wide), piece,
				(size_t)n << flat.wide);
		if (r == 0)
			r = lines_scan(lines, piece, flat.wide, n, done, &before);
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

/* Finds the script of a function. */
static int script_get(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
		      int32_t id, struct v8_script **found)
{
	struct v8_script *script =
	    &functions->scripts[(address >> 3 ^ (uint32_t)id) & (V8_SCRIPTS_CACHED - 1)];
	char name[V8_FILE_BYTES] = "";
	struct lines lines = {0};
	uint64_t string;
	int32_t now;

	*found = script;
	if (script->address == address && script->id == id)
		return 0;
	script_fini(functions, script);
	int r = v8_heap_word(heap, address, v8_constant(heap, V8_SCRIPT_NAME), &string);
	/* A script without a name has "undefined" there. */
	if (r == 0 && v8_heap_text(heap, string, name, sizeof(name)) < 0)
		name[0] = 0;
	if (r == 0)
		r = v8_heap_small(heap, address, v8_constant(heap, V8_SCRIPT_LINE_OFFSET),
				  &script->first_line);
	if (r == 0 && lines_of_script(heap, address, &lines) < 0) {
		lines.count = 0;
		if (lines_of_source(heap, address, &lines) < 0)
			lines.count = 0;
	}
	if (r == 0)
		r = v8_heap_small(heap, address, v8_constant(heap, V8_SCRIPT_ID), &now);
	if (r == 0 && now != id)
		r = -ESTALE;
	script->name = r == 0 ? strdup(name) : NULL;
	if (!script->name) {
		free(lines.ends);
		return r < 0 ? r : -ENOMEM;
	}
	script->address = address;
	script->id = id;
	script->line_ends = lines.ends;
	script->line_count = lines.count;
	functions->bytes += strlen(name) + 1 + lines.count * sizeof(*lines.ends);
	return 0;
}

/* ---- Functions ---- */

int v8_function_bytecodes(struct v8_heap *heap, const struct v8_function *function,
			  uint64_t *bytecodes)
{
	uint16_t type;
	uint64_t data;
	int r = v8_heap_word(heap, function->address + V8_TAG, v8_constant(heap, V8_SHARED_DATA),
			     &data);

	/* Code of the baseline compiler, in it the data of the interpreter, in that bytecodes. */
	for (int i = 0; r == 0 && i < 3; i++) {
		r = v8_heap_type(heap, data, &type);
		if (r < 0)
			break;
		if (type == v8_constant(heap, V8_TYPE_BYTECODES)) {
			*bytecodes = data;
			return 0;
		}
		if (type == v8_constant(heap, V8_TYPE_CODE))
			r = v8_heap_word(heap, data, v8_constant(heap, V8_CODE_DEOPT), &data);
		else if (type == v8_constant(heap, V8_TYPE_INTERPRETER_DATA))
			r = v8_heap_word(heap, data, INTERPRETER_DATA_BYTECODES, &data);
		else
			return -ESTALE;
	}
	return r < 0 ? r : -ESTALE;
}

/* Reads the table of positions of the bytecodes. Without it, the function has no lines. */
static int read_positions(struct v8_heap *heap, struct v8_function *function)
{
	uint64_t bytecodes, table;
	int r = v8_function_bytecodes(heap, function, &bytecodes);

	if (r == 0)
		r = v8_heap_word(heap, bytecodes, v8_constant(heap, V8_BYTECODE_POSITIONS), &table);
	if (r == 0)
		r = v8_heap_array(heap, table, 1, V8_TABLE_BYTES_MAX, &function->positions,
				  &function->positions_length);
	return r == -ESRCH || r == -EDQUOT ? r : 0;
}

/* Reads the name of a function: from its ScopeInfo, or it is there itself as long as the function
 * was never called. */
static int read_scope(struct v8_heap *heap, uint64_t address, struct v8_scope *scope)
{
	uint64_t object;
	int r = v8_heap_word(heap, address + V8_TAG, v8_constant(heap, V8_SHARED_NAME), &object);

	if (r < 0)
		return r;
	r = v8_scope_read(heap, object, scope);
	if (r == -ESTALE || r == -EFAULT)
		r = v8_heap_text(heap, object, scope->name, sizeof(scope->name));
	return r == -EFAULT ? -ESTALE : r;
}

/* Reads the function into a free entry of the cache. */
static int function_read(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
			 uint32_t identity, struct v8_function *function)
{
	struct v8_function read = {.address = address, .identity = identity};
	char name[V8_NAME_BYTES + sizeof("async ")];
	struct v8_scope scope;
	uint32_t now;
	int r = read_head(heap, address, &read.script, &read.script_id, &now);

	if (r == 0 && now != identity)
		r = -ESTALE;
	if (r == 0)
		r = read_scope(heap, address, &scope);
	if (r == 0)
		r = read_positions(heap, &read);
	if (r == 0)
		r = v8_function_identify(heap, address, &now);
	if (r == 0 && now != identity)
		r = -ESTALE;
	if (r == 0) {
		read.start = scope.start;
		snprintf(name, sizeof(name), "%s%s", scope.async ? "async " : "",
			 scope.name[0] ? scope.name : "(anonymous)");
		read.name = strdup(name);
		if (!read.name)
			r = -ENOMEM;
	}
	if (r < 0) {
		free(read.positions);
		return r;
	}
	functions->bytes += strlen(read.name) + 1 + read.positions_length;
	*function = read;
	return 0;
}

int v8_function_get(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
		    uint32_t identity, struct v8_function **found)
{
	struct v8_function *function =
	    &functions->functions[(address >> 3 ^ identity) & (V8_FUNCTIONS_CACHED - 1)];
	uint32_t now;
	int r;

	if (function->address == address && function->identity == identity) {
		r = v8_function_identify(heap, address, &now);
		if (r == 0 && now != identity)
			r = -ESTALE;
	} else {
		function_fini(functions, function);
		r = function_read(functions, heap, address, identity, function);
	}
	*found = function;
	return r == -EFAULT ? -ESTALE : r;
}

struct v8_position v8_function_position(const struct v8_heap *heap,
					const struct v8_function *function, uint32_t bytecode)
{
	const struct v8_position_table table = {.bytes = function->positions,
						.length = function->positions_length,
						.offset_shift = heap->image->position_offset_shift};

	return v8_position_find(&table, bytecode);
}

int v8_function_show(struct v8_functions *functions, struct v8_heap *heap,
		     const struct v8_function *function, int32_t offset,
		     struct runtime_frames *frames)
{
	struct runtime_frame *frame = &frames->frames[frames->count];
	struct v8_script *script;
	int r = script_get(functions, heap, function->script, function->script_id, &script);

	if (r < 0)
		return r == -EFAULT ? -ESTALE : r;
	*frame = (struct runtime_frame){
	    .function = runtime_frames_keep(frames, function->name, strlen(function->name)),
	    .file = runtime_frames_keep(frames, script->name, strlen(script->name))};
	const uint32_t first = (uint32_t)script->first_line + 1;
	if (script->line_count && function->start >= 0)
		frame->start_line = first + v8_position_line(script->line_ends, script->line_count,
							     (uint32_t)function->start);
	if (script->line_count && offset >= 0)
		frame->line = first + v8_position_line(script->line_ends, script->line_count,
						       (uint32_t)offset);
	frames->count++;
	return 0;
}

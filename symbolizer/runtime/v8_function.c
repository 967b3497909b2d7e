/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A SharedFunctionInfo has the function's ScopeInfo (v8_scope.c), its Script and
 * its BytecodeArray.
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
	V8_CLASS_BYTES = 256, /* of the name of a class; a longer one is cut */
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

static size_t function_bytes(const struct v8_function *function)
{
	return sizeof(*function) + strlen(function->name) + 1 + function->positions_length;
}

static void function_free(struct v8_function *function)
{
	if (!function)
		return;
	free(function->name);
	free(function->positions);
	free(function);
}

void v8_functions_fini(struct v8_functions *functions)
{
	for (int i = 0; functions->table && i < V8_FUNCTIONS_CACHED; i++)
		function_free(functions->table[i]);
	free(functions->table);
	v8_scripts_fini(&functions->scripts);
	*functions = (struct v8_functions){0};
}

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

bool v8_function_is_wasm(struct v8_heap *heap, uint64_t address)
{
	const uint32_t offset = v8_constant(heap, V8_SHARED_DATA);
	uint64_t data;

	return v8_heap_word(heap, address + V8_TAG, offset, &data) == 0 &&
	       v8_heap_check(heap, data, V8_TYPE_WASM_EXPORT) == 0;
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

/* Makes the name as JavaScript programmers write it: "async Class.method", "Class.get x", "new
 * Class". Of a method whose class is not known it is the method's own name. */
static int make_name(struct v8_functions *functions, struct v8_heap *heap,
		     const struct v8_function *function, const struct v8_scope *scope, char **made)
{
	const char *own = scope->name[0] ? scope->name : "(anonymous)";
	const char *before = v8_scope_is_async(scope)	      ? "async "
			     : v8_scope_is_constructor(scope) ? "new "
							      : "";
	char class_name[V8_CLASS_BYTES] = "";
	const struct v8_script *script;

	if (v8_scope_is_method(scope)) {
		int r = v8_script_get(&functions->scripts, heap, function->script,
				      function->script_id, &script);
		if (r == 0)
			r = v8_script_class(heap, script, scope->start, class_name,
					    sizeof(class_name));
		if (r < 0 && r != -ENOENT)
			return r;
	}
	if (asprintf(made, "%s%s%s%s", before, class_name, class_name[0] ? "." : "", own) >= 0)
		return 0;
	*made = NULL;
	return -ENOMEM;
}

static int function_read(struct v8_functions *functions, struct v8_heap *heap,
			 struct v8_function *function)
{
	struct v8_scope scope;
	uint32_t now;
	int r = read_head(heap, function->address, &function->script, &function->script_id, &now);

	if (r == 0 && now != function->identity)
		r = -ESTALE;
	if (r == 0)
		r = read_scope(heap, function->address, &scope);
	if (r == 0)
		r = make_name(functions, heap, function, &scope, &function->name);
	if (r < 0)
		return r;
	function->start = scope.start;
	r = read_positions(heap, function);
	if (r == 0)
		r = v8_function_identify(heap, function->address, &now);
	return r == 0 && now != function->identity ? -ESTALE : r;
}

/* Puts the function at `address` into an entry of the cache. */
static int function_add(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
			uint32_t identity, struct v8_function **entry)
{
	struct v8_function *function = calloc(1, sizeof(*function));

	if (!function)
		return -ENOMEM;
	function->address = address;
	function->identity = identity;
	int r = function_read(functions, heap, function);
	if (r < 0) {
		function_free(function);
		return r;
	}
	if (*entry)
		functions->bytes -= function_bytes(*entry);
	function_free(*entry);
	*entry = function;
	functions->bytes += function_bytes(function);
	return 0;
}

int v8_function_get(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
		    uint32_t identity, struct v8_function **found)
{
	uint32_t now;
	int32_t id;
	int r;

	if (!functions->table) {
		functions->table = calloc(V8_FUNCTIONS_CACHED, sizeof(*functions->table));
		if (!functions->table)
			return -ENOMEM;
		functions->bytes = V8_FUNCTIONS_CACHED * sizeof(*functions->table);
	}
	struct v8_function **entry =
	    &functions->table[(address >> 3 ^ identity) & (V8_FUNCTIONS_CACHED - 1)];
	if (*entry && (*entry)->address == address && (*entry)->identity == identity) {
		/* The Script may have moved since then. */
		r = read_head(heap, address, &(*entry)->script, &id, &now);
		if (r == 0 && now != identity)
			r = -ESTALE;
	} else {
		r = function_add(functions, heap, address, identity, entry);
		/* What it refers to may have moved meanwhile. */
		if (r == -ESTALE || r == -EFAULT)
			r = function_add(functions, heap, address, identity, entry);
	}
	*found = *entry;
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
		     struct named_frames *frames)
{
	struct named_frame *frame = &frames->frames[frames->count];
	const struct v8_script *script;
	int r = v8_script_get(&functions->scripts, heap, function->script, function->script_id,
			      &script);

	if (r < 0)
		return r == -EFAULT ? -ESTALE : r;
	/* Functions that are inlined mostly come from the same file. */
	const char *file = frames->count && !strcmp(frame[-1].file, script->name)
			       ? frame[-1].file
			       : named_frames_keep(frames, script->name, strlen(script->name));
	*frame = (struct named_frame){
	    .function = named_frames_keep(frames, function->name, strlen(function->name)),
	    .file = file,
	    .line = v8_script_line(script, offset),
	    .start_line = v8_script_line(script, function->start)};
	frames->count++;
	return 0;
}

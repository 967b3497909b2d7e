/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what is shown of a JavaScript function: name, file, lines. Functions and scripts that were
 * read are cached, by address and identity.
 */
#ifndef SYMBOLIZER_RUNTIME_V8_FUNCTION_H
#define SYMBOLIZER_RUNTIME_V8_FUNCTION_H

#include "symbolizer/runtime/v8_heap.h"
#include "symbolizer/runtime/v8_positions.h"
#include "symbolizer/runtime/v8_script.h"

/* A SharedFunctionInfo. */
struct v8_function {
	uint64_t address; /* without the tag */
	uint32_t identity;
	int32_t start;	 /* offset in the script; -1: unknown */
	uint64_t script; /* tagged */
	int32_t script_id;
	char *name;
	uint8_t *positions; /* of its bytecodes; NULL if there are none */
	size_t positions_length;
};

struct v8_functions {
	struct v8_function **table; /* V8_FUNCTIONS_CACHED; NULL: none was read yet */
	size_t bytes;		    /* allocated, without those of the scripts */
	struct v8_scripts scripts;
};

/* Computes the identity of the function at `address` (without the tag) from what is in memory.
 * -ESTALE if there is no function. */
int v8_function_identify(struct v8_heap *heap, uint64_t address, uint32_t *identity);

/* Finds a function that has the identity. 0; -ESTALE: the object at `address` is another one; or an
 * error of memory_read(). `*function` is valid until the next call. */
int v8_function_get(struct v8_functions *functions, struct v8_heap *heap, uint64_t address,
		    uint32_t identity, struct v8_function **function);

/* Finds the BytecodeArray of a function. -ESTALE if it has none any more. */
int v8_function_bytecodes(struct v8_heap *heap, const struct v8_function *function,
			  uint64_t *bytecodes);

/* Returns whether a module of WebAssembly exports the function at `address` (without the tag). */
bool v8_function_is_wasm(struct v8_heap *heap, uint64_t address);

/* Finds the source position of a bytecode. */
struct v8_position v8_function_position(const struct v8_heap *heap,
					const struct v8_function *function, uint32_t bytecode);

/* Adds a frame: the function at `offset` of its script, or at no known place if that is
 * negative. */
int v8_function_show(struct v8_functions *functions, struct v8_heap *heap,
		     const struct v8_function *function, int32_t offset,
		     struct named_frames *frames);

void v8_functions_fini(struct v8_functions *functions);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions at a pc in code that V8 has compiled, with those that are inlined there. */
#ifndef SYMBOLIZER_RUNTIME_V8_CODE_H
#define SYMBOLIZER_RUNTIME_V8_CODE_H

#include "symbolizer/runtime/v8_function.h"

struct v8_code;

struct v8_codes {
	struct v8_code **table; /* V8_CODES_CACHED; NULL: none was read yet */
	size_t bytes;		/* allocated */
};

/* A sampled place in compiled code, and the function that the walker found in its frame. */
struct v8_place {
	uint64_t pc; /* of the instruction, or within it for a return address */
	uint64_t shared;
	uint32_t identity;
};

/* Adds the frames at a place: the innermost inlined function first. If the code is no longer there,
 * it is the function without a line, and a frame that says so. -ESTALE: the function is no longer
 * there either. */
int v8_code_show(struct v8_codes *codes, struct v8_functions *functions, struct v8_heap *heap,
		 const struct v8_place *place, struct named_frames *frames);

void v8_codes_fini(struct v8_codes *codes);

#endif

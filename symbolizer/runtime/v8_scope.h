/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a ScopeInfo: the name of a function, its kind, and where it begins. */
#ifndef SYMBOLIZER_RUNTIME_V8_SCOPE_H
#define SYMBOLIZER_RUNTIME_V8_SCOPE_H

#include "symbolizer/runtime/v8_heap.h"

enum {
	V8_NAME_BYTES = 512, /* of the name of a function, with its NUL; a longer one is cut */
};

struct v8_scope {
	char name[V8_NAME_BYTES]; /* "" if the function has none */
	uint8_t kind;		  /* FunctionKind */
	int32_t start;		  /* offset in the script; -1: unknown */
};

/* 0; -ESTALE if the object is no ScopeInfo; or an error of memory_read(). */
int v8_scope_read(struct v8_heap *heap, uint64_t object, struct v8_scope *scope);

/* Whether it is an async function; the constructor of a class; a method, getter or setter of a
 * class or of an object. */
bool v8_scope_is_async(const struct v8_scope *scope);
bool v8_scope_is_constructor(const struct v8_scope *scope);
bool v8_scope_is_method(const struct v8_scope *scope);

#endif

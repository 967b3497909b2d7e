/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A ScopeInfo (src/objects/scope-info.tq) begins with three words: flags, number of
 * parameters, number of local variables in the context. From V8 13 on, the first and the last
 * character of the function follow. Which of the next fields exist, depends on the flags:
 *
 *	the number of variables of a module			if it is a module
 *	the names of the local variables, one word each		if they are fewer than 75
 *	a hash table with them					otherwise
 *	facts about the local variables, one word each
 *	a saved variable of the class				if the flag is set
 *	the name of the function, and where it is		if it has a name
 *	the inferred name					if the flag is set
 *	the first and the last character (until V8 12)		for functions and some others
 *
 * Example: the flags 0x4171e2 of V8 12 are those of a function with a name (bits 12 and 13) and
 * an inferred name (bit 14). Without local variables its name is the word at offset 32, the
 * inferred name the one at 48, the first character the small integer at 56.
 */
#include "symbolizer/runtime/v8_scope.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpf/runtime/v8.h"

enum {
	WORD = 8,
	FLAGS = 8,
	LOCALS = 24,
	/* From this version on the positions come before what depends on the flags, and the flags
	 * are no small integer. The version before was examined. */
	FIRST_WITH_FIXED_POSITIONS = 13,
	FIXED_START = 32,
	FIXED_END = 48,
	OLD_END = 32,
	LOCALS_WITHOUT_TABLE = 75, /* kScopeInfoMaxInlinedLocalNamesSize, common/globals.h */
	LOCALS_MAX = 1 << 20,
	/* Flags: scope-info.tq, ScopeFlags. The bits are the same in 11.3 to 14.6. */
	SCOPE_TYPE_MASK = 15,
	FLAG_SAVED_CLASS_VARIABLE = 1 << 10,
	FLAG_FUNCTION_NAME = 3 << 12,
	FLAG_INFERRED_NAME = 1 << 14,
	KIND_SHIFT = 17,
	KIND_MASK = 31,
};

/* FunctionKind (src/objects/function-kind.h), the same in 11.3 to 14.6. */
enum {
	KIND_CONSTRUCTOR_FIRST = 3,   /* kBaseConstructor */
	KIND_CONSTRUCTOR_LAST = 6,    /* kDerivedConstructor */
	KIND_ACCESSOR_FIRST = 7,      /* kGetterFunction */
	KIND_ACCESSOR_LAST = 10,      /* kStaticSetterFunction */
	KIND_ASYNC_FIRST = 12,	      /* kAsyncArrowFunction */
	KIND_ASYNC_METHOD_FIRST = 14, /* kAsyncConciseMethod */
	KIND_ASYNC_METHOD_LAST = 17,  /* kStaticAsyncConciseGeneratorMethod */
	KIND_ASYNC_LAST = 18,	      /* kAsyncGeneratorFunction */
	KIND_METHOD_FIRST = 20,	      /* kConciseGeneratorMethod */
	KIND_METHOD_LAST = 23,	      /* kStaticConciseMethod */
	/* Functions that initialise the fields of a class: until 13.6, 24 those of an object and 25
	 * those of the class; in 14.6, 24 and 25, and 26 and 27. */
	KIND_FIELDS = 24,
	KIND_STATIC_FIELDS_OLD = 25,
	KIND_STATIC_FIELDS = 26,
	KIND_FIELDS_LAST = 27,
	FIRST_WITH_FOUR_KINDS = 14,
};

/* The type of the scope of a module (ScopeType in src/common/globals.h), by version: 12 and older,
 * newer. */
static uint32_t module_type(const struct v8_heap *heap)
{
	return heap->image->major < FIRST_WITH_FIXED_POSITIONS ? 3 : 5;
}

/* Reads the string at `offset`. Other objects, such as "undefined", give no name. */
static int read_name(struct v8_heap *heap, uint64_t object, uint32_t offset, char *name)
{
	uint64_t string;
	int r = v8_heap_word(heap, object, offset, &string);

	if (r < 0)
		return r;
	r = v8_heap_text(heap, string, name, V8_NAME_BYTES);
	if (r < 0)
		name[0] = 0;
	return r == -ESTALE || r == -EFAULT ? 0 : r;
}

/* Returns the offset of the first field after the local variables. */
static int after_locals(const struct v8_heap *heap, uint64_t object, uint32_t flags,
			uint32_t *offset)
{
	const bool fixed = heap->image->major >= FIRST_WITH_FIXED_POSITIONS;
	int32_t locals;
	int r = v8_heap_small(heap, object, LOCALS, &locals);

	if (r < 0)
		return r;
	if (locals < 0 || locals > LOCALS_MAX)
		return -ESTALE;
	*offset = fixed ? FIXED_END : OLD_END;
	if ((flags & SCOPE_TYPE_MASK) == module_type(heap))
		*offset += WORD;
	*offset += (locals < LOCALS_WITHOUT_TABLE ? (uint32_t)locals : 1) * WORD;
	*offset += (uint32_t)locals * WORD;
	if (flags & FLAG_SAVED_CLASS_VARIABLE)
		*offset += WORD;
	return 0;
}

/* Names a function that initialises fields. V8 itself stores the name of the class for it. */
static void name_fields(const struct v8_heap *heap, struct v8_scope *scope)
{
	const bool is_static =
	    scope->kind >= (heap->image->major < FIRST_WITH_FOUR_KINDS ? KIND_STATIC_FIELDS_OLD
								       : KIND_STATIC_FIELDS);

	snprintf(scope->name, sizeof(scope->name), "%s",
		 is_static ? "<static_initializer>" : "<instance_members_initializer>");
}

int v8_scope_read(struct v8_heap *heap, uint64_t object, struct v8_scope *scope)
{
	const bool fixed = heap->image->major >= FIRST_WITH_FIXED_POSITIONS;
	uint32_t offset = 0;
	uint64_t word;
	int r = v8_heap_check(heap, object, V8_TYPE_SCOPE);

	*scope = (struct v8_scope){.start = -1};
	if (r == 0)
		r = v8_heap_word(heap, object, FLAGS, &word);
	if (r < 0)
		return r;
	const uint32_t flags = (uint32_t)(fixed ? word : word >> V8_SMI_SHIFT);
	scope->kind = (uint8_t)(flags >> KIND_SHIFT & KIND_MASK);
	r = after_locals(heap, object, flags, &offset);
	if (r == 0 && (flags & FLAG_FUNCTION_NAME)) {
		r = read_name(heap, object, offset, scope->name);
		offset += 2 * WORD;
	}
	if (r == 0 && (flags & FLAG_INFERRED_NAME)) {
		if (!scope->name[0])
			r = read_name(heap, object, offset, scope->name);
		offset += WORD;
	}
	if (scope->kind >= KIND_FIELDS && scope->kind <= KIND_FIELDS_LAST)
		name_fields(heap, scope);
	if (r == 0 && v8_heap_small(heap, object, fixed ? FIXED_START : offset, &scope->start) < 0)
		scope->start = -1;
	return r;
}

static bool in_kinds(const struct v8_scope *scope, unsigned int first, unsigned int last)
{
	return scope->kind >= first && scope->kind <= last;
}

bool v8_scope_is_async(const struct v8_scope *scope)
{
	return in_kinds(scope, KIND_ASYNC_FIRST, KIND_ASYNC_LAST);
}

bool v8_scope_is_method(const struct v8_scope *scope)
{
	return in_kinds(scope, KIND_ACCESSOR_FIRST, KIND_ACCESSOR_LAST) ||
	       in_kinds(scope, KIND_ASYNC_METHOD_FIRST, KIND_ASYNC_METHOD_LAST) ||
	       in_kinds(scope, KIND_METHOD_FIRST, KIND_METHOD_LAST);
}

bool v8_scope_is_constructor(const struct v8_scope *scope)
{
	return in_kinds(scope, KIND_CONSTRUCTOR_FIRST, KIND_CONSTRUCTOR_LAST);
}

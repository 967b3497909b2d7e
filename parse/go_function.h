/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of one function in the table of functions of a Go program (struct _func in
 * runtime/runtime2.go, Go 1.18 to 1.27; flags in internal/abi/symtab.go). Two arrays of 32-bit
 * numbers follow it: where its further lists of values are, and where its data is. Internal to
 * go_functions.c and go_rows.c.
 */
#ifndef PARSE_GO_FUNCTION_H
#define PARSE_GO_FUNCTION_H

#include <stdint.h>

#include "common/cursor.h"
#include "parse/go_module.h"

enum {
	GO_FUNCTION_BYTES_1_18 = 40,
	GO_FUNCTION_BYTES_1_20 = 44, /* with the start line */

	GO_FLAG_OUTERMOST = 1, /* FuncFlagTopFrame: nothing calls it */
	GO_FLAG_SWITCHES = 2,  /* FuncFlagSPWrite: it loads rsp */
	GO_FLAG_ASSEMBLY = 4,  /* FuncFlagAsm */
};

struct go_function {
	uint32_t start, name;
	uint32_t stack_sizes, files, lines; /* lists of values (go_values.h); 0: there is none */
	uint32_t unit;			    /* the first file of its unit, in module->units */
	uint32_t start_line;		    /* 0 if unknown */
	uint32_t value_count;		    /* of further lists */
	uint8_t data_count, flags;
};

static inline size_t go_function_bytes(const struct go_module *module)
{
	return module->has_start_lines ? GO_FUNCTION_BYTES_1_20 : GO_FUNCTION_BYTES_1_18;
}

/* Reads a description. The cursor has at least go_function_bytes(). */
static inline struct go_function go_function_read(const struct go_module *module, struct cursor *c)
{
	struct go_function function;

	function.start = cursor_u32(c);
	function.name = cursor_u32(c);
	cursor_skip(c, 2 * sizeof(uint32_t)); /* args, deferreturn */
	function.stack_sizes = cursor_u32(c);
	function.files = cursor_u32(c);
	function.lines = cursor_u32(c);
	function.value_count = cursor_u32(c);
	function.unit = cursor_u32(c);
	function.start_line = module->has_start_lines ? cursor_u32(c) : 0;
	cursor_skip(c, 1); /* funcID */
	function.flags = cursor_u8(c);
	cursor_skip(c, 1);
	function.data_count = cursor_u8(c);
	return function;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rows of a Go program, from its table of functions (go_module.h).
 *
 * How this works. Go's own tracebacks need to know for each instruction how far the stack has grown
 * since the function was called. So each function has a list of these numbers (go_values.h). The
 * canonical frame address is rsp + 8 + that number. This is exact at each instruction, in
 * hand-written assembly too, which frame pointers are not: a function without a frame has none, and
 * each function is without one at its start and end.
 *
 * While the number is not 0, the caller's rbp is saved at CFA - 16. Before Go 1.21, and in a few
 * functions in assembly, it is saved an instruction later. It is needed only where a stack was
 * switched, and the next frame has it again.
 *
 * Three kinds of functions are different, which the table says by flags:
 *
 * - Outermost: nothing calls runtime.goexit, runtime.mstart and some others.
 * - Switching: they load rsp, such as runtime.systemstack. The list says nothing about what
 * follows, so their instructions have to be followed (code_flow.h).
 * - Abandoning: runtime.mcall and runtime.morestack switch, and never return to the stack that they
 *   have left. Another thread may run on it meanwhile.
 *
 * Example: a function at 0x1000 with {0, 0x1}, {8, 0x4}, {40, 0x60}, {8, 0x61}, {0, 0x62} has the
 * rows (0, rsp + 8), (0x1, rsp + 16), (0x4, rsp + 48), (0x60, rsp + 16), (0x61, rsp + 8); the
 * middle three with rbp at CFA - 16.
 *
 * Sources: runtime/traceback.go, internal/abi/symtab.go (FuncFlag) and cmd/internal/obj/x86/obj6.go
 * (preprocess) of Go 1.18 to 1.27. x86-64. Pure.
 */
#ifndef PARSE_GO_ROWS_H
#define PARSE_GO_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "parse/cfi_types.h"
#include "parse/go_module.h"

/* Receives a function whose instructions have to be followed: its virtual addresses, and whether it
 * abandons the stack that it was called on. Returns 0, or a negative errno that ends the parse. */
typedef int go_visit_switch(void *context, uint64_t start, uint64_t end, bool abandons);

/* Delivers the rows of all functions, in the order of the table. Reads at most `rows_max` functions
 * and pairs of their lists. A function whose description is malformed or cannot be read is left
 * out; where functions are not in ascending order, the table is taken to end. Returns 0; -E2BIG:
 * there are more; -ENOMEM; or the error of the sink or of `visit`. */
int go_rows_parse(const struct go_module *module, const struct elf_source *source,
		  uint64_t rows_max, const struct cfi_sink *sink, go_visit_switch *visit,
		  void *context);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the machine code that CPython's JIT compiler (3.13, 3.14) has made in a process. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_JIT_H
#define SYMBOLIZER_RUNTIME_CPYTHON_JIT_H

#include "symbolizer/runtime/runtime.h"

/* Appends the JIT code of the process to the ranges of `layout`, with the data CPYTHON_RANGE_JIT.
 * Appends nothing if the build has no JIT compiler or its lists cannot be read; a list that changes
 * while it is read may be incomplete, until the next call. */
void cpython_jit_add_ranges(const struct runtime_process *process, struct runtime_layout *layout);

#endif

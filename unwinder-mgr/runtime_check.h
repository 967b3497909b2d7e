/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a file be a language runtime?
 *
 * The worker asks the manager to report the processes that map a module (WATCH), and may then read
 * the memory of these processes. A compromised worker would ask for the C library. So the manager
 * does not believe the worker, but looks for the symbols of common/runtime_symbols.def itself.
 *
 * Example: libpython3.11.so.1.0 defines _PyEval_EvalFrameDefault and PyCode_Type, so it can be
 * CPython. libc.so.6 defines neither, and the request is refused.
 */
#ifndef UNWINDER_MGR_RUNTIME_CHECK_H
#define UNWINDER_MGR_RUNTIME_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "parse/elf_image.h"

/* Returns whether the file can be one of the `wanted` runtimes, a set by enum runtime_id. A file
 * that cannot be read or is not ELF cannot. */
bool runtime_check_file(const struct elf_source *source, uint32_t wanted);

#endif

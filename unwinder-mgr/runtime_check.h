/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a file be a language runtime?
 *
 * The worker asks the manager to report the processes that map a module (WATCH), and may then read
 * the memory of these processes. A compromised worker would ask for the C library. So the manager
 * does not believe the worker, but looks for the symbols of common/runtime_symbols.def itself.
 * Of a runtime whose names come with the samples, no memory is handed out.
 *
 * Example: libpython3.11.so.1.0 defines _PyEval_EvalFrameDefault and PyCode_Type, so it can be
 * CPython. libc.so.6 defines neither, and the request is refused.
 */
#ifndef UNWINDER_MGR_RUNTIME_CHECK_H
#define UNWINDER_MGR_RUNTIME_CHECK_H

#include <stdint.h>

#include "parse/elf_image.h"

/* What the worker may do with the processes of a file. */
enum runtime_access {
	RUNTIME_ACCESS_NONE, /* the file is no runtime */
	RUNTIME_ACCESS_WALK, /* have the kernel side walk their frames, with ranges of its choice */
	RUNTIME_ACCESS_READ, /* that, and read their memory */
};

/* Returns what the worker may do if the file is one of the `wanted` runtimes, a set of
 * common/runtimes.h. A file that cannot be read or is not ELF is none. */
enum runtime_access runtime_check_file(const struct elf_source *source, uint32_t wanted);

#endif

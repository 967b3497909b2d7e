/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a symbol in a file or in the kernel to a name for people: demangled (C++ and Rust, by
 * libiberty) and printable. The input is hostile: short mangled names can stand for outputs of any
 * length, so output, tree size and recursion are bounded.
 */
#ifndef SYMBOLIZER_WORKER_SYMBOL_NAME_H
#define SYMBOLIZER_WORKER_SYMBOL_NAME_H

#include <stddef.h>

enum {
	SYMBOL_NAME_MANGLED_MAX = 1024, /* bytes, NUL included: longer ones are not demangled */
};

/* Demangle and escape `raw` into `name` (size > 0, NUL-terminated, cut at a whole character).
 * Returns its length. C++ without parameters and return type, clone suffixes (".cold") kept; Rust
 * without hashes. */
size_t symbol_name_format(const char *raw, char *name, size_t size);

#endif

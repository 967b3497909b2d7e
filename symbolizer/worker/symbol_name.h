/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the name of a symbol in a file or in the kernel into a printable name. Names of C++ and
 * Rust are demangled by libiberty. The input is hostile: a short mangled name can stand for an
 * output of any length, so output, time and recursion are bounded.
 *
 * How this works:
 * - The suffix that a compiler gave to a copy of the function (".cold") is split off and appended
 *   to the result.
 * - Rust is tried first, since its older mangling is also valid C++. Then libiberty parses C++ into
 *   a tree of components. Components are shared, so printing a tree of 30 components may take 2^30
 *   steps. The cost is computed before printing, in a time proportional to the number of
 *   components: each component's cost is the sum of the costs of its children, and is cached.
 * - Once the buffer is full, libiberty is left with longjmp().
 * - Finally, control characters and bytes that are not valid UTF-8 are escaped. A name that cannot
 *   be demangled, or is too expensive, is only escaped.
 *
 * Example: "_ZN3foo3barEi.cold" is split into "_ZN3foo3barEi" and "cold". It is printed without its
 * parameters as "foo::bar"; the result is "foo::bar.cold".
 */
#ifndef SYMBOLIZER_WORKER_SYMBOL_NAME_H
#define SYMBOLIZER_WORKER_SYMBOL_NAME_H

#include <stddef.h>

enum {
	SYMBOL_NAME_MANGLED_MAX = 1024, /* bytes, NUL included: longer ones are not demangled */
};

/* Demangles and escapes `raw` into `name`, which has `size` > 0 bytes, is cut at a whole character
 * and ends with a NUL. Returns the length without the NUL. Names of C++ have no parameters and no
 * return type, names of Rust have no hash. */
size_t symbol_name_format(const char *raw, char *name, size_t size);

#endif

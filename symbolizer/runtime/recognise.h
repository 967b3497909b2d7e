/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtimes share to recognise their files, and to refuse those that are not supported. */
#ifndef SYMBOLIZER_RUNTIME_RECOGNISE_H
#define SYMBOLIZER_RUNTIME_RECOGNISE_H

#include "symbolizer/runtime/runtime.h"

/* Finds a symbol that the runtime exports. A program without dynamic symbols (statically linked)
 * may have it in .symtab. Returns whether it was found, with its address in *vaddr. */
bool recognise_find(const struct runtime_file *file, const char *name, uint64_t *vaddr);

/* Does the same for a variable, which a program that uses the file may have taken over. */
bool recognise_variable(const struct runtime_file *file, const char *name,
			struct runtime_variable *variable);

/* Returns whether the file has this symbol. In a program without dynamic symbols, .symtab is
 * expensive to read: it is read only if the name of the file starts with `program`. */
bool recognise_has(const struct runtime_file *file, const char *program, const char *name);

/* Writes why something at `path` is not supported: with the `runtime` and its version, the end of a
 * long path, the cause, and what is `lost` to the user, as "Python frames". Returns -ENOTSUP. */
int recognise_refuse(struct runtime_refusal *refusal, const char *path, const char *runtime,
		     const char *lost, const char *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a CPython executable or library and determines its version and structure offsets. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_FILE_H
#define SYMBOLIZER_RUNTIME_CPYTHON_FILE_H

#include "symbolizer/runtime/runtime.h"

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct cpython_image,
 * freed with free(). */
int cpython_file_recognise(const struct runtime_file *file, void **image,
			   struct runtime_refusal *refusal);

#endif

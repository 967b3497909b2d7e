/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the machine code of CPython's bytecode evaluator in the file. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_EVALUATOR_H
#define SYMBOLIZER_RUNTIME_CPYTHON_EVALUATOR_H

#include "symbolizer/runtime/cpython_image.h"
#include "symbolizer/runtime/file.h"

/* Fills in `texts`, `before`, `after` and `after_end` of the image, whose offsets are set already.
 * Returns 0, or -ENOENT if the file has no evaluator symbol or its code cannot be read. */
int cpython_evaluator_find(const struct runtime_file *file, struct cpython_image *image);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Names CPython frames: reads code objects from the process's memory, and caches them. */
#ifndef SYMBOLIZER_RUNTIME_CPYTHON_NAMES_H
#define SYMBOLIZER_RUNTIME_CPYTHON_NAMES_H

#include <stddef.h>

#include "symbolizer/runtime/cpython_image.h"
#include "symbolizer/runtime/memory.h"
#include "symbolizer/runtime/runtime.h"

/* The code objects of one process that were read. */
struct cpython_names;

/* Returns NULL if there is no memory. */
struct cpython_names *cpython_names_new(void);
void cpython_names_free(struct cpython_names *names);

/* Drops all cached code objects. */
void cpython_names_drop(struct cpython_names *names);

/* Returns the memory that cpython_names_drop() would free, in bytes. */
size_t cpython_names_bytes(const struct cpython_names *names);

/*
 * Names one frame. `words` are the two words that the walker pushed (bpf/runtime/cpython.h), `bias`
 * is that of struct runtime_process. Returns what the `symbolize` operation of struct runtime_ops
 * returns; an internal frame of the interpreter gives 0 and no frames.
 */
int cpython_names_find(struct cpython_names *names, const struct cpython_image *image,
		       uint64_t bias, struct memory *memory, const uint64_t *words,
		       struct named_frames *frames);

#endif

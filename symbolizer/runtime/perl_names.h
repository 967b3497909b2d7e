/* SPDX-License-Identifier: Apache-2.0 */
/* Names Perl frames: reads subs from the process's memory, and caches their names. */
#ifndef SYMBOLIZER_RUNTIME_PERL_NAMES_H
#define SYMBOLIZER_RUNTIME_PERL_NAMES_H

#include <stddef.h>

#include "symbolizer/runtime/perl_file.h"

/* The subs and files of one process that were read. */
struct perl_names;

/* Returns NULL if there is no memory. */
struct perl_names *perl_names_new(void);
void perl_names_free(struct perl_names *names);

/* Drops everything that is cached. */
void perl_names_drop(struct perl_names *names);

/* Returns the memory that perl_names_drop() would free, in bytes. */
size_t perl_names_bytes(const struct perl_names *names);

/* Names one frame. `words` are those that the walker pushed (bpf/runtime/perl.h). Returns what the
 * `symbolize` operation of struct runtime_ops returns. */
int perl_names_find(struct perl_names *names, const struct perl_image *image, struct memory *memory,
		    const uint64_t *words, struct named_frames *frames);

#endif

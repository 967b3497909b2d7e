/* SPDX-License-Identifier: Apache-2.0 */
/* Names Perl frames: reads subs from the process's memory, and caches their names. */
#ifndef SYMBOLIZER_RUNTIME_PERL_NAMES_H
#define SYMBOLIZER_RUNTIME_PERL_NAMES_H

#include "symbolizer/runtime/name_cache.h"
#include "symbolizer/runtime/perl_file.h"

/* Names one frame. `words` are those that the walker pushed (bpf/runtime/perl.h). Returns what the
 * `symbolize` operation of struct runtime_ops returns. */
int perl_names_find(struct name_cache *names, const struct perl_image *image, struct memory *memory,
		    const uint64_t *words, struct named_frames *frames);

#endif

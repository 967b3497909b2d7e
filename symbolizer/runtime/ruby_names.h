/* SPDX-License-Identifier: Apache-2.0 */
/* Names Ruby frames. */
#ifndef SYMBOLIZER_RUNTIME_RUBY_NAMES_H
#define SYMBOLIZER_RUNTIME_RUBY_NAMES_H

#include "symbolizer/runtime/ruby_file.h"

struct ruby_names;

/* Returns what is remembered of one process, to be freed with free(), or NULL if there is no
 * memory. */
struct ruby_names *ruby_names_new(void);

/* Names one frame. `words` are those that the walker pushed (bpf/runtime/ruby.h). Returns what the
 * `symbolize` operation of struct runtime_ops returns. */
int ruby_names_find(struct ruby_names *names, const struct ruby_image *image, uint64_t bias,
		    struct memory *memory, const uint64_t *words, struct named_frames *frames);

#endif

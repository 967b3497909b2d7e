/* SPDX-License-Identifier: Apache-2.0 */
/* Names PHP frames: reads functions from the process's memory, and caches their names. */
#ifndef SYMBOLIZER_RUNTIME_PHP_NAMES_H
#define SYMBOLIZER_RUNTIME_PHP_NAMES_H

#include "symbolizer/runtime/name_cache.h"
#include "symbolizer/runtime/php_file.h"

/* Names one frame. `words` are those that the walker pushed (bpf/runtime/php.h). Returns what the
 * `symbolize` operation of struct runtime_ops returns. */
int php_names_find(struct name_cache *names, const struct php_offsets *offsets,
		   struct memory *memory, const uint64_t *words, struct named_frames *frames);

#endif

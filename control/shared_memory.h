/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the recording or agent makes and shares with a role. */
#ifndef CONTROL_SHARED_MEMORY_H
#define CONTROL_SHARED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Creates a memfd of this size, in bytes. The role cannot change the size: otherwise it could
 * truncate what the CLI has mapped. Returns the descriptor, or a negative errno. */
int shared_memory_new(const char *name, uint64_t size);

/* Creates a memfd of this size that may grow and shrink: the CLI does not map it. Returns the
 * descriptor, or a negative errno. */
int shared_memory_new_growing(const char *name, uint64_t size);

/* Returns whether `fd` is memory of exactly this size, which can neither grow nor shrink. */
bool shared_memory_has_size(int fd, uint64_t size);

#endif

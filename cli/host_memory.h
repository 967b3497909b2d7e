/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of memory that the cgroups of this process have. */
#ifndef CLI_HOST_MEMORY_H
#define CLI_HOST_MEMORY_H

#include <stdint.h>

#include "cli/host_mounts.h"

#define HOST_MEMORY_UNLIMITED UINT64_MAX

/* Reads the least limit, in bytes, of the cgroup of this process and those above it, of version 1
 * or
 * 2. `root` is a directory before all paths. Returns 0, or -ENOENT if this cannot be determined. */
int host_memory_read_limit(const char *root, const struct host_mounts *mounts, uint64_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a role shares with the kernel or with other roles. */
#ifndef COMMON_MAP_SHARED_H
#define COMMON_MAP_SHARED_H

#include <stddef.h>
#include <sys/mman.h>

/* Maps `bytes` of a descriptor from `offset` on. A helper of the role (role/helper.h) does not get
 * them, so one that a hostile file has taken over can write no table. Returns NULL on failure, and
 * sets errno. */
static inline void *map_shared(int fd, size_t bytes, int protection, off_t offset)
{
	void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, offset);

	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, bytes, MADV_DONTFORK) == 0)
		return at;
	munmap(at, bytes);
	return NULL;
}

#endif

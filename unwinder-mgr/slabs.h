/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in the slabs that the walker reads: first fit, 64-byte steps. A freed block is reused only
 * after a grace period, since a walker may be in it. More slabs come from the loader, which is
 * asked for one before the last runs out.
 */
#ifndef UNWINDER_MGR_SLABS_H
#define UNWINDER_MGR_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "ipc/peer.h"

enum {
	SLAB_ALIGN = 64
};

struct slab_block {
	uint32_t slab, offset, bytes; /* bytes 0: none */
};

struct slab_extent {
	uint32_t offset, bytes;
};

struct slab {
	uint8_t *data;		  /* BH_SLAB_BYTES, NULL if there is none */
	struct slab_extent *free; /* sorted by offset */
	unsigned int free_count, free_capacity;
};

struct slab_retired {
	struct slab_block block;
	uint64_t at_ns;
};

struct slabs {
	struct slab slabs[BH_SLABS_MAX];
	unsigned int count;
	bool requested, exhausted;
	uint64_t free_bytes;
	struct slab_retired *retired; /* oldest first */
	size_t retired_count, retired_capacity;
	struct peer *loader;
};

/* Map one more slab; `fd` is borrowed. 0 or a negative errno. fd -1: there will be no more. */
int slabs_add(struct slabs *slabs, unsigned int number, int fd);

/* 0; -EAGAIN: a slab was asked for, try again when it came; -ENOSPC: there will be none; -EFBIG: no
 * slab is that large. */
int slabs_alloc(struct slabs *slabs, size_t bytes, struct slab_block *block);

/* Give back, at once, a block that was never published, or the end of one of which only the first
 * `bytes` are in use. */
void slabs_release(struct slabs *slabs, const struct slab_block *block);
void slabs_shrink(struct slabs *slabs, struct slab_block *block, size_t bytes);

/* The block's memory. */
void *slabs_at(const struct slabs *slabs, const struct slab_block *block);

/* Free after the grace period (slabs_reclaim does it). */
void slabs_retire(struct slabs *slabs, const struct slab_block *block);
void slabs_reclaim(struct slabs *slabs, uint64_t now_ns);
/* When the next block's grace period is over; UINT64_MAX if none waits. */
uint64_t slabs_next_free_ns(const struct slabs *slabs);

#endif

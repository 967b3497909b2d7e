/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation of blocks in the slabs, the shared memory from which the walker reads page indexes,
 * deltas and mappings.
 *
 * How this works. A slab is a BPF array map of 2 MiB that this process has mapped. Each slab has a
 * sorted list of its free extents, and an allocation takes the first extent that is large enough,
 * rounded up to 64 bytes. A block that walkers may be reading is retired instead of freed: it waits
 * in a queue for the grace period and only then becomes free, is no longer counted in the share of
 * a user (shares.h), and joins its neighbours. The loader makes the slabs. It is asked for one more
 * while the last still has some room, because its answer takes a moment.
 *
 * Example: a new slab has the free extent {0, 2 MiB}. Allocating 100 bytes returns the block
 * {slab 0, offset 0, 128 bytes} and leaves {128, 2 MiB - 128}. After slabs_retire and 200 ms,
 * slabs_reclaim frees it, and both extents join to {0, 2 MiB} again.
 */
#ifndef UNWINDER_MGR_SLABS_H
#define UNWINDER_MGR_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "ipc/peer.h"
#include "unwinder-mgr/shares.h"

enum {
	SLAB_ALIGN = 64 /* bytes, a cache line */
};

struct slab_block {
	uint32_t slab, offset, bytes; /* no block if `bytes` is 0 */
	/* In which the block is counted until it is free; it holds a reference. NULL: in none. */
	struct share *share;
};

struct slab_extent {
	uint32_t offset, bytes;
};

struct slab {
	uint8_t *data;		  /* BH_SLAB_BYTES, or NULL if there is no such slab yet */
	struct slab_extent *free; /* sorted by offset, neighbours joined */
	size_t free_count, free_capacity;
};

struct slab_retired {
	struct slab_block block;
	uint64_t at_ns;
};

struct slabs {
	struct slab slabs[BH_SLABS_MAX];
	unsigned int count;
	bool requested; /* the loader was asked and has not answered */
	bool exhausted; /* the loader has no more */
	uint64_t free_bytes;
	struct slab_retired *retired; /* oldest first */
	size_t retired_count, retired_capacity;
	struct peer *loader;
};

/* Requests the first slabs. */
void slabs_begin(struct slabs *slabs);

/* Adds the slab with the next index; `fd` is borrowed. -1 means that there will be no more.
 * Returns 0 or a negative errno. */
int slabs_add(struct slabs *slabs, unsigned int index, int fd);

/* Takes note that the loader has ended. What it was asked for is requested of the next one. */
void slabs_lose_loader(struct slabs *slabs);

/* Returns how many bytes are free, with the slabs that the loader may still make. */
uint64_t slabs_room(const struct slabs *slabs);

/* Allocates a block. Returns 0; -EAGAIN if a slab was requested and the caller should try again
 * when it has come; -ENOSPC if none will come; or -EFBIG if no slab is that large. */
int slabs_alloc(struct slabs *slabs, size_t bytes, struct slab_block *block);

/* Frees at once a block that no walker can have seen. */
void slabs_release(struct slabs *slabs, const struct slab_block *block);

/* Keeps the first `bytes` of a block that no walker can have seen, and frees the rest at once. */
void slabs_shrink(struct slabs *slabs, struct slab_block *block, size_t bytes);

/* Returns the block's memory in this process. */
void *slabs_at(const struct slabs *slabs, const struct slab_block *block);

/* Frees a block after the grace period. */
void slabs_retire(struct slabs *slabs, const struct slab_block *block);

/* Frees the retired blocks whose grace period has ended. */
void slabs_reclaim(struct slabs *slabs, uint64_t now_ns);

/* Returns when the next grace period ends, or UINT64_MAX if no block is retired. */
uint64_t slabs_next_free_ns(const struct slabs *slabs);

#endif

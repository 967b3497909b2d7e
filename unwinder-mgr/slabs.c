/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see slabs.h. */
#include "unwinder-mgr/slabs.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/map_shared.h"
#include "common/search.h"
#include "unwinder-mgr/limits.h"

enum {
	/* The next slab is requested while this much is still free: enough for a table of usual
	 * size until the loader's answer comes. */
	SLAB_LOW_BYTES = 256 << 10,
	/* The tables of a desktop fill about one slab, so a second one is there before it is
	 * needed. */
	SLABS_AT_START = 2,
	/* Sizes of the first allocations, in items. */
	EXTENTS_FIRST = 16,
	RETIRED_FIRST = 64,
};

static int slab_insert(struct slab *slab, size_t at, struct slab_extent extent)
{
	int r = ARRAY_RESERVE(slab->free, slab->free_capacity, slab->free_count + 1, EXTENTS_FIRST,
			      ARRAY_UNLIMITED);

	if (r < 0)
		return r;
	memmove(&slab->free[at + 1], &slab->free[at], (slab->free_count - at) * sizeof(extent));
	slab->free[at] = extent;
	slab->free_count++;
	return 0;
}

static void slab_remove(struct slab *slab, size_t at)
{
	slab->free_count--;
	memmove(&slab->free[at], &slab->free[at + 1],
		(slab->free_count - at) * sizeof(slab->free[0]));
}

static int slabs_request(struct slabs *slabs)
{
	if (slabs->exhausted)
		return -ENOSPC;
	const struct msg_id next = {.id = slabs->count};
	if (!slabs->requested && slabs->loader &&
	    peer_send(slabs->loader, MESSAGE_SLAB_REQUEST, &next, sizeof(next), NULL, 0) == 0)
		slabs->requested = true;
	return -EAGAIN;
}

int slabs_add(struct slabs *slabs, unsigned int index, int fd)
{
	slabs->requested = false;
	if (fd < 0 || index != slabs->count || index >= BH_SLABS_MAX) {
		slabs->exhausted = true;
		return fd < 0 ? 0 : -EINVAL;
	}
	void *data = map_shared(fd, BH_SLAB_BYTES, PROT_READ | PROT_WRITE, 0);
	if (!data)
		return -errno;
	struct slab *slab = &slabs->slabs[index];
	slab->data = data;
	slabs->count++;
	slabs->free_bytes += BH_SLAB_BYTES;
	if (slabs->count < SLABS_AT_START)
		slabs_request(slabs);
	return slab_insert(slab, 0, (struct slab_extent){.bytes = BH_SLAB_BYTES});
}

void slabs_begin(struct slabs *slabs)
{
	slabs_request(slabs);
}

void slabs_lose_loader(struct slabs *slabs)
{
	slabs->requested = false;
}

uint64_t slabs_room(const struct slabs *slabs)
{
	const uint64_t more = slabs->exhausted ? 0 : BH_SLABS_MAX - slabs->count;

	return slabs->free_bytes + more * BH_SLAB_BYTES;
}

static uint32_t slab_round_up(size_t bytes)
{
	return (uint32_t)((bytes + SLAB_ALIGN - 1) & ~(size_t)(SLAB_ALIGN - 1));
}

int slabs_alloc(struct slabs *slabs, size_t bytes, struct slab_block *block)
{
	if (bytes > BH_SLAB_BYTES)
		return -EFBIG;
	const uint32_t need = slab_round_up(bytes);

	for (unsigned int i = 0; i < slabs->count; i++) {
		struct slab *slab = &slabs->slabs[i];

		for (size_t j = 0; j < slab->free_count; j++) {
			struct slab_extent *extent = &slab->free[j];

			if (extent->bytes < need)
				continue;
			*block =
			    (struct slab_block){.slab = i, .offset = extent->offset, .bytes = need};
			extent->offset += need;
			extent->bytes -= need;
			if (!extent->bytes)
				slab_remove(slab, j);
			slabs->free_bytes -= need;
			if (slabs->free_bytes < SLAB_LOW_BYTES)
				slabs_request(slabs);
			return 0;
		}
	}
	return slabs_request(slabs);
}

void *slabs_at(const struct slabs *slabs, const struct slab_block *block)
{
	return slabs->slabs[block->slab].data + block->offset;
}

static void slabs_free(struct slabs *slabs, const struct slab_block *block)
{
	struct slab *slab = &slabs->slabs[block->slab];
	const size_t at =
	    SEARCH_LOWER_BOUND(i, slab->free_count, slab->free[i].offset < block->offset);

	share_give_back(block->share, SHARED_SLABS, block->bytes);
	share_unref(block->share);
	slabs->free_bytes += block->bytes;
	const bool joins_next =
	    at < slab->free_count && block->offset + block->bytes == slab->free[at].offset;
	if (at && slab->free[at - 1].offset + slab->free[at - 1].bytes == block->offset) {
		slab->free[at - 1].bytes += block->bytes;
		if (joins_next) {
			slab->free[at - 1].bytes += slab->free[at].bytes;
			slab_remove(slab, at);
		}
	} else if (joins_next) {
		slab->free[at].offset = block->offset;
		slab->free[at].bytes += block->bytes;
	} else {
		/* Without memory for the extent the block stays unused, which harms nothing
		 * else. */
		slab_insert(slab, at, (struct slab_extent){block->offset, block->bytes});
	}
}

void slabs_retire(struct slabs *slabs, const struct slab_block *block)
{
	if (!block->bytes)
		return;
	/* Without memory for the queue the block stays unused. */
	if (ARRAY_RESERVE(slabs->retired, slabs->retired_capacity, slabs->retired_count + 1,
			  RETIRED_FIRST, ARRAY_UNLIMITED) < 0)
		return;
	slabs->retired[slabs->retired_count++] =
	    (struct slab_retired){*block, clock_monotonic_ns()};
}

static uint64_t retired_until_ns(const struct slab_retired *retired)
{
	return retired->at_ns + LIMIT_GRACE_MS * NS_PER_MS;
}

uint64_t slabs_next_free_ns(const struct slabs *slabs)
{
	return slabs->retired_count ? retired_until_ns(&slabs->retired[0]) : UINT64_MAX;
}

void slabs_reclaim(struct slabs *slabs, uint64_t now_ns)
{
	size_t done = 0;

	/* `now_ns` may be from before a block was retired, so no differences are formed. */
	while (done < slabs->retired_count && now_ns >= retired_until_ns(&slabs->retired[done]))
		slabs_free(slabs, &slabs->retired[done++].block);
	slabs->retired_count -= done;
	if (done)
		memmove(slabs->retired, slabs->retired + done,
			slabs->retired_count * sizeof(slabs->retired[0]));
}

void slabs_release(struct slabs *slabs, const struct slab_block *block)
{
	if (block->bytes)
		slabs_free(slabs, block);
}

void slabs_shrink(struct slabs *slabs, struct slab_block *block, size_t bytes)
{
	const uint32_t keep = slab_round_up(bytes);

	if (keep >= block->bytes)
		return;
	slabs_free(slabs, &(struct slab_block){.slab = block->slab,
					       .offset = block->offset + keep,
					       .bytes = block->bytes - keep});
	block->bytes = keep;
}

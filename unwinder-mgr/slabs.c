/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/slabs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/limits.h"

/* Ask for the next slab while this much is still free: the answer takes a moment. */
enum {
	SLAB_LOW_BYTES = 256 << 10
};

static int slab_insert(struct slab *slab, unsigned int at, struct slab_extent extent)
{
	if (slab->free_count == slab->free_capacity) {
		unsigned int capacity = slab->free_capacity ? slab->free_capacity * 2 : 16;
		struct slab_extent *grown = realloc(slab->free, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		slab->free = grown;
		slab->free_capacity = capacity;
	}
	memmove(&slab->free[at + 1], &slab->free[at], (slab->free_count - at) * sizeof(extent));
	slab->free[at] = extent;
	slab->free_count++;
	return 0;
}

static void slab_remove(struct slab *slab, unsigned int at)
{
	slab->free_count--;
	memmove(&slab->free[at], &slab->free[at + 1],
		(slab->free_count - at) * sizeof(slab->free[0]));
}

int slabs_add(struct slabs *slabs, unsigned int number, int fd)
{
	slabs->requested = false;
	if (fd < 0 || number != slabs->count || number >= BH_SLABS_MAX) {
		slabs->exhausted = true;
		return fd < 0 ? 0 : -EINVAL;
	}
	void *data = mmap(NULL, BH_SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	struct slab *slab = &slabs->slabs[number];
	slab->data = data;
	slabs->count++;
	slabs->free_bytes += BH_SLAB_BYTES;
	return slab_insert(slab, 0, (struct slab_extent){.bytes = BH_SLAB_BYTES});
}

static int slabs_request(struct slabs *slabs)
{
	if (slabs->exhausted)
		return -ENOSPC;
	if (!slabs->requested && slabs->loader &&
	    peer_send(slabs->loader, MESSAGE_SLAB_REQUEST, NULL, 0, NULL, 0) == 0)
		slabs->requested = true;
	return -EAGAIN;
}

int slabs_alloc(struct slabs *slabs, size_t bytes, struct slab_block *block)
{
	if (bytes > BH_SLAB_BYTES)
		return -EFBIG;
	const uint32_t need = (uint32_t)((bytes + SLAB_ALIGN - 1) & ~(size_t)(SLAB_ALIGN - 1));

	for (unsigned int i = 0; i < slabs->count; i++) {
		struct slab *slab = &slabs->slabs[i];

		for (unsigned int j = 0; j < slab->free_count; j++) {
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
	unsigned int at = 0;

	while (at < slab->free_count && slab->free[at].offset < block->offset)
		at++;
	slabs->free_bytes += block->bytes;
	bool joins_next =
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
		/* Out of memory: the block is lost, the table stays right. */
		slab_insert(slab, at, (struct slab_extent){block->offset, block->bytes});
	}
}

void slabs_retire(struct slabs *slabs, const struct slab_block *block)
{
	if (!block->bytes)
		return;
	if (slabs->retired_count == slabs->retired_capacity) {
		size_t capacity = slabs->retired_capacity ? slabs->retired_capacity * 2 : 64;
		struct slab_retired *grown = realloc(slabs->retired, capacity * sizeof(*grown));

		if (!grown)
			return;
		slabs->retired = grown;
		slabs->retired_capacity = capacity;
	}
	slabs->retired[slabs->retired_count++] =
	    (struct slab_retired){*block, clock_monotonic_ns()};
}

static uint64_t retired_until_ns(const struct slab_retired *retired)
{
	return retired->at_ns + LIMIT_GRACE_MS * 1000000ull;
}

uint64_t slabs_next_free_ns(const struct slabs *slabs)
{
	return slabs->retired_count ? retired_until_ns(&slabs->retired[0]) : UINT64_MAX;
}

void slabs_reclaim(struct slabs *slabs, uint64_t now_ns)
{
	size_t done = 0;

	/* The caller's clock may be from before a block was retired. */
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
	const uint32_t keep = (uint32_t)((bytes + SLAB_ALIGN - 1) & ~(size_t)(SLAB_ALIGN - 1));

	if (keep >= block->bytes)
		return;
	slabs_free(slabs,
		   &(struct slab_block){block->slab, block->offset + keep, block->bytes - keep});
	block->bytes = keep;
}

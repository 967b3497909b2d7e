/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "unwinder-mgr/limits.h"
#include "tests/support/unwind_memory.h"

enum {
	UNITS = BH_SLAB_BYTES / SLAB_ALIGN,
	SLABS = 3,
};

static const uint64_t GRACE_NS = LIMIT_GRACE_MS * NS_PER_MS;

static struct unwind_memory memory_with(unsigned int slab_count)
{
	struct unwind_memory memory;

	cr_assert_eq(unwind_memory_init(&memory, slab_count), 0);
	return memory;
}

static struct slab_block alloc(struct slabs *slabs, size_t bytes)
{
	struct slab_block block = {0};

	cr_assert_eq(slabs_alloc(slabs, bytes, &block), 0, "%zu bytes", bytes);
	cr_assert_geq(block.bytes, bytes);
	cr_assert_eq(block.offset % SLAB_ALIGN, 0);
	cr_assert_leq(block.offset + block.bytes, BH_SLAB_BYTES);
	return block;
}

/* Frees everything that was retired so far. */
static void reclaim_all(struct slabs *slabs)
{
	slabs_reclaim(slabs, clock_monotonic_ns() + GRACE_NS);
	cr_assert_eq(slabs->retired_count, 0);
}

Test(slabs, blocks_do_not_overlap_and_are_writable)
{
	struct unwind_memory memory = memory_with(1);
	struct slab_block blocks[100];

	for (unsigned int i = 0; i < 100; i++) {
		blocks[i] = alloc(&memory.slabs, i * 37 + 1);
		memset(slabs_at(&memory.slabs, &blocks[i]), (int)i, blocks[i].bytes);
	}
	for (unsigned int i = 0; i < 100; i++) {
		const uint8_t *data = slabs_at(&memory.slabs, &blocks[i]);

		for (uint32_t at = 0; at < blocks[i].bytes; at++)
			cr_assert_eq(data[at], i);
	}
	unwind_memory_fini(&memory);
}

Test(slabs, smallest_and_largest_sizes_are_allocated)
{
	struct unwind_memory memory = memory_with(2);
	struct slab_block block = {.slab = 77};

	cr_assert_eq(slabs_alloc(&memory.slabs, BH_SLAB_BYTES + 1, &block), -EFBIG);
	cr_assert_eq(slabs_alloc(&memory.slabs, SIZE_MAX, &block), -EFBIG);
	cr_assert_eq(block.slab, 77, "untouched on failure");
	block = alloc(&memory.slabs, 0);
	cr_assert_eq(block.bytes, 0);
	slabs_retire(&memory.slabs, &block);
	cr_assert_eq(memory.slabs.retired_count, 0, "nothing to retire");
	cr_assert_eq(alloc(&memory.slabs, 1).bytes, SLAB_ALIGN);
	block = alloc(&memory.slabs, BH_SLAB_BYTES);
	cr_assert_eq(block.slab, 1, "the first has no room for a whole one");
	cr_assert_eq(block.bytes, BH_SLAB_BYTES);
	cr_assert_eq(memory.slabs.free_bytes, BH_SLAB_BYTES - SLAB_ALIGN);
	unwind_memory_fini(&memory);
}

Test(slabs, allocation_fails_when_all_is_used_and_works_after_a_free)
{
	struct unwind_memory memory = memory_with(1);
	struct slab_block whole = alloc(&memory.slabs, BH_SLAB_BYTES), block;

	cr_assert_eq(slabs_alloc(&memory.slabs, 1, &block), -ENOSPC);
	memory.slabs.exhausted = false;
	cr_assert_eq(slabs_alloc(&memory.slabs, 1, &block), -EAGAIN, "one may come");
	/* What is retired is not free yet. */
	slabs_retire(&memory.slabs, &whole);
	cr_assert_eq(slabs_alloc(&memory.slabs, 1, &block), -EAGAIN);
	reclaim_all(&memory.slabs);
	alloc(&memory.slabs, BH_SLAB_BYTES);
	unwind_memory_fini(&memory);
}

Test(slabs, retired_block_is_reused_only_after_the_grace_period)
{
	struct unwind_memory memory = memory_with(1);
	struct slab_block first = alloc(&memory.slabs, BH_SLAB_BYTES / 2), second = alloc(&memory.slabs, BH_SLAB_BYTES / 2), block;
	const uint64_t before = clock_monotonic_ns();

	cr_assert_eq(slabs_next_free_ns(&memory.slabs), UINT64_MAX, "none waits");
	slabs_retire(&memory.slabs, &first);
	const uint64_t after = clock_monotonic_ns();
	cr_assert(slabs_next_free_ns(&memory.slabs) >= before + GRACE_NS && slabs_next_free_ns(&memory.slabs) <= after + GRACE_NS);
	slabs_reclaim(&memory.slabs, before + GRACE_NS - 1);
	cr_assert_eq(slabs_alloc(&memory.slabs, 1, &block), -ENOSPC, "a walker may be in it");
	slabs_reclaim(&memory.slabs, after + GRACE_NS);
	cr_assert_eq(alloc(&memory.slabs, first.bytes).offset, first.offset);
	/* Only the older block is freed, not the younger one. */
	slabs_retire(&memory.slabs, &second);
	memory.slabs.retired[0].at_ns -= GRACE_NS;
	slabs_retire(&memory.slabs, &first);
	slabs_reclaim(&memory.slabs, clock_monotonic_ns());
	cr_assert_eq(memory.slabs.retired_count, 1);
	cr_assert_eq(memory.slabs.retired[0].block.offset, first.offset);
	cr_assert_eq(memory.slabs.free_bytes, second.bytes);
	unwind_memory_fini(&memory);
}

/* A tick reads the clock first and retires blocks later, so a block may be younger than "now". */
Test(slabs, block_retired_after_the_ticks_time_is_not_freed_early)
{
	struct unwind_memory memory = memory_with(1);
	struct slab_block block = alloc(&memory.slabs, 64);
	const uint64_t now = clock_monotonic_ns();

	slabs_retire(&memory.slabs, &block);
	memory.slabs.retired[0].at_ns = now + 1;
	slabs_reclaim(&memory.slabs, now);
	cr_assert_eq(memory.slabs.retired_count, 1);
	unwind_memory_fini(&memory);
}

/* Three neighbours are freed in each of the six orders. */
Test(slabs, freed_neighbours_join_to_one_extent)
{
	static const unsigned int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (unsigned int i = 0; i < 6; i++) {
		struct unwind_memory memory = memory_with(1);
		struct slab *slab = &memory.slabs.slabs[0];
		struct slab_block blocks[3], rest;

		for (unsigned int j = 0; j < 3; j++)
			blocks[j] = alloc(&memory.slabs, 1000);
		rest = alloc(&memory.slabs, BH_SLAB_BYTES - 3 * 1024);
		cr_assert_eq(slab->free_count, 0);
		for (unsigned int j = 0; j < 3; j++)
			slabs_retire(&memory.slabs, &blocks[orders[i][j]]);
		reclaim_all(&memory.slabs);
		cr_assert_eq(slab->free_count, 1, "order %u", i);
		cr_assert_eq(slab->free[0].offset, 0);
		cr_assert_eq(slab->free[0].bytes, 3 * 1024);
		slabs_retire(&memory.slabs, &rest);
		reclaim_all(&memory.slabs);
		cr_assert_eq(slab->free_count, 1);
		cr_assert_eq(slab->free[0].bytes, BH_SLAB_BYTES);
		unwind_memory_fini(&memory);
	}
}

Test(slabs, shrinking_frees_the_end_of_a_block)
{
	struct unwind_memory memory = memory_with(1);
	struct slab_block block = alloc(&memory.slabs, 64 << 10), next = alloc(&memory.slabs, 64);

	slabs_shrink(&memory.slabs, &block, 64 << 10);
	cr_assert_eq(block.bytes, 64 << 10);
	slabs_shrink(&memory.slabs, &block, 128 << 10);
	cr_assert_eq(block.bytes, 64 << 10, "no growing");
	slabs_shrink(&memory.slabs, &block, 1001);
	cr_assert_eq(block.bytes, 1024);
	cr_assert_eq(memory.slabs.free_bytes, BH_SLAB_BYTES - 1024 - 64);
	/* The end is free at once, up to the neighbour. */
	struct slab_block gap = alloc(&memory.slabs, (64 << 10) - 1024);
	cr_assert_eq(gap.offset, block.offset + 1024);
	cr_assert_eq(gap.offset + gap.bytes, next.offset);
	slabs_shrink(&memory.slabs, &block, 0);
	cr_assert_eq(block.bytes, 0);
	slabs_retire(&memory.slabs, &block);
	cr_assert_eq(memory.slabs.retired_count, 0);
	cr_assert_eq(alloc(&memory.slabs, 1024).offset, 0);
	unwind_memory_fini(&memory);
}

Test(slabs, unexpected_slabs_of_the_loader_are_refused)
{
	struct unwind_memory memory = memory_with(1);
	_cleanup_close_ int fd = memfd_create("slab", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, BH_SLAB_BYTES), 0);
	memory.slabs.exhausted = false;
	memory.slabs.requested = true;
	cr_assert_eq(slabs_add(&memory.slabs, 5, fd), -EINVAL, "not the next one");
	cr_assert(memory.slabs.exhausted);
	cr_assert_not(memory.slabs.requested);
	memory.slabs.exhausted = false;
	cr_assert_eq(slabs_add(&memory.slabs, 1, fd), 0);
	cr_assert_eq(memory.slabs.free_bytes, 2ull * BH_SLAB_BYTES);
	cr_assert_eq(slabs_add(&memory.slabs, 2, -1), 0);
	cr_assert(memory.slabs.exhausted, "there will be no more");
	memory.slabs.exhausted = false;
	while (memory.slabs.count < BH_SLABS_MAX)
		cr_assert_eq(slabs_add(&memory.slabs, memory.slabs.count, fd), 0);
	cr_assert_eq(slabs_add(&memory.slabs, memory.slabs.count, fd), -EINVAL);
	unwind_memory_fini(&memory);
}

/* There is one request while some memory is left, and no second one before the answer. */
Test(slabs, next_slab_is_requested_early_and_once)
{
	struct unwind_memory memory = memory_with(1);
	struct peer loader = {.self = ROLE_MANAGER, .other = ROLE_LOADER};
	struct peer manager = {.self = ROLE_LOADER, .other = ROLE_MANAGER};
	struct message_buffer buffer;
	struct message message;
	struct slab_block block;
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	loader.fd = pair[0];
	manager.fd = pair[1];
	memory.slabs.exhausted = false;
	memory.slabs.loader = &loader;
	block = alloc(&memory.slabs, BH_SLAB_BYTES / 2);
	cr_assert_eq(peer_receive(&manager, ROLE_READY, &buffer, &message), 0, "there is enough");
	block = alloc(&memory.slabs, BH_SLAB_BYTES / 2 - 4096);
	cr_assert_eq(peer_receive(&manager, ROLE_READY, &buffer, &message), 1);
	cr_assert_eq(message.type, MESSAGE_SLAB_REQUEST);
	alloc(&memory.slabs, 1024);
	cr_assert_eq(slabs_alloc(&memory.slabs, 8192, &block), -EAGAIN);
	cr_assert_eq(peer_receive(&manager, ROLE_READY, &buffer, &message), 0, "asked already");
	cr_assert_eq(unwind_memory_add_slab(&memory), 0);
	cr_assert_eq(alloc(&memory.slabs, 8192).slab, 1);
	alloc(&memory.slabs, BH_SLAB_BYTES - 8192);
	cr_assert_eq(peer_receive(&manager, ROLE_READY, &buffer, &message), 1, "the next one");
	peer_close(&loader);
	peer_close(&manager);
	unwind_memory_fini(&memory);
}

/* ---- Comparison with a bitmap ---- */

struct model {
	uint8_t used[SLABS][UNITS];
	uint64_t free_units;
};

static void model_mark(struct model *model, const struct slab_block *block, bool used)
{
	for (uint32_t u = block->offset / SLAB_ALIGN; u < (block->offset + block->bytes) / SLAB_ALIGN; u++) {
		cr_assert_neq(model->used[block->slab][u], used, "slab %u unit %u", block->slab, u);
		model->used[block->slab][u] = used;
	}
	model->free_units += (used ? -1ull : 1ull) * (block->bytes / SLAB_ALIGN);
}

static bool model_fits(const struct model *model, uint32_t units)
{
	for (unsigned int i = 0; i < SLABS; i++) {
		uint32_t run = 0;

		for (uint32_t u = 0; u < UNITS; u++) {
			run = model->used[i][u] ? 0 : run + 1;
			if (run >= units)
				return true;
		}
	}
	return false;
}

/* Checks that the free lists agree with the bitmap, and are sorted, merged and complete. */
static void model_check(const struct model *model, const struct slabs *slabs)
{
	cr_assert_eq(slabs->free_bytes, model->free_units * SLAB_ALIGN);
	for (unsigned int i = 0; i < SLABS; i++) {
		const struct slab *slab = &slabs->slabs[i];
		unsigned int extent = 0;

		for (uint32_t u = 0; u < UNITS;) {
			uint32_t begin = u;

			if (model->used[i][u]) {
				u++;
				continue;
			}
			while (u < UNITS && !model->used[i][u])
				u++;
			cr_assert_lt(extent, slab->free_count);
			cr_assert_eq(slab->free[extent].offset, begin * SLAB_ALIGN);
			cr_assert_eq(slab->free[extent].bytes, (u - begin) * SLAB_ALIGN);
			extent++;
		}
		cr_assert_eq(extent, slab->free_count);
	}
}

static uint32_t dice(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33) % below;
}

static size_t random_size(uint64_t *seed)
{
	switch (dice(seed, 8)) {
	case 0:
		return dice(seed, BH_SLAB_BYTES / 4);
	case 1:
		return 128 << 10;
	default:
		return dice(seed, 4096);
	}
}

enum { BLOCKS_MAX = 2000, STEPS = 60000 };

struct stress {
	struct slabs *slabs;
	struct model model;
	struct slab_block blocks[BLOCKS_MAX], retired[BLOCKS_MAX];
	unsigned int count, retired_count, refused;
	uint64_t seed;
};

static void stress_alloc(struct stress *s)
{
	struct slab_block block;
	const size_t bytes = random_size(&s->seed);
	const int r = slabs_alloc(s->slabs, bytes, &block);

	if (r) {
		cr_assert_eq(r, -ENOSPC);
		cr_assert_not(model_fits(&s->model, (uint32_t)((bytes + SLAB_ALIGN - 1) / SLAB_ALIGN)), "%zu bytes would fit", bytes);
		s->refused++;
		return;
	}
	cr_assert_geq(block.bytes, bytes);
	cr_assert_lt(block.bytes, bytes + SLAB_ALIGN);
	model_mark(&s->model, &block, true);
	s->blocks[s->count++] = block;
}

static void stress_shrink(struct stress *s)
{
	struct slab_block *block = &s->blocks[dice(&s->seed, s->count)];
	struct slab_block cut = *block;
	const size_t keep = dice(&s->seed, block->bytes + 2);

	slabs_shrink(s->slabs, block, keep);
	cr_assert_eq(block->offset, cut.offset);
	cr_assert_leq(block->bytes, cut.bytes);
	cut.offset += block->bytes;
	cut.bytes -= block->bytes;
	model_mark(&s->model, &cut, false);
}

static void stress_retire(struct stress *s)
{
	const unsigned int i = dice(&s->seed, s->count);

	slabs_retire(s->slabs, &s->blocks[i]);
	s->retired[s->retired_count++] = s->blocks[i];
	s->blocks[i] = s->blocks[--s->count];
}

static void stress_reclaim(struct stress *s)
{
	reclaim_all(s->slabs);
	for (unsigned int i = 0; i < s->retired_count; i++)
		model_mark(&s->model, &s->retired[i], false);
	s->retired_count = 0;
}

static void stress_run(struct stress *s)
{
	for (unsigned int step = 0; step < STEPS; step++) {
		/* Phases in which the memory fills up alternate with phases in which it empties. */
		const bool fill = (step / 3000) % 2 == 0;
		const uint32_t what = dice(&s->seed, 100);

		if (what < (fill ? 60 : 25)) {
			if (s->count < BLOCKS_MAX)
				stress_alloc(s);
		} else if (what < 65 && s->count) {
			stress_shrink(s);
		} else if (what < 97 && s->count && s->retired_count < BLOCKS_MAX) {
			stress_retire(s);
		} else {
			stress_reclaim(s);
		}
		if (step % 500 == 0)
			model_check(&s->model, s->slabs);
	}
}

Test(slabs, random_allocations_agree_with_a_bitmap)
{
	struct unwind_memory memory = memory_with(SLABS);
	struct stress *s = calloc(1, sizeof(*s));

	s->slabs = &memory.slabs;
	s->model.free_units = (uint64_t)SLABS * UNITS;
	s->seed = 1;
	stress_run(s);
	cr_assert_gt(s->refused, 0, "it never was full");
	while (s->count && s->retired_count < BLOCKS_MAX)
		stress_retire(s);
	stress_reclaim(s);
	while (s->count)
		stress_retire(s);
	stress_reclaim(s);
	model_check(&s->model, s->slabs);
	cr_assert_eq(memory.slabs.free_bytes, (uint64_t)SLABS * BH_SLAB_BYTES);
	free(s);
	unwind_memory_fini(&memory);
}

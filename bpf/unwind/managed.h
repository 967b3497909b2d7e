/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * What the unwinder and the walkers need from the table of language runtimes.
 *
 * The worker publishes a slot for each process that has a language runtime. The slot names sorted
 * ranges of addresses: in them the walker of a runtime knows the frames better than unwind rules
 * do. Two code filters contain all ranges that lie in mapped files. So the fast path over native
 * frames needs two comparisons to know that a frame is in no range.
 */
#ifndef BPF_UNWIND_MANAGED_H
#define BPF_UNWIND_MANAGED_H

#include "bpf/unwind/state.h"

/* Finds the slot of the process, and copies from it what the walk needs. A process without a slot,
 * or whose slot is being written, has no ranges. */
static __always_inline void managed_find_slot(struct unwind_state *s, UNWIND_ENV env, uint32_t tgid)
{
	const struct bh_runtime_table *table = env_runtimes(env);
	struct unwind_runtime *r = &s->runtime;
	uint32_t at = bh_runtime_hash(tgid);

	if (!table)
		return;
	UNWIND_NO_UNROLL
	for (int i = 0; i < BH_RUNTIME_PROBES; i++, at++) {
		const uint64_t index = bits_mask(at, (1 << BH_RUNTIME_SLOTS_BITS) - 1);
		const struct bh_runtime_slot *slot = &table->slots[index];

		if (!slot->tgid)
			return;
		if (slot->tgid != tgid)
			continue;
		r->slot = (uint32_t)index;
		r->sequence = *(const volatile uint32_t *)&slot->sequence;
		if (r->sequence & 1)
			return;
		r->first_range = slot->first_range;
		r->range_count = slot->range_count;
		/* With the secret, so that no process can choose addresses that have the keys of
		 * another one's. */
		r->method_key = ((uint64_t)r->sequence << 32 | tgid) * (s->stack_key | 1);
		r->method_key ^= r->method_key >> 32;
		r->code_filters[0] = slot->code_filters[0];
		r->code_filters[1] = slot->code_filters[1];
		r->heap_bytes = 0;
		return;
	}
}

/* Returns the runtime of the first range of the process, or BH_RUNTIME_NONE. */
static __always_inline uint32_t managed_first_runtime(const struct unwind_state *s, UNWIND_ENV env)
{
	const struct bh_runtime_table *table = env_runtimes(env);
	const uint64_t first = bits_mask(s->runtime.first_range, (1 << BH_RUNTIME_RANGES_BITS) - 1);

	return s->runtime.range_count && table ? table->ranges[first].runtime : BH_RUNTIME_NONE;
}

/* Returns whether the worker has written the slot since managed_find_slot(). */
static __always_inline int managed_slot_changed(const struct unwind_state *s, UNWIND_ENV env)
{
	const struct bh_runtime_table *table = env_runtimes(env);
	const uint64_t index = bits_mask(s->runtime.slot, (1 << BH_RUNTIME_SLOTS_BITS) - 1);

	return s->runtime.range_count && table &&
	       *(const volatile uint32_t *)&table->slots[index].sequence != s->runtime.sequence;
}

/* Returns whether `pc` is in a range, and copies the range to s->runtime if it is. */
static __always_inline int managed_find_range(struct unwind_state *s, UNWIND_ENV env, uint64_t pc)
{
	const struct bh_runtime_table *table = env_runtimes(env);
	const uint64_t last = (1 << BH_RUNTIME_RANGES_BITS) - 1;
	struct unwind_runtime *r = &s->runtime;
	uint64_t count = r->range_count & ((1 << BH_RUNTIME_PROCESS_RANGES_BITS) - 1);
	uint64_t base = r->first_range;

	if (!table)
		return 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < BH_RUNTIME_PROCESS_RANGES_BITS && count > 1; i++) {
		const uint64_t half = count >> 1;

		base += half &
			bits_below_or_equal(table->ranges[bits_mask(base + half, last)].start, pc);
		count -= half;
	}
	const struct bh_runtime_range *range = &table->ranges[bits_mask(base, last)];
	if (pc - range->start >= range->end - range->start)
		return 0;
	r->id = range->runtime;
	r->block = range->block;
	r->data = range->data;
	r->range_start = range->start;
	r->range_end = range->end;
	return 1;
}

/* Returns whether `pc` may be in a range of a mapped file. Without such a
 * range it is certainly not. */
static __always_inline int managed_in_code_filter(const struct unwind_state *s, uint64_t pc)
{
	const struct bh_runtime_code_filter *code_filters = s->runtime.code_filters;

	return (pc - code_filters[0].start < code_filters[0].bytes) |
	       (pc - code_filters[1].start < code_filters[1].bytes);
}

/*
 * For walkers: makes sure that the copy of the heap contains `bytes` bytes at `address`.
 * managed_heap_word() returns words of the copy. If the bytes are not there yet, the copy is read
 * again, such that it ends `above` bytes after the address. `above` is a constant, at least `bytes`
 * and at most 2048. The rest of the copy lies below the address, but not below its page: what is
 * needed next is mostly at lower addresses. Returns UNWIND_CONTINUE or BH_REASON_READ_FAULT.
 */
static __always_inline int managed_copy_heap(struct unwind_state *s, UNWIND_ENV env,
					     uint64_t address, uint64_t bytes, const uint64_t above)
{
	struct unwind_runtime *r = &s->runtime;

	if (address & 7)
		return BH_REASON_READ_FAULT;
	if (address - r->heap_start < r->heap_bytes &&
	    address - r->heap_start + bytes <= r->heap_bytes)
		return UNWIND_CONTINUE;
	const uint64_t page = address & ~4095ull;
	uint64_t below = sizeof(r->heap) - above;

	/* The page below may not be mapped, and a read that fails costs a microsecond. */
	if (below > address - page)
		below = address - page;
	r->heap_start = address - below;
	r->heap_bytes = below + above;
	if (!env_read(env, r->heap, bits_mask(below + above - 1, sizeof(r->heap) - 1) + 1,
		      r->heap_start))
		return UNWIND_CONTINUE;
	r->heap_bytes = bits_mask(page + 4095 - r->heap_start, 4095) + 1;
	if (r->heap_bytes < below + bytes || r->heap_bytes > sizeof(r->heap) ||
	    env_read(env, r->heap, r->heap_bytes, r->heap_start)) {
		r->heap_bytes = 0;
		return BH_REASON_READ_FAULT;
	}
	return UNWIND_CONTINUE;
}

/* Returns the word at `address`, a multiple of 8, which is in the copy. */
static __always_inline uint64_t managed_heap_word(const struct unwind_state *s, uint64_t address)
{
	const uint8_t *heap = (const uint8_t *)s->runtime.heap;
	const uint64_t at = bits_mask(address - s->runtime.heap_start, sizeof(s->runtime.heap) - 8);

	return *(const uint64_t *)(const void *)(heap + at);
}

#endif

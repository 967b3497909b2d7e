/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writing of a sample into the ring. */
#ifndef BPF_SAMPLE_SEND_H
#define BPF_SAMPLE_SEND_H

#include "bpf/sample/count.h"

/* Writes `size` bytes of the record, and wakes the worker if `flags` is BPF_RB_FORCE_WAKEUP and not
 * BPF_RB_NO_WAKEUP. Returns false if the ring is full. */
static __always_inline bool send_record(struct cpu_state *cpu, __u64 size, __u64 flags)
{
	cpu->unannounced_bytes += size;
	if (flags == BPF_RB_FORCE_WAKEUP)
		cpu->unannounced_bytes = 0;
	if (!bpf_ringbuf_output(&samples, &cpu->unwind.header, size, flags))
		return true;
	count(BH_COUNTER_LOST_RING_FULL);
	return false;
}

/* Returns the entry for the stack in stack_dedup: its id, with the present epoch in place of the
 * lowest 16 bits. */
static __always_inline __u64 send_entry(const struct bh_sample *h)
{
	return (h->stack_id & ~0xffffull) | (h->time_ns >> BH_DEDUP_EPOCH_BITS & 0xffff);
}

static __always_inline __u64 *send_entry_slot(const struct bh_sample *h)
{
	__u32 index = h->stack_id & ((1 << BH_DEDUP_BITS) - 1);

	return bpf_map_lookup_elem(&stack_dedup, &index);
}

/* Adds the goroutine, if the sample has one, after the frames of the record. Returns the size of
 * the record. */
static __always_inline __u64 send_finish_record(struct cpu_state *cpu)
{
	struct unwind_state *s = &cpu->unwind;
	__u64 at = (__u64)s->header.user_count + s->header.kernel_count;

	/* The check and the use must be in one register for the verifier. */
	asm volatile("" : "+r"(at));
	if (s->runtime.goroutine && at < BH_FRAMES_ROOM) {
		s->frames[at] = s->runtime.goroutine;
		s->header.flags |= BH_SAMPLE_GOROUTINE;
		at++;
	}
	return sizeof(s->header) + at * sizeof(s->frames[0]);
}

/* Sends the record with its frames, and remembers that in stack_dedup. */
static __always_inline void send_stack(struct cpu_state *cpu)
{
	const struct bh_sample *h = &cpu->unwind.header;
	__u64 size = send_finish_record(cpu);
	__u64 *slot = send_entry_slot(h);

	if (size > sizeof(*h) + sizeof(cpu->unwind.frames))
		size = sizeof(*h) + sizeof(cpu->unwind.frames);
	if (slot && send_record(cpu, size, cpu->progress.send_flags))
		*(volatile __u64 *)slot = send_entry(h);
}

#endif

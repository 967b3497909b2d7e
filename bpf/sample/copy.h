/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of memory for the names of new code (sample/new_code.h).
 *
 * A runtime whose code may be freed at any time defines RUNTIME_COPY. The function gets the words
 * of the frame, fills s->runtime.heap after the struct bh_memory_copy at its start with parts,
 * and returns the size of all in bytes.
 */
#ifndef BPF_SAMPLE_COPY_H
#define BPF_SAMPLE_COPY_H

#include "bpf/sample/send.h"

#ifndef RUNTIME_COPY
#define RUNTIME_COPY(unused) 0
#endif

_Static_assert(BH_MEMORY_COPY_MAX == HEAP_COPY_WORDS * 8, "a copy is made in `heap`");

/* Returns whether there is room for copies. Half of the ring is for samples alone: a process whose
 * code is always new would fill it with copies, which are ten times as large, while the worker is
 * late. */
static __always_inline bool copy_has_room(void)
{
	return bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA) <
	       bpf_ringbuf_query(&samples, BPF_RB_RING_SIZE) / 2;
}

/* Writes the copy for the new code with this index into the ring, if the code is of `runtime`. A
 * global function, so that the verifier does not follow it once for each code. */
__noinline int copy_code(__u32 index, __u32 runtime)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	if (!cpu || index >= NEW_CODES_MAX)
		return 0;
	struct unwind_state *s = &cpu->unwind;
	struct bh_memory_copy *copy = (struct bh_memory_copy *)s->runtime.heap;
	const __u64 at = bits_mask(cpu->progress.new_code[index], BH_USER_FRAMES_MAX - 1);

	if (bh_frame_runtime(s->frames[at]) != runtime)
		return 0;
	copy->header = s->header;
	copy->header.user_count = 0;
	copy->header.kernel_count = 0;
	copy->header.flags = BH_RECORD_COPY;
	copy->frame = s->frames[at];
	copy->word = s->frames[bits_mask(at + 1, BH_USER_FRAMES_MAX - 1)];
	copy->more[0] = s->frames[bits_mask(at + 2, BH_USER_FRAMES_MAX - 1)];
	copy->more[1] = s->frames[bits_mask(at + 3, BH_USER_FRAMES_MAX - 1)];
	__u64 size = (__u32)RUNTIME_COPY(0);

	if (size < sizeof(*copy))
		return 0;
	/* Otherwise the compiler makes one comparison of both, with another register, of which
	 * verifiers before 6.11 learn nothing about this one. */
	asm volatile("" : "+r"(size));
	if (size <= BH_MEMORY_COPY_MAX)
		bpf_ringbuf_output(&samples, copy, size, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Writes the copies into the ring, and sets new_codes_copied. Without room there the worker reads
 * the memory itself. */
static __always_inline void copy_new_code(struct cpu_state *cpu, __u32 runtime)
{
	cpu->progress.new_codes_copied = 0;
	for (__u32 i = 0; i < NEW_CODES_MAX; i++) {
		if (i >= cpu->progress.new_codes || !copy_has_room())
			break;
		cpu->progress.new_codes_copied++;
		copy_code(i, runtime);
	}
}

#endif

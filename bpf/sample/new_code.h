/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Managed code that is sampled for the first time.
 *
 * How this works. The name of a managed frame is read from the memory of its process. A process
 * that lives for 20 ms, or a function that is created, called and dropped, is gone when the worker
 * empties the ring the next time. So the worker is woken at once by the first sample of each code.
 * Later samples of it need no hurry, because the worker keeps what it has read.
 *
 * Even then the worker comes 0.1 to 1 ms later. For a runtime whose code may be freed at any time,
 * what the name needs is copied into the ring, before the sample (sample/copy.h). HotSpot and V8
 * keep what has run, so nothing is copied.
 *
 * The method cache of the CPU (runtime/method_cache.h) nearly always knows that all code of a stack
 * was seen before. Only if it does not, the map code_seen is asked, which all CPUs share and which
 * keeps more. It remembers code: 32 bits of a hash, at an index that is another part of the same
 * hash. Two codes may share an entry and replace each other, which only costs time.
 *
 * Until the copy is in the ring, code is remembered as that of this CPU. Another CPU that meets the
 * same code meanwhile makes a copy, too: its sample may come before this one.
 *
 * What identifies code is the process, the first word of the frame, and the upper half of the
 * second one, where every runtime has the identity of the function (runtime/frame_word.h,
 * runtime/cpython.h). The position in the function is in the lower half.
 *
 * Code beyond the first NEW_CODES_MAX of a stack, and code for which the ring has no room, stays
 * new. Its copy is made with the next stack of the process on this CPU (`copies_owed`), although
 * the method cache has seen all of it then.
 *
 * A process can wake the worker with each of its samples, but not more often.
 *
 * Example: a Python program calls outer() and inner(). The first sample has three frames, <module>,
 * outer and inner, which are all new. Three copies and the sample are written, and the worker is
 * woken once. A sample at another line of inner() is a new stack without new code.
 */
#ifndef BPF_SAMPLE_NEW_CODE_H
#define BPF_SAMPLE_NEW_CODE_H

#include "bpf/env.h"

enum {
	/* Words that one call of new_code_search() visits, and how often it is called: the
	 * innermost 32 managed frames at least. Those further out were nearly always sampled with
	 * fewer frames above them before. */
	NEW_CODE_WORDS = 16,
	NEW_CODE_BATCHES = 10,
};

/* Returns where code_seen has the frame that begins at a word, and in `hash` what identifies it. */
static __always_inline __u32 *new_code_tag(struct code_seen *seen, const struct unwind_state *s,
					   __u32 at, __u64 *hash)
{
	const __u64 process = s->stack_key + s->header.tgid + s->header.process_start_ns;
	const __u64 frame = s->frames[bits_mask(at, BH_USER_FRAMES_MAX - 1)];
	const __u64 word = s->frames[bits_mask(at + 1, BH_USER_FRAMES_MAX - 1)];

	*hash = (frame ^ process) * HASH_MULTIPLIER;
	*hash = (*hash ^ *hash >> 32 ^ word >> 32) * HASH_MULTIPLIER;
	*hash ^= *hash >> 32;
	return &seen->tags[bits_mask(*hash, (1 << CODE_SEEN_BITS) - 1)];
}

/* Looks for code that was not seen before among the next user frames, from the word
 * cpu->progress.code_next on. Adds it to cpu->progress.new_code. A global function, so that the
 * verifier does not follow the loop once for each call. */
__noinline int new_code_search(__u32 unused)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	struct code_seen *seen = bpf_map_lookup_elem(&code_seen, &zero);

	GLOBAL_ARGUMENT(unused);
	if (!cpu || !seen)
		return 0;
	const struct unwind_state *s = &cpu->unwind;
	const __u32 mine = bpf_get_smp_processor_id() + 1;
	__u32 at = cpu->progress.code_next;

	for (int i = 0; i < NEW_CODE_WORDS && at < s->header.user_count; i++) {
		const __u64 frame = s->frames[bits_mask(at, BH_USER_FRAMES_MAX - 1)];

		if (bh_frame_is_managed(frame)) {
			__u64 hash;
			__u32 *tag = new_code_tag(seen, s, at, &hash);
			const __u32 wanted = hash >> 32, now = *(volatile __u32 *)tag;

			if (now != wanted && now != (wanted ^ mine)) {
				const __u32 count = cpu->progress.new_codes;

				if (count >= NEW_CODES_MAX) {
					cpu->copies_owed = s->header.tgid;
					at = s->header.user_count;
					break;
				}
				cpu->progress.new_code[count] = at;
				cpu->progress.new_codes++;
				*tag = wanted ^ mine;
			}
		}
		at += bh_frame_words(frame);
	}
	cpu->progress.code_next = at;
	return 0;
}

/* Lets no CPU make further copies of the new code with this index, if it is copied. A global
 * function like new_code_search(). */
__noinline int new_code_done(__u32 index)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	struct code_seen *seen = bpf_map_lookup_elem(&code_seen, &zero);
	__u64 hash;

	if (!cpu || !seen || index >= NEW_CODES_MAX)
		return 0;
	__u32 *tag = new_code_tag(seen, &cpu->unwind, cpu->progress.new_code[index], &hash);

	if (index < cpu->progress.new_codes_copied) {
		*tag = hash >> 32;
	} else {
		*tag = 0;
		cpu->copies_owed = cpu->unwind.header.tgid;
	}
	return 0;
}

/* Does that for all new code of the stack. */
static __always_inline void new_codes_done(struct cpu_state *cpu)
{
	for (__u32 i = 0; i < NEW_CODES_MAX && i < cpu->progress.new_codes; i++)
		new_code_done(i);
}

/* Returns whether the stack has code that the worker was not woken for yet, and remembers it. */
static __always_inline bool new_code(struct cpu_state *cpu)
{
	cpu->progress.code_next = 0;
	cpu->progress.new_codes = 0;
	cpu->copies_owed = 0;
	if (!cpu->unwind.runtime.managed_frames)
		return false;
	for (int i = 0; i < NEW_CODE_BATCHES; i++) {
		if (cpu->progress.code_next >= cpu->unwind.header.user_count)
			break;
		new_code_search(0);
	}
	return cpu->progress.new_codes;
}

#endif

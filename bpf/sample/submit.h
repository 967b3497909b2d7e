/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sending of samples to the worker, and the stack ids by which a stack is sent only once.
 *
 * How this works. The id of a stack is a hash of its frames and its process, with a secret. The map
 * stack_dedup remembers the ids that were sent, and when: one word for each value of the low bits
 * of the id. If a stack was sent less than BH_DEDUP_EPOCHS epochs ago, only the header with the id
 * is sent again. The epoch replaces the lowest 16 bits of the id in that word. They are implied by
 * the index, except for two bits.
 *
 * Example: the id is 0x1234567890abcdef and the epoch 0x0007. The index is the low 14 bits, 0x0def.
 * If the word there is 0x1234567890ab0005, the frames were sent two epochs ago, and are not sent
 * again. At epoch 0x000d they are, and the word becomes 0x1234567890ab000d.
 */
#ifndef BPF_SAMPLE_SUBMIT_H
#define BPF_SAMPLE_SUBMIT_H

#include "bpf/sample/send.h"

enum {
	KERNEL_HASH_BATCH = 16, /* most kernel stacks have fewer frames */
	/* The interval in which a CPU wakes the worker once for generated code. A program of LuaJIT
	 * whose stacks are new all the time costs 0.1 % of a CPU more with it. */
	GENERATED_PAUSE_NS = 100 * 1000 * 1000,
};

/* Wake the worker when a CPU has written this many bytes to the ring since it last did. */
const volatile __u32 wakeup_bytes = 256 << 10;
/* A secret, odd number. Without it a process could choose its frames such that
 * two stacks get the same id. */
const volatile __u64 stack_key = 1;

/* Returns the secret with which stack ids are made. It changes with the generation of the worker,
 * so that a new worker gets each stack again. */
static __always_inline __u64 generation_key(void)
{
	__u32 zero = 0;
	const struct bh_worker_control *control = bpf_map_lookup_elem(&worker_control, &zero);
	__u64 generation = control ? *(volatile __u32 *)&control->generation : 0;

	return stack_key + (generation << 32);
}

/* Adds the hashes of the next KERNEL_HASH_BATCH kernel frames to cpu->progress.kernel_sum. A global
 * function, so that the verifier does not follow the loop once for each batch. */
__noinline int submit_hash_kernel_frames(__u32 unused)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	GLOBAL_ARGUMENT(unused);
	if (!cpu)
		return 0;
	const struct unwind_state *s = &cpu->unwind;
	__u32 first = s->header.user_count & (2 * BH_USER_FRAMES_MAX - 1);
	__u32 count = s->header.kernel_count, next = cpu->progress.kernel_hashed;

	for (int i = 0; i < KERNEL_HASH_BATCH && next < count; i++, next++) {
		__u64 at = bits_mask(first + next, 2 * BH_USER_FRAMES_MAX - 1);

		if (at >= BH_FRAMES_ROOM)
			break;
		cpu->progress.kernel_sum += push_hash_frame(s, s->frames[at], at);
	}
	cpu->progress.kernel_hashed = next;
	return 0;
}

/* Returns the id of the stack in s->frames. It is never 0. The sum starts with a value that depends
 * on the process. */
static __always_inline __u64 make_stack_id(struct cpu_state *cpu)
{
	const struct unwind_state *s = &cpu->unwind;
	const struct bh_sample *h = &s->header;
	__u64 sum = ((__u64)h->tgid << 32 | (__u32)h->user_count << 16 | h->reason) ^ s->stack_key;

	sum = sum * stack_key;
	sum ^= sum >> 32;
	sum += s->stack_sum;
	cpu->progress.kernel_sum = 0;
	cpu->progress.kernel_hashed = 0;
	for (int i = 0; i < BH_KERNEL_FRAMES_MAX; i += KERNEL_HASH_BATCH) {
		if (cpu->progress.kernel_hashed >= h->kernel_count)
			break;
		submit_hash_kernel_frames(0);
	}
	sum += cpu->progress.kernel_sum;
	sum *= stack_key;
	sum ^= sum >> 32;
	return sum ? sum : 1;
}

/* Returns how to write this many bytes: whether to wake the worker.
 *
 * Generated code has its names in a file of the process, or in its memory, and may soon be freed.
 * So the worker is woken for a stack of such code that is sent with its frames, but not more often
 * than once per interval on each CPU: which code is new is not known, as it is of managed frames
 * (sample/new_code.h). For stacks that come too soon, a later sample wakes it. */
static __always_inline __u64 submit_flags(struct cpu_state *cpu, __u64 size)
{
	const __u64 now = cpu->unwind.header.time_ns;

	if (cpu->generated_waits && now - cpu->generated_ns >= GENERATED_PAUSE_NS) {
		cpu->generated_waits = 0;
		cpu->generated_ns = now;
		return BPF_RB_FORCE_WAKEUP;
	}
	return cpu->unannounced_bytes + size >= wakeup_bytes ? BPF_RB_FORCE_WAKEUP
							     : BPF_RB_NO_WAKEUP;
}

/* Sends the record: with its frames, or without them if they were sent a moment ago. If `managed`,
 * the stack may have managed frames, and if some of their code is new, the program of a runtime
 * sends it. */
static __always_inline void submit(struct bpf_perf_event_data *ctx, struct cpu_state *cpu,
				   bool managed)
{
	struct bh_sample *h = &cpu->unwind.header;
	const __u64 frames = (__u64)h->user_count + h->kernel_count;

	/* With an id, a record without frames would refer to a stack that was sent before. */
	if (!frames) {
		h->stack_id = 0;
		send_record(cpu, sizeof(*h), submit_flags(cpu, sizeof(*h)));
		return;
	}
	h->stack_id = make_stack_id(cpu);
	const __u64 *slot = send_entry_slot(h);
	const __u64 entry = send_entry(h);

	if (!slot)
		return;
	const __u64 last = *(volatile __u64 *)slot;
	if ((entry ^ last) >> 16 == 0 && (__u16)(entry - last) < BH_DEDUP_EPOCHS) {
		h->user_count = 0;
		h->kernel_count = 0;
		const __u64 size = send_finish_record(cpu);

		send_record(cpu, size, submit_flags(cpu, size));
		return;
	}
	cpu->generated_waits |= cpu->unwind.generated;
	cpu->progress.send_flags = submit_flags(cpu, sizeof(*h) + frames * 8);
	if (managed && (cpu->unwind.runtime.new_code || cpu->copies_owed == h->tgid))
		bpf_tail_call(ctx, &programs, BH_PROGRAM_SEND + cpu->unwind.runtime.id);
	send_stack(cpu);
}

#endif

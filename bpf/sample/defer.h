/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deferred stacks: what the manager gets if the tables of a process or a module are not ready yet.
 * It is a copy of the registers and of the top of the stack.
 */
#ifndef BPF_SAMPLE_DEFER_H
#define BPF_SAMPLE_DEFER_H

#include "bpf/sample/count.h"
#include "bpf/sample/kernel_stack.h"
#include "bpf/sample/task.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64); /* second << 32 | stacks deferred in that second */
} defer_rate_limit SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bh_deferred);
} deferred_scratch SEC(".maps");

/* Returns whether the process may have one more stack deferred in this second.
 * A second is 2^30 ns here. */
static __always_inline bool defer_allowed(__u32 tgid, __u64 now)
{
	__u64 second = now >> 30, fresh = second << 32 | 1;
	__u64 *entry = bpf_map_lookup_elem(&defer_rate_limit, &tgid);

	if (!entry || *entry >> 32 != (second & 0xffffffff)) {
		bpf_map_update_elem(&defer_rate_limit, &tgid, &fresh, BPF_ANY);
		return true;
	}
	if ((*entry & 0xffffffff) >= BH_DEFERRED_PER_SECOND_MAX)
		return false;
	(*entry)++;
	return true;
}

/* Copies the stack from `sp` on, page by page: so a page that is missing only costs the rest.
 * Returns the number of bytes. */
static __always_inline __u32 copy_stack(struct bh_deferred *d, __u64 sp)
{
	__u32 copied = 0;

	for (int i = 0; i < BH_STACK_COPY_PAGES; i++) {
		__u32 chunk = 4096 - ((sp + copied) & 4095);

		if (copied > BH_STACK_COPY_BYTES - 4096 || chunk > 4096)
			break;
		if (read_user(d->stack + copied, chunk, (const void *)(sp + copied)))
			break;
		copied += chunk;
	}
	return copied;
}

/* Sends the registers and a copy of the stack to the manager, which unwinds it when it
 * has the tables. Returns false if that is not possible. Then the sample is submitted
 * with an incomplete stack. */
static __noinline bool defer(struct cpu_state *cpu, struct bpf_perf_event_data *ctx)
{
	const struct unwind_state *s = &cpu->unwind;
	const __u64 sp = cpu->regs.rsp;
	__u32 zero = 0;
	struct bh_deferred *d = bpf_map_lookup_elem(&deferred_scratch, &zero);

	if (!d)
		return false;
	if (!defer_allowed(s->header.tgid, s->header.time_ns)) {
		count(BH_COUNTER_DEFERRED_LIMITED);
		return false;
	}
	d->header = s->header;
	d->header.stack_id = 0;
	d->header.user_count = 0;
	/* Not those in `s`: unwinding has changed them to registers of a caller. */
	copy_registers(d->registers.gpr, &cpu->regs);
	d->registers.rip = cpu->regs.rip;
	d->reserved = 0;
	d->header.kernel_count = 0;
	if (want_kernel)
		d->header.kernel_count =
		    kernel_frames(d->kernel_frames, bpf_get_stack(ctx, d->kernel_frames,
								  sizeof(d->kernel_frames), 0));
	/* The rules may refer to what was popped a moment ago, which lies below rsp. */
	d->stack_start = sp - BH_RED_ZONE_BYTES;
	d->copied = copy_stack(d, d->stack_start);
	if (!d->copied) {
		d->stack_start = sp;
		d->copied = copy_stack(d, sp);
	}
	/* The page of rsp is not there yet: the fault that was interrupted will bring it. All that
	 * has ever been written lies above it. */
	if (!d->copied) {
		d->stack_start = (sp + 4095) & ~4095ull;
		d->copied = copy_stack(d, d->stack_start);
	}
	__u64 size = sizeof(*d) - sizeof(d->stack) + (d->copied & (2 * BH_STACK_COPY_BYTES - 1));

	if (size > sizeof(*d))
		return false;
	if (bpf_ringbuf_output(&deferred, d, size, 0)) {
		count(BH_COUNTER_DEFERRED_FULL);
		return false;
	}
	count(BH_COUNTER_DEFERRED);
	return true;
}

#endif

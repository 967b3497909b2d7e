/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampling program.
 *
 * How this works. For each tick of a CPU's clock, bulkhead_sample() runs once, in NMI or interrupt
 * context, and makes one record:
 *
 * 1. It drops ticks of the idle task, and of threads that are not selected (sample/filter.h).
 * 2. It describes the task and loads its user registers (sample/task.h).
 * 3. It unwinds the user stack (unwind/step.h), calling walkers of language runtimes in between.
 * 4. If the process, a mapping or a table is not published yet, it sends a copy of the stack to
 *    the manager (sample/defer.h), and is done.
 * 5. Otherwise it adds the kernel stack, and sends the record to the worker (sample/submit.h).
 *
 * Example: a thread of a Python program is interrupted in a system call. The user registers are
 * those that the kernel saved at its entry. The record gets 12 native frames, 5 managed frames of
 * two words each (user_count 22), and 9 kernel frames (kernel_count 9). The same stack one second
 * later is a header of 64 bytes with the same stack_id and no frames.
 *
 * Unwinding is done in BH_UNWIND_BATCHES batches of BH_UNWIND_BATCH_STEPS steps. Each step and each
 * batch is a global function, which the verifier checks once. So its work is the sum of the parts,
 * not their product.
 */
#include "bpf/env.h"
#include "bpf/sample/count.h"
#include "bpf/sample/defer.h"
#include "bpf/sample/filter.h"
#include "bpf/sample/kernel_stack.h"
#include "bpf/sample/submit.h"
#include "bpf/sample/task.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool want_user = true;
/* By enum bh_runtime: whether the walker of the runtime may be called. */
const volatile bool runtime_wanted[BH_RUNTIME_COUNT];
/* unwind_steps() as a global function, so that the verifier checks it once, and not again in each
 * iteration of the loop that calls it. */
__noinline int unwind_steps_global(__u32 unused)
{
	__u32 zero = 0;

	GLOBAL_ARGUMENT(unused);
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	struct rule_cache *cache = bpf_map_lookup_elem(&rule_caches, &zero);

	return cpu && cache ? unwind_steps(&cpu->unwind, 0, cache) : BH_REASON_BAD_TABLE;
}

#define RUNTIME(id, name, frame_type, title) int walker_##name(__u32 zero);
#include "common/runtimes.def"
#undef RUNTIME

/* Calls the walker of a runtime. */
static __always_inline int call_walker(__u32 runtime)
{
#define RUNTIME(id, name, frame_type, title)                                                       \
	if (runtime_wanted[BH_RUNTIME_##id] && runtime == BH_RUNTIME_##id)                         \
		return walker_##name(0);
#include "common/runtimes.def"
#undef RUNTIME
	return BH_REASON_BAD_TABLE;
}

/* Unwinds until the stack ends, but no more than BH_UNWIND_BATCH_STEPS steps. */
__noinline int unwind_batch(__u32 unused)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	int end = UNWIND_CONTINUE;

	GLOBAL_ARGUMENT(unused);
	if (!cpu)
		return BH_REASON_BAD_TABLE;
	for (int i = 0; i < BH_UNWIND_BATCH_STEPS; i++) {
		end = unwind_steps_global(0);
		if (end == UNWIND_CALL_WALKER)
			end = call_walker(cpu->unwind.runtime.id);
		if (end != UNWIND_CONTINUE)
			break;
	}
	return end;
}

/* Sets the mappings in `s` from the entry of the process in the table, and *found and
 * *sequence to that entry and its sequence number. Returns UNWIND_CONTINUE, or the
 * reason that ends the stack. */
static __always_inline int find_process(struct unwind_state *s, __u32 tgid,
					struct bh_process **found, __u32 *sequence)
{
	__u32 zero = 0;
	struct bh_process_table *table = bpf_map_lookup_elem(&processes, &zero);

	if (!table)
		return BH_REASON_BAD_TABLE;
	__u32 slot = bh_process_hash(tgid);

	for (int i = 0; i < BH_PROCESS_PROBES; i++) {
		struct bh_process *p = &table->slots[(slot + i) & ((1 << BH_PROCESSES_BITS) - 1)];

		if (p->tgid != tgid)
			continue;
		*sequence = *(volatile __u32 *)&p->sequence;
		s->mapping_slab = p->mapping_slab;
		s->mapping_offset = p->mapping_offset;
		s->mapping_count = p->mapping_count;
		*found = p;
		return (*sequence & 1) ? BH_REASON_CHANGED : UNWIND_CONTINUE;
	}
	return BH_REASON_NO_PROCESS;
}

/* Unwinds the user stack. Returns the reason that ended it. */
static __always_inline int unwind_user_stack(struct unwind_state *s, __u32 tgid)
{
	struct bh_process *process = NULL;
	__u32 sequence = 0;
	int end = find_process(s, tgid, &process, &sequence);

	unwind_start(s);
	if (end != UNWIND_CONTINUE) {
		push_native(s, bh_frame_raw(s->pc));
		return end;
	}
	managed_find_slot(s, 0, tgid);
	for (int i = 0; i < BH_UNWIND_BATCHES; i++) {
		end = unwind_batch(0);
		if (end != UNWIND_CONTINUE)
			break;
	}
	if (process && *(volatile __u32 *)&process->sequence != sequence)
		end = BH_REASON_CHANGED;
	if (managed_slot_changed(s, 0))
		end = BH_REASON_CHANGED;
	return end == UNWIND_CONTINUE ? BH_REASON_TOO_DEEP : end;
}

/* Sets all fields of the header but the name of the thread, which the
 * filters have needed before. */
static __always_inline void fill_header(struct bh_sample *h, const struct sampled_task *task,
					__u64 id)
{
	h->time_ns = bpf_ktime_get_ns();
	h->process_start_ns = task->process_start_ns;
	h->cgroup_id = bpf_get_current_cgroup_id();
	h->tgid = id >> 32;
	h->tid = (__u32)id;
	h->cpu = bpf_get_smp_processor_id();
	h->kernel_count = 0;
	h->user_count = 0;
	h->reason = BH_REASON_COMPLETE;
	h->origin = BH_ORIGIN_CPU_CLOCK;
	h->flags = 0;
}

SEC("perf_event")
int bulkhead_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	__u64 id = bpf_get_current_pid_tgid();
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	if (!cpu)
		return 0;
	struct unwind_state *s = &cpu->unwind;
	if (!(__u32)id) {
		count(BH_COUNTER_IDLE);
		return 0;
	}
	bpf_get_current_comm(s->header.comm, sizeof(s->header.comm));
	if (!selected(id >> 32, (__u32)id, s->header.comm)) {
		count(BH_COUNTER_FILTERED);
		return 0;
	}
	count(BH_COUNTER_TAKEN);
	bool user_mode = (ctx->regs.cs & 3) == 3;
	struct sampled_task task;

	describe_task(&task);
	fill_header(&s->header, &task, id);
	s->stack_key = generation_key();
	unwind_clear_frames(s);
	if (want_user && task.has_user_stack) {
		int end = load_registers(ctx, cpu, user_mode);

		if (end == UNWIND_CONTINUE) {
			end = unwind_user_stack(s, id >> 32);
			if (end != BH_REASON_COMPLETE && task.is_executing) {
				unwind_clear_frames(s);
				end = BH_REASON_COMPLETE;
			}
			if (bh_reason_is_temporary(end) && defer(cpu, ctx))
				return 0;
		}
		s->header.reason = end;
		s->header.user_count = s->frame_count;
		if (s->runtime.managed_frames)
			s->header.flags = BH_SAMPLE_MANAGED;
	}
	if (want_kernel && !user_mode) {
		__u64 at = s->header.user_count;

		/* The check and the use must be in one register for the verifier. */
		asm volatile("" : "+r"(at));
		if (at <= BH_USER_FRAMES_MAX) {
			long got = bpf_get_stack(ctx, &s->frames[at], BH_KERNEL_FRAMES_MAX * 8, 0);

			s->header.kernel_count = kernel_frames(&s->frames[at], got);
		}
	}
	submit(cpu);
	return 0;
}

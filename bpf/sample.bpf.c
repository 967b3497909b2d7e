/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampling program.
 *
 * How this works. For each tick of a CPU's clock, bulkhead_sample() runs once, in NMI or interrupt
 * context, and one record is made:
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
 * Steps 3 to 5 may happen in other programs, which continue this one (sample/unwind.h).
 */
#include "bpf/env.h"
#include "bpf/sample/count.h"
#include "bpf/sample/defer.h"
#include "bpf/sample/filter.h"
#include "bpf/sample/kernel_stack.h"
#include "bpf/sample/submit.h"
#include "bpf/sample/task.h"
#include "bpf/sample/unwind.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool want_user = true;

/* Sets the mappings from the entry of the process in the table, and notes that entry. Returns
 * UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int find_process(struct cpu_state *cpu, __u32 tgid)
{
	__u32 zero = 0;
	struct bh_process_table *table = bpf_map_lookup_elem(&processes, &zero);
	struct unwind_state *s = &cpu->unwind;

	if (!table)
		return BH_REASON_BAD_TABLE;
	__u32 first = bh_process_hash(tgid);

	for (int i = 0; i < BH_PROCESS_PROBES; i++) {
		__u32 slot = (first + i) & ((1 << BH_PROCESSES_BITS) - 1);
		struct bh_process *p = &table->slots[slot];

		if (p->tgid != tgid)
			continue;
		if (p->alive_ns < s->header.process_start_ns)
			return BH_REASON_NO_PROCESS;
		cpu->progress.process_found = 1;
		cpu->progress.process_slot = slot;
		cpu->progress.runtime_allowed = p->runtime_allowed;
		cpu->progress.process_sequence = *(volatile __u32 *)&p->sequence;
		s->mapping_slab = p->mapping_slab;
		s->mapping_offset = p->mapping_offset;
		s->mapping_count = p->mapping_count;
		return (cpu->progress.process_sequence & 1) ? BH_REASON_CHANGED : UNWIND_CONTINUE;
	}
	return BH_REASON_NO_PROCESS;
}

/* Returns whether the manager has written the entry of the process since find_process(). */
static __always_inline bool process_changed(const struct cpu_state *cpu)
{
	__u32 zero = 0, slot = cpu->progress.process_slot & ((1 << BH_PROCESSES_BITS) - 1);
	struct bh_process_table *table = bpf_map_lookup_elem(&processes, &zero);

	return cpu->progress.process_found && table &&
	       *(volatile __u32 *)&table->slots[slot].sequence != cpu->progress.process_sequence;
}

/* Walks the user stack, or lets another program do so. Sets cpu->progress.end. */
static __always_inline void unwind_user_stack(struct bpf_perf_event_data *ctx,
					      struct cpu_state *cpu, __u32 tgid)
{
	struct unwind_state *s = &cpu->unwind;
	int end = find_process(cpu, tgid);

	unwind_start(s);
	if (end != UNWIND_CONTINUE) {
		push_native(s, bh_frame_raw(s->pc));
		cpu->progress.end = end;
		return;
	}
	if (cpu->progress.runtime_allowed)
		managed_find_slot(s, 0, tgid);
	__u32 runtime = managed_first_runtime(s, 0);

	if (runtime != BH_RUNTIME_NONE) {
		cpu->thread_pointer = read_thread_pointer();
		unwind_change_program(ctx, cpu, runtime);
	}
	unwind_rest(ctx, cpu);
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

/* Sends the sample, whose user stack was walked. `by_runtime`: also by the program of a runtime;
 * only then has it managed frames. */
static __always_inline void finish(struct bpf_perf_event_data *ctx, struct cpu_state *cpu,
				   bool by_runtime)
{
	struct unwind_state *s = &cpu->unwind;
	int end = cpu->progress.end;

	if (process_changed(cpu) || managed_slot_changed(s, 0)) {
		s->runtime.goroutine = 0;
		end = BH_REASON_CHANGED;
	}
	if (end != BH_REASON_COMPLETE && cpu->progress.is_executing) {
		unwind_clear_frames(s);
		end = BH_REASON_COMPLETE;
	}
	s->header.reason = end;
	if (bh_reason_is_temporary(end) && defer(cpu, ctx))
		return;
	s->header.user_count = s->frame_count;
	if (by_runtime && s->runtime.managed_frames)
		s->header.flags = BH_SAMPLE_MANAGED;
	if (want_kernel && !is_user_mode(ctx)) {
		__u64 at = s->header.user_count;

		/* The check and the use must be in one register for the verifier. */
		asm volatile("" : "+r"(at));
		if (at <= BH_USER_FRAMES_MAX) {
			long got = bpf_get_stack(ctx, &s->frames[at], BH_KERNEL_FRAMES_MAX * 8, 0);

			s->header.kernel_count = kernel_frames(&s->frames[at], got);
		}
	}
	submit(ctx, cpu, by_runtime);
}

/* Sends a sample whose stack was walked by the program of a runtime. */
SEC("perf_event")
int bulkhead_finish(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	if (cpu)
		finish(ctx, cpu, true);
	return 0;
}

/* Prepares the state of the CPU for a sample without a user stack. */
static __always_inline void begin(struct cpu_state *cpu, const struct sampled_task *task, __u64 id)
{
	struct unwind_state *s = &cpu->unwind;

	fill_header(&s->header, task, id);
	s->stack_key = generation_key();
	unwind_clear_frames(s);
	s->runtime.managed_frames = 0;
	s->runtime.new_code = 0;
	s->runtime.range_count = 0;
	cpu->progress.end = BH_REASON_COMPLETE;
	cpu->progress.is_executing = task->is_executing;
	cpu->progress.batches = 0;
	cpu->progress.process_found = 0;
	cpu->progress.program_changes = 0;
	cpu->progress.walker_is_due = 0;
}

SEC("perf_event")
int bulkhead_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	__u64 id = bpf_get_current_pid_tgid();
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	if (!cpu)
		return 0;
	if (!(__u32)id) {
		count(BH_COUNTER_IDLE);
		return 0;
	}
	char *comm = cpu->unwind.header.comm;

	bpf_get_current_comm(comm, BH_COMM_BYTES);
	if (!selected(id >> 32, (__u32)id, comm)) {
		count(BH_COUNTER_FILTERED);
		return 0;
	}
	count(BH_COUNTER_TAKEN);
	struct sampled_task task;

	describe_task(&task);
	begin(cpu, &task, id);
	if (want_user && task.has_user_stack) {
		int end = load_registers(ctx, cpu, is_user_mode(ctx));

		if (end == UNWIND_CONTINUE)
			unwind_user_stack(ctx, cpu, id >> 32);
		else
			cpu->progress.end = end;
	}
	finish(ctx, cpu, false);
	return 0;
}

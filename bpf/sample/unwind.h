/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk of a user stack, by several programs in turn.
 *
 * How this works. A kernel program that contained the walkers of all language runtimes would be
 * verified for as long as all of them together. So each runtime has a program of its own, which
 * contains the unwinder of native frames and that one walker (runtime/program.bpf.c.in). Programs
 * continue each other by tail calls; what they share is in the CPU's state.
 *
 * 1. bulkhead_sample() begins. If the process has a language runtime, the program of that runtime
 *    continues at once, and otherwise bulkhead_sample() walks the stack.
 * 2. At a frame for the walker of another runtime, the program of that runtime continues: first it
 *    calls its walker for this frame, then it goes on. This may happen BH_PROGRAM_CHANGES_MAX times
 *    in one stack.
 * 3. At the end of the stack bulkhead_finish() sends the sample. If the stack has managed code that
 *    may be new, another program of the runtime does that (sample/new_code.h).
 *
 * A program that is not loaded yet cannot continue. Then its frames are shown as native ones.
 *
 * The work of the verifier: steps are made in BH_UNWIND_BATCHES batches of BH_UNWIND_BATCH_STEPS.
 * Each step and each batch is a global function, which the verifier checks once. So its work is the
 * sum of the parts, not their product. The batches of all programs of one stack are counted
 * together, so that no stack takes longer because several programs walk it.
 *
 * Example: Java code calls Python in the same process. bulkhead_sample() finds the slot of the
 * process, whose first range belongs to HotSpot. The program of HotSpot pushes native frames, finds
 * an evaluator of CPython, and calls the program of CPython. That one pushes Python frames and
 * native ones, until it comes to compiled Java code, and calls the program of HotSpot again. This
 * one reaches the outermost frame and calls bulkhead_finish().
 *
 * Who includes this header may define before it:
 *
 *	UNWIND_WALKER		the function that calls the one walker of the program
 *	UNWIND_WALKER_RUNTIME	its runtime
 */
#ifndef BPF_SAMPLE_UNWIND_H
#define BPF_SAMPLE_UNWIND_H

#include "bpf/env.h"

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

/* Unwinds until the stack ends or another program has to continue, but no more than
 * BH_UNWIND_BATCH_STEPS steps. Returns UNWIND_CONTINUE, UNWIND_CALL_WALKER for the walker of
 * another program, or the reason that ends the stack. */
__noinline int unwind_batch(__u32 unused)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	int end = UNWIND_CONTINUE;

	GLOBAL_ARGUMENT(unused);
	if (!cpu)
		return BH_REASON_BAD_TABLE;
	for (int i = 0; i < BH_UNWIND_BATCH_STEPS; i++) {
		end = UNWIND_CALL_WALKER;
		if (!cpu->progress.walker_is_due)
			end = unwind_steps_global(0);
		cpu->progress.walker_is_due = 0;
#ifdef UNWIND_WALKER
		if (end == UNWIND_CALL_WALKER && cpu->unwind.runtime.id == UNWIND_WALKER_RUNTIME)
			end = UNWIND_WALKER(0);
#endif
		if (end != UNWIND_CONTINUE)
			break;
	}
	return end;
}

/* Lets the program of a runtime continue with the stack. Returns only if it cannot. */
static __always_inline void unwind_change_program(struct bpf_perf_event_data *ctx,
						  struct cpu_state *cpu, __u32 runtime)
{
	cpu->progress.program_changes++;
	bpf_tail_call(ctx, &programs, BH_PROGRAM_WALK + runtime);
}

/* Walks the rest of the user stack, or lets another program do so. Sets cpu->progress.end. */
static __always_inline void unwind_rest(struct bpf_perf_event_data *ctx, struct cpu_state *cpu)
{
	int end = UNWIND_CONTINUE;

	for (int i = 0; i < BH_UNWIND_BATCHES && cpu->progress.batches < BH_UNWIND_BATCHES; i++) {
		cpu->progress.batches++;
		end = unwind_batch(0);
		if (end == UNWIND_CALL_WALKER) {
			if (cpu->progress.program_changes > BH_PROGRAM_CHANGES_MAX) {
				end = BH_REASON_RUNTIME_CHANGES;
				break;
			}
			cpu->progress.walker_is_due = 1;
			unwind_change_program(ctx, cpu, cpu->unwind.runtime.id);
			/* It is not loaded. */
			cpu->progress.walker_is_due = 0;
			cpu->unwind.runtime.verdict = WALKER_NOT_MINE;
			end = UNWIND_CONTINUE;
		}
		if (end != UNWIND_CONTINUE)
			break;
	}
	cpu->progress.end = end == UNWIND_CONTINUE ? BH_REASON_TOO_DEEP : end;
}

#endif

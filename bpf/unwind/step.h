/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The unwinder: from a frame to its caller, until the stack ends. The same source runs in the
 * kernel on live stacks (sample.bpf.c), in the manager on copied stacks (unwinder-mgr/walker.c),
 * and in the tests on recorded memory.
 *
 * How this works. Most code is compiled without frame pointers. So the return address is at a
 * distance from rsp that changes with each push, and only the unwind rules of the module say where.
 * The manager has compiled them into tables. A stack is unwound by repeating one step:
 *
 * 1. Find the mapping of pc, and in the tables of its module the rule for that place (tables.h,
 *    rule_cache.h). For a caller the address is the return address - 1, because a call that never
 *    returns may be the last instruction of its function.
 * 2. Push the frame: module id and offset in the file (push.h).
 * 3. Compute the CFA by the rule, read the return address and the saved registers, and continue at
 *    the caller (cfa.h).
 *
 * The stack is complete at the outermost frame, which its rule marks. Any other end has a reason
 * (enum bh_reason).
 *
 * Where a language runtime has published ranges (managed.h), a frame in them belongs to the walker
 * of that runtime. A step then returns UNWIND_CALL_WALKER. The caller calls the walker, and the
 * verdict of the walker says what happens to the native frame (the table in state.h).
 *
 * Example: a Python 3.12 program has called malloc. The native frames are malloc, list_append,
 * _PyEval_EvalFrameDefault, PyEval_EvalCode, main, and the range of CPython is the third one.
 *
 *	unwind_cached() pushes malloc and list_append, and stops before a frame in a range
 *	unwind_step() finds the range                   -> UNWIND_CALL_WALKER, AT_FRAME
 *	the walker's verdict is RESUME_IN_CALLER
 *	unwind_step() unwinds the frame, not pushing it -> UNWIND_CALL_WALKER, IN_CALLER
 *	the walker pushes the two Python frames that this C frame runs, and returns UNWIND_CONTINUE
 *	unwind_cached() pushes PyEval_EvalCode and main
 *	unwind_step() finds the mark of the outermost frame    -> BH_REASON_COMPLETE
 *
 * Who includes this header defines before it:
 *
 *	UNWIND_ENV		the type of `env`, which is passed through to these functions:
 *	env_slab(env, index)	the bytes of a slab, or NULL
 *	env_module(env, slot)	struct bh_module *, or NULL
 *	env_rule(env, id)	struct bh_rule *, or NULL
 *	env_runtimes(env)	struct bh_runtime_table *, or NULL
 *	env_read(env, destination, bytes, address)
 *				returns 0, or another value if the memory cannot be read
 *	RULE_CACHE_BITS		the rule cache has 2^RULE_CACHE_BITS entries
 *	MAPPING_HINT_BITS	a state has 2^MAPPING_HINT_BITS hints to mappings
 */
#ifndef BPF_UNWIND_STEP_H
#define BPF_UNWIND_STEP_H

#include "bpf/unwind/cfa.h"
#include "bpf/unwind/rule_cache.h"

/* Unwinds a frame in the vsyscall page, a page at a fixed address that old programs call. The
 * kernel emulates its three functions (arch/x86/entry/vsyscall/vsyscall_64.c). Each runs with the
 * return address on top of the stack and nothing else. */
static __always_inline int unwind_vsyscall_page(struct unwind_state *s, UNWIND_ENV env)
{
	uint64_t ra = 0;
	int end;

	push_native(s, bh_frame_raw(s->pc));
	end = stack_read_word(s, env, s->sp, s->sp, &ra);
	if (end != UNWIND_CONTINUE)
		return end;
	s->sp += 8;
	s->pc = ra;
	s->registers_known = 0;
	return UNWIND_CONTINUE;
}

/* Unwinds the native frame at `pc`, and pushes it if `push` is set. Returns UNWIND_CONTINUE, or the
 * reason that ends the stack. */
static __always_inline int unwind_native_frame(struct unwind_state *s, UNWIND_ENV env,
					       struct rule_cache *cache, uint64_t pc, int push)
{
	int end;

	if (pc >> 12 == BH_VSYSCALL_PAGE && s->registers_known)
		return unwind_vsyscall_page(s, env);
	if (!tables_recall_mapping(s, env, pc)) {
		end = tables_find_mapping(s, env, pc);
		if (end != UNWIND_CONTINUE) {
			if (s->frame_count == 0)
				push_native(s, bh_frame_raw(pc));
			return end;
		}
	}
	uint64_t frame = tables_native_frame(s, pc);
	/* All memory without a file has the same rule. */
	uint64_t key = s->last.module_id ? frame : BH_FRAME_RAW;
	uint64_t position = rule_cache_position(cache, s->rule_position, key, 0);

	if (push) {
		push_native(s, s->last.module_id ? frame : bh_frame_raw(pc));
		s->generated |= !s->last.module_id;
	}
	if (cache->entries[position].key != key) {
		end = rule_cache_fill(s, env, cache, pc - s->last.bias, key, &position);
		if (end != UNWIND_CONTINUE)
			return end;
	}
	s->rule_position = position;
	const struct bh_rule *rule =
	    &cache->entries[bits_mask(position, RULE_CACHE_ENTRIES - 1)].rule;
	if (rule->kind == BH_RULE_END)
		return BH_REASON_COMPLETE;
	if (rule->kind == BH_RULE_SIGNAL)
		return cfa_apply_signal_frame(s, env);
	return cfa_apply_rule(s, env, rule);
}

/* Returns whether a walker has to be called for the frame at `pc`. If a pending frame replaces it,
 * that is pushed, and no walker is needed. */
static __always_inline int unwind_needs_walker(struct unwind_state *s, UNWIND_ENV env, uint64_t pc)
{
	const struct unwind_runtime *r = &s->runtime;

	return r->range_count && !r->verdict && managed_find_range(s, env, pc) &&
	       (r->id != r->pending.runtime || r->block != r->pending.block || !pending_pop(s));
}

/* Unwinds one frame, or carries out the verdict of the walker about it. Returns UNWIND_CONTINUE,
 * UNWIND_CALL_WALKER, or the reason that ends the stack. */
static __always_inline int unwind_step(struct unwind_state *s, UNWIND_ENV env,
				       struct rule_cache *cache)
{
	struct unwind_runtime *r = &s->runtime;
	/* The return address may be the first byte after the function. */
	const uint64_t pc = s->pc - !s->registers_known, sp = s->sp;

	if (s->frame_count >= BH_USER_FRAMES_MAX)
		return BH_REASON_TOO_DEEP;
	if (r->verdict == WALKER_CALL_AGAIN) {
		r->verdict = WALKER_MOVED;
		r->resume = walker_resume_again(r->resume);
		return UNWIND_CALL_WALKER;
	}
	r->resume = WALKER_AT_FRAME;
	if (unwind_needs_walker(s, env, pc))
		return UNWIND_CALL_WALKER;
	/* A volatile read makes the verifier drop the value that it has tracked. Otherwise it
	 * would follow the rest of the function once for each value. */
	const uint32_t verdict = *(volatile const uint32_t *)&r->verdict;

	r->verdict = WALKER_MOVED;
	const int end = unwind_native_frame(s, env, cache, pc,
					    verdict == WALKER_MOVED || verdict == WALKER_NOT_MINE);
	if (verdict != WALKER_RESUME_IN_CALLER)
		return end;
	r->resume = WALKER_IN_CALLER;
	r->frame_start = sp;
	r->frame_end = end == UNWIND_CONTINUE ? s->sp : ~0ull;
	r->mark.count = s->frame_count;
	r->mark.sum = s->stack_sum;
	r->result = end;
	return UNWIND_CALL_WALKER;
}

/* Unwinds as many frames as one call may. The caller repeats it until the result is a reason. After
 * UNWIND_CALL_WALKER it calls the walker of the runtime s->runtime.id in between. */
static __always_inline int unwind_steps(struct unwind_state *s, UNWIND_ENV env,
					struct rule_cache *cache)
{
	unwind_cached(s, env, cache);
	return unwind_step(s, env, cache);
}

#endif

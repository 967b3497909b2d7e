/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker: one step from a frame to its caller. The same source runs in the kernel on live
 * stacks (sample.bpf.c) and in the manager on copied ones (deferred.c). Who includes it defines
 * before
 *
 *	env_slab(env, index)    the bytes of a slab, or NULL
 *	env_module(env, slot)   struct bh_module *, or NULL
 *	env_rule(env, number)   struct bh_rule *, or NULL
 *	env_runtimes(env)       struct bh_runtime_table *, or NULL
 *	env_read(env, destination, bytes, address)
 *	                         0, or not 0 if the memory cannot be read
 *	RULE_CACHE_BITS          how many rules a walk_cache remembers
 *	MAPPING_HINT_BITS           for how many pages a unwind_state remembers where their mapping
 *is
 *
 * Searches are lower bounds without a branch but the end of the loop: with one that depends on what
 * was compared the verifier would follow each of 2^10 ways. `bits_below_or_equal` turns a
 * comparison into a mask, and every offset is masked to the slab, so no bound has to be proved.
 */
#ifndef BPF_UNWIND_STEP_H
#define BPF_UNWIND_STEP_H

#include "bpf/unwind/cfa.h"
#include "bpf/unwind/rule_cache.h"

/* The page at a fixed address that old programs call into; the kernel emulates its three functions,
 * each on a stack that has the return address on top and nothing else
 * (arch/x86/entry/vsyscall/vsyscall_64.c). */
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

/* Note the native frame at s->pc, if it is to be, and go to its caller. UNWIND_CONTINUE, or how the
 * stack ended. */
static __always_inline int unwind_native_frame(struct unwind_state *s, UNWIND_ENV env,
					       struct rule_cache *cache, uint64_t pc, int note)
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
	/* Memory without a file has one rule for all of it. */
	uint64_t key = s->last.module_id ? frame : BH_FRAME_RAW;
	uint64_t place = rule_cache_find(cache, s->rule_position, key);

	if (note)
		push_native(s, s->last.module_id ? frame : bh_frame_raw(pc));
	if (cache->entries[place].frame != key) {
		end = rule_cache_fill(s, env, cache, pc - s->last.bias, key, &place);
		if (end != UNWIND_CONTINUE)
			return end;
	}
	s->rule_position = place;
	const struct bh_rule *rule = &cache->entries[bits_mask(place, RULE_CACHE_ENTRIES - 1)].rule;
	if (rule->kind == BH_RULE_END)
		return BH_REASON_COMPLETE;
	if (rule->kind == BH_RULE_SIGNAL)
		return cfa_apply_signal_frame(s, env);
	return cfa_apply_rule(s, env, rule);
}

/* One frame, of which a runtime's walker may have been asked before. */
static __always_inline int unwind_step(struct unwind_state *s, UNWIND_ENV env,
				       struct rule_cache *cache)
{
	struct unwind_runtime *r = &s->runtime;
	/* A return address may lie after its function's end. */
	const uint64_t pc = s->pc - !s->registers_known, sp = s->sp;

	if (s->frame_count >= BH_USER_FRAMES_MAX)
		return BH_REASON_TOO_DEEP;
	if (r->verdict == WALKER_CALL_AGAIN) {
		r->verdict = WALKER_MOVED;
		return UNWIND_CALL_WALKER;
	}
	r->resume = WALKER_AT_FRAME;
	if (r->range_count && !r->verdict && managed_find_range(s, env, pc) &&
	    (r->id != r->pending_runtime || r->block != r->pending_block || !pending_pop(s)))
		return UNWIND_CALL_WALKER;
	/* Read again, so that the verifier need not follow each of its values. */
	const uint32_t passed = *(volatile const uint32_t *)&r->verdict;

	r->verdict = WALKER_MOVED;
	const int end = unwind_native_frame(s, env, cache, pc,
					    passed == WALKER_MOVED || passed == WALKER_NOT_MINE);
	if (passed != WALKER_RESUME_IN_CALLER)
		return end;
	r->resume = WALKER_IN_CALLER;
	r->frame_start = sp;
	r->frame_end = end == UNWIND_CONTINUE ? s->sp : ~0ull;
	r->mark.count = s->frame_count;
	r->mark.sum = s->stack_sum;
	r->result = end;
	return UNWIND_CALL_WALKER;
}

/* From s->pc on as far as one call goes; again, until the answer is not UNWIND_CONTINUE. With
 * UNWIND_CALL_WALKER a runtime's walker is to be called in between. */
static __always_inline int unwind_steps(struct unwind_state *s, UNWIND_ENV env,
					struct rule_cache *cache)
{
	unwind_cached(s, env, cache);
	return unwind_step(s, env, cache);
}

#endif

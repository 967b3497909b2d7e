/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker: one step from a frame to its caller. The same source runs in the kernel on live
 * stacks (sample.bpf.c) and in the manager on copied ones (deferred.c). Who includes it defines
 * before
 *
 *	walk_slab(env, index)    the bytes of a slab, or NULL
 *	walk_module(env, slot)   struct bh_module *, or NULL
 *	walk_rule(env, number)   struct bh_rule *, or NULL
 *	walk_runtimes(env)       struct bh_runtime_table *, or NULL
 *	walk_read(env, destination, bytes, address)
 *	                         0, or not 0 if the memory cannot be read
 *	WALK_CACHE_BITS          how many rules a walk_cache remembers
 *	WALK_HINT_BITS           for how many pages a walk_state remembers where their mapping is
 *
 * Searches are lower bounds without a branch but the end of the loop: with one that depends on what
 * was compared the verifier would follow each of 2^10 ways. `walk_below_or_equal` turns a
 * comparison into a mask, and every offset is masked to the slab, so no bound has to be proved.
 */
#ifndef BPF_UNWIND_STEP_H
#define BPF_UNWIND_STEP_H

#include "bpf/unwind/cfa.h"
#include "bpf/unwind/rule_cache.h"

/* The page at a fixed address that old programs call into; the kernel emulates its three functions,
 * each on a stack that has the return address on top and nothing else
 * (arch/x86/entry/vsyscall/vsyscall_64.c). */
static __always_inline int walk_vsyscall(struct walk_state *s, WALK_ENV env)
{
	uint64_t ra = 0;
	int end;

	walk_note(s, bh_frame_raw(s->pc));
	end = walk_read_stack(s, env, s->sp, s->sp, &ra);
	if (end != WALK_GO_ON)
		return end;
	s->sp += 8;
	s->pc = ra;
	s->registers_known = 0;
	return WALK_GO_ON;
}

/* Note the native frame at s->pc, if it is to be, and go to its caller. WALK_GO_ON, or how the
 * stack ended. */
static __always_inline int walk_native(struct walk_state *s, WALK_ENV env, struct walk_cache *cache,
				       uint64_t pc, int note)
{
	int end;

	if (pc >> 12 == BH_VSYSCALL_PAGE && s->registers_known)
		return walk_vsyscall(s, env);
	if (!walk_remember_mapping(s, env, pc)) {
		end = walk_find_mapping(s, env, pc);
		if (end != WALK_GO_ON) {
			if (s->frame_count == 0)
				walk_note(s, bh_frame_raw(pc));
			return end;
		}
	}
	uint64_t frame = walk_frame(s, pc);
	/* Memory without a file has one rule for all of it. */
	uint64_t key = s->last.module_id ? frame : BH_FRAME_RAW;
	uint64_t place = walk_place(cache, s->place, key);

	if (note)
		walk_note(s, s->last.module_id ? frame : bh_frame_raw(pc));
	if (cache->entries[place].frame != key) {
		end = walk_look_up(s, env, cache, pc - s->last.bias, key, &place);
		if (end != WALK_GO_ON)
			return end;
	}
	s->place = place;
	const struct bh_rule *rule = &cache->entries[walk_masked(place, WALK_CACHED_MAX - 1)].rule;
	if (rule->kind == BH_RULE_END)
		return BH_REASON_COMPLETE;
	if (rule->kind == BH_RULE_SIGNAL)
		return walk_signal_frame(s, env);
	return walk_apply(s, env, rule);
}

/* One frame, of which a runtime's walker may have been asked before. */
static __always_inline int walk_one(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	struct walk_runtime *r = &s->runtime;
	/* A return address may lie after its function's end. */
	const uint64_t pc = s->pc - !s->registers_known, sp = s->sp;

	if (s->frame_count >= BH_USER_FRAMES_MAX)
		return BH_REASON_TOO_DEEP;
	if (r->passed == WALK_PASSED_AGAIN) {
		r->passed = WALK_PASSED_NOTHING;
		return WALK_RUNTIME;
	}
	r->behind = WALK_NOT_BEHIND;
	if (r->range_count && !r->passed && walk_find_range(s, env, pc) &&
	    (r->runtime != r->ahead_runtime || r->block != r->ahead_block || !walk_take_ahead(s)))
		return WALK_RUNTIME;
	/* Read again, so that the verifier need not follow each of its values. */
	const uint32_t passed = *(volatile const uint32_t *)&r->passed;

	r->passed = WALK_PASSED_NOTHING;
	const int end = walk_native(s, env, cache, pc,
				    passed == WALK_PASSED_NOTHING || passed == WALK_PASSED_UNKNOWN);
	if (passed != WALK_PASSED_LATER)
		return end;
	r->behind = WALK_JUST_BEHIND;
	r->frame_start = sp;
	r->frame_end = end == WALK_GO_ON ? s->sp : ~0ull;
	r->begun.count = s->frame_count;
	r->begun.sum = s->stack_sum;
	r->result = end;
	return WALK_RUNTIME;
}

/* From s->pc on as far as one call goes; again, until the answer is not WALK_GO_ON. With
 * WALK_RUNTIME a runtime's walker is to be called in between. */
static __always_inline int walk_on(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	walk_plain(s, env, cache);
	return walk_one(s, env, cache);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The cache of unwind rules, and the fast path over frames whose rules are in it.
 *
 * How this works. A stack has dozens of native frames, and most of them were seen in an earlier
 * stack. Searching the tables for each of them (tables.h) reads some ten places in memory, most of
 * which are not in the processor's caches. Therefore the rule of each place in the code is kept in
 * a ring cache (ring_cache.h), with the native frame (module id and offset) as its key. An id is
 * never used for a second module, and the table of a module does not change once it is published.
 * So an entry never becomes wrong.
 *
 * unwind_cached() unwinds up to UNWIND_CACHED_FRAMES frames in a row without a call and without a
 * branch that depends on the kind of rule. It handles the common case: the mapping and the rule are
 * cached, the rule is simple, and the words of the stack are in the window. At the first frame for
 * which that is not so it stops, and unwind_step() (step.h) handles that frame.
 *
 * Example: at pc = 0x401c30, rsp = 0x7ffd0f00 the rule is CFA = rsp + 0x20, with rbp saved at
 * CFA - 16. The CFA is 0x7ffd0f20. With the window from 0x7ffd0c00 the CFA is at word 0x64 of the
 * window. The return address is word 0x63, the caller's rbp word 0x62. The frame is pushed, rsp
 * becomes 0x7ffd0f20, pc the return address, and the loop goes on with the caller.
 */
#ifndef BPF_UNWIND_RULE_CACHE_H
#define BPF_UNWIND_RULE_CACHE_H

#include "bpf/unwind/managed.h"
#include "bpf/unwind/push.h"
#include "bpf/unwind/ring_cache.h"
#include "bpf/unwind/tables.h"

enum {
	RULE_CACHE_ENTRIES = 1 << RULE_CACHE_BITS,
	/* Frames in one call of unwind_cached(). A limit must be there for the verifier. */
	UNWIND_CACHED_FRAMES = 16,
};

struct rule_cache_entry {
	uint64_t key; /* the native frame; BH_FRAME_RAW for all memory without a file */
	struct bh_rule rule;
};

RING_CACHE_DEFINE(rule_cache, RULE_CACHE_BITS)

/* Returns whether the rule is simple: the CFA is computed from rsp or rbp, and rbp and rbx are
 * unchanged or saved at an offset from the CFA. */
static __always_inline int rule_cache_is_simple(const struct bh_rule *rule)
{
	_Static_assert(BH_RULE_SP == 2 && BH_RULE_FP == 3 && BH_FP_SAME == 0 && BH_FP_CFA == 1,
		       "the lowest bit distinguishes them");
	return (((rule->kind ^ BH_RULE_SP) | rule->fp_kind | rule->bx_kind) & ~1u) == 0;
}

/*
 * Unwinds native frames as long as the common case lasts (see above). The kind of a rule selects
 * values by masks and not by branches: a processor that comes here 20 times per second predicts
 * these branches wrongly. A native frame that managed frames replace is unwound, but not pushed.
 */
static __always_inline void unwind_cached(struct unwind_state *s, UNWIND_ENV env,
					  struct rule_cache *cache)
{
	const uint64_t last = STACK_WINDOW_WORDS - 1;
	uint64_t pc = s->pc - 1, sp = s->sp, fp = s->fp, bx = s->gpr[BH_REG_RBX];
	uint64_t position = s->rule_position;
	uint32_t bx_known = s->bx_known;
	struct unwind_runtime *r = &s->runtime;

	if (s->registers_known || (r->verdict && r->verdict != WALKER_REPLACED))
		return;
	UNWIND_NO_UNROLL
	for (int i = 0; i < UNWIND_CACHED_FRAMES; i++) {
		if (managed_in_code_filter(s, pc) && !r->verdict &&
		    (pc - r->pending.start >= r->pending.end - r->pending.start || !pending_pop(s)))
			break;
		if (!tables_recall_mapping(s, env, pc) || !s->last.module_id)
			break;
		const uint64_t frame = tables_native_frame(s, pc);
		const uint64_t found = rule_cache_position(cache, position, frame, 0);
		const struct rule_cache_entry *entry = &cache->entries[found];
		const struct bh_rule *rule = &entry->rule;

		if (entry->key != frame || !rule_cache_is_simple(rule) ||
		    !push_has_room(s->frame_count))
			break;
		const uint64_t cfa = bits_choose(rule->kind, sp, fp) + (int64_t)rule->cfa;
		const uint64_t above = cfa - s->window_start;
		const uint64_t word = above >> 3;
		const uint64_t fp_word = word + (int64_t)rule->fp;
		const uint64_t bx_word = word + (int64_t)rule->bx;

		if (cfa <= sp || (above & 7) ||
		    ((word - 1) | fp_word | bx_word) >= STACK_WINDOW_WORDS)
			break;
		const uint64_t ra = s->window[bits_mask(word - 1, last)];
		if (!ra)
			break;
		if (!r->verdict)
			push_native(s, frame);
		r->verdict = WALKER_MOVED;
		fp = bits_choose(rule->fp_kind, fp, s->window[bits_mask(fp_word, last)]);
		bx = bits_choose(rule->bx_kind, bx, s->window[bits_mask(bx_word, last)]);
		bx_known |= rule->bx_kind;
		sp = cfa;
		pc = ra - 1;
		position = found;
	}
	s->pc = pc + 1;
	s->sp = sp;
	s->fp = fp;
	s->gpr[BH_REG_RBX] = bx;
	s->bx_known = bx_known;
	s->rule_position = position;
}

/* Searches the rule for `offset` in the module of s->last, adds it to the cache under `key`, and
 * sets *position to its position. Returns UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int rule_cache_fill(struct unwind_state *s, UNWIND_ENV env,
					   struct rule_cache *cache, uint64_t offset, uint64_t key,
					   uint64_t *position)
{
	const struct bh_module *module = env_module(env, s->last.slot);
	uint32_t id = BH_RULE_ID_FRAME_POINTER;

	if (!module)
		return BH_REASON_BAD_TABLE;
	if (module->id != s->last.module_id)
		return BH_REASON_CHANGED;
	if (module->state == BH_MODULE_PENDING)
		return BH_REASON_NO_TABLE;
	if (module->state == BH_MODULE_READY) {
		int end = tables_find_rule(module, env, offset, &id);

		if (end != UNWIND_CONTINUE)
			return end;
	} else if (s->last.module_id) {
		/* The module may get a table later, so the rule must not be found again. */
		key = 0;
		id = module->state == BH_MODULE_REFUSED	 ? BH_RULE_ID_REFUSED
		     : module->state == BH_MODULE_COMPAT ? BH_RULE_ID_COMPAT
							 : BH_RULE_ID_FRAME_POINTER;
	}
	const struct bh_rule *rule = env_rule(env, id);
	if (!rule)
		return BH_REASON_BAD_TABLE;
	*position = rule_cache_add(cache, key);
	cache->entries[*position].rule = *rule;
	return UNWIND_CONTINUE;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* The cache of rules, and the fast path over frames whose rules are in it. */
#ifndef BPF_UNWIND_RULE_CACHE_H
#define BPF_UNWIND_RULE_CACHE_H

#include "bpf/unwind/managed.h"
#include "bpf/unwind/push.h"
#include "bpf/unwind/tables.h"

/*
 * Rules of places in the code, as they were found. A module's number is never used twice, and its
 * table does not change once it is there, so that an entry never becomes wrong. They are kept in
 * the order in which stacks were first walked: the rule of a frame's caller mostly lies behind the
 * frame's, so that it is looked for there first and a cold cache is read in a row, not at random.
 * The oldest entry goes first.
 */

enum {
	RULE_CACHE_ENTRIES = 1 << RULE_CACHE_BITS,
};

struct rule_cache_entry {
	uint64_t frame; /* as in the record, of what has no file BH_FRAME_RAW; 0: empty */
	struct bh_rule rule;
};

struct rule_cache {
	uint32_t added; /* in all; the next goes to this place */
	/* Places of entries, by a hash of the frame: of those that share a pair, the last two. Of
	 * two frames that a recursion repeats neither pushes the other out. */
	uint16_t index[RULE_CACHE_ENTRIES][2];
	struct rule_cache_entry entries[RULE_CACHE_ENTRIES];
};

static __always_inline uint64_t tables_native_frame(const struct unwind_state *s, uint64_t pc)
{
	return (uint64_t)s->last.module_id << BH_FRAME_OFFSET_BITS |
	       ((pc - s->last.bias) & BH_FRAME_OFFSET_MASK);
}

static __always_inline uint16_t *rule_cache_index(struct rule_cache *cache, uint64_t frame)
{
	return cache->index[(frame * HASH_MULTIPLIER) >> (64 - RULE_CACHE_BITS)];
}

/* The last two places of an index's word, the newer first. */
static __always_inline void ring_index_insert(uint16_t pair[2], uint64_t place)
{
	pair[1] = pair[0];
	pair[0] = (uint16_t)place;
}

/* Where the frame's rule is, if it is anywhere: behind that of the frame before, or where the index
 * says. */
static __always_inline uint64_t rule_cache_find(struct rule_cache *cache, uint64_t before,
						uint64_t frame)
{
	const uint64_t behind = bits_mask(before + 1, RULE_CACHE_ENTRIES - 1);

	if (cache->entries[behind].frame == frame)
		return behind;
	const uint16_t *index = rule_cache_index(cache, frame);
	const uint64_t place = bits_mask(index[0], RULE_CACHE_ENTRIES - 1);

	if (cache->entries[place].frame == frame)
		return place;
	return bits_mask(index[1], RULE_CACHE_ENTRIES - 1);
}

/* CFA from rsp or rbp, return address below it, rbp and rbx unchanged or saved there. */
static __always_inline int rule_cache_is_simple(const struct bh_rule *rule)
{
	_Static_assert(BH_RULE_SP == 2 && BH_RULE_FP == 3 && BH_FP_SAME == 0 && BH_FP_CFA == 1,
		       "told apart by the lowest bit");
	return (((rule->kind ^ BH_RULE_SP) | rule->fp_kind | rule->bx_kind) & ~1u) == 0;
}

/*
 * The common case, as long as it lasts, and at most UNWIND_CACHED_FRAMES: a caller whose mapping
 * and rule are remembered, the rule is a plain one, and the stack is in the window. What a rule
 * says is data here, not a branch that a processor that comes here 20 times a second would guess
 * wrong. Everything else, unwind_step does. A frame that managed ones stand for is not noted.
 */
static __always_inline void unwind_cached(struct unwind_state *s, UNWIND_ENV env,
					  struct rule_cache *cache)
{
	const uint64_t last = STACK_WINDOW_WORDS - 1;
	uint64_t pc = s->pc - 1, sp = s->sp, fp = s->fp, bx = s->gpr[BH_REG_RBX];
	uint64_t place = s->rule_position;
	uint32_t bx_known = s->bx_known;
	struct unwind_runtime *r = &s->runtime;

	if (s->registers_known || (r->verdict && r->verdict != WALKER_REPLACED))
		return;
	UNWIND_NO_UNROLL
	for (int i = 0; i < UNWIND_CACHED_FRAMES; i++) {
		if (managed_in_code_filter(s, pc) && !r->verdict &&
		    (pc - r->pending_start >= r->pending_end - r->pending_start || !pending_pop(s)))
			break;
		if (!tables_recall_mapping(s, env, pc) || !s->last.module_id)
			break;
		const uint64_t frame = tables_native_frame(s, pc);
		const uint64_t found = rule_cache_find(cache, place, frame);
		const struct rule_cache_entry *entry = &cache->entries[found];
		const struct bh_rule *rule = &entry->rule;

		if (entry->frame != frame || !rule_cache_is_simple(rule) ||
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
		place = found;
	}
	s->pc = pc + 1;
	s->sp = sp;
	s->fp = fp;
	s->gpr[BH_REG_RBX] = bx;
	s->bx_known = bx_known;
	s->rule_position = place;
}

/* The frame's rule out of its module's table into the cache, at *place. */
static __always_inline int rule_cache_fill(struct unwind_state *s, UNWIND_ENV env,
					   struct rule_cache *cache, uint64_t offset, uint64_t key,
					   uint64_t *place)
{
	const struct bh_module *module = env_module(env, s->last.slot);
	uint32_t number = 0;

	if (!module)
		return BH_REASON_BAD_TABLE;
	if (module->id != s->last.module_id)
		return BH_REASON_CHANGED;
	if (module->state == BH_MODULE_PENDING)
		return BH_REASON_NO_TABLE;
	if (module->state == BH_MODULE_READY) {
		int end = tables_find_rule(module, env, offset, &number);

		if (end != UNWIND_CONTINUE)
			return end;
	} else if (s->last.module_id) {
		key = 0; /* it may have a table one day: not to be found again */
	}
	const struct bh_rule *rule = env_rule(env, number);
	if (!rule)
		return BH_REASON_BAD_TABLE;
	*place = bits_mask(cache->added++, RULE_CACHE_ENTRIES - 1);
	cache->entries[*place].rule = *rule;
	cache->entries[*place].frame = key;
	ring_index_insert(rule_cache_index(cache, key), *place);
	return UNWIND_CONTINUE;
}

#endif

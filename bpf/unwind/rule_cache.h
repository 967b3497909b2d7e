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
	WALK_CACHED_MAX = 1 << WALK_CACHE_BITS,
};

struct walk_cached {
	uint64_t frame; /* as in the record, of what has no file BH_FRAME_RAW; 0: empty */
	struct bh_rule rule;
};

struct walk_cache {
	uint32_t added; /* in all; the next goes to this place */
	/* Places of entries, by a hash of the frame: of those that share a pair, the last two. Of
	 * two frames that a recursion repeats neither pushes the other out. */
	uint16_t index[WALK_CACHED_MAX][2];
	struct walk_cached entries[WALK_CACHED_MAX];
};

static __always_inline uint64_t walk_frame(const struct walk_state *s, uint64_t pc)
{
	return (uint64_t)s->last.module_id << BH_FRAME_OFFSET_BITS |
	       ((pc - s->last.bias) & BH_FRAME_OFFSET_MASK);
}

static __always_inline uint16_t *walk_index(struct walk_cache *cache, uint64_t frame)
{
	return cache->index[(frame * WALK_SPREAD) >> (64 - WALK_CACHE_BITS)];
}

/* The last two places of an index's word, the newer first. */
static __always_inline void walk_index_add(uint16_t pair[2], uint64_t place)
{
	pair[1] = pair[0];
	pair[0] = (uint16_t)place;
}

/* Where the frame's rule is, if it is anywhere: behind that of the frame before, or where the index
 * says. */
static __always_inline uint64_t walk_place(struct walk_cache *cache, uint64_t before,
					   uint64_t frame)
{
	const uint64_t behind = walk_masked(before + 1, WALK_CACHED_MAX - 1);

	if (cache->entries[behind].frame == frame)
		return behind;
	const uint16_t *index = walk_index(cache, frame);
	const uint64_t place = walk_masked(index[0], WALK_CACHED_MAX - 1);

	if (cache->entries[place].frame == frame)
		return place;
	return walk_masked(index[1], WALK_CACHED_MAX - 1);
}

/* CFA from rsp or rbp, return address below it, rbp and rbx unchanged or saved there. */
static __always_inline int walk_rule_is_plain(const struct bh_rule *rule)
{
	_Static_assert(BH_RULE_SP == 2 && BH_RULE_FP == 3 && BH_FP_SAME == 0 && BH_FP_CFA == 1,
		       "told apart by the lowest bit");
	return (((rule->kind ^ BH_RULE_SP) | rule->fp_kind | rule->bx_kind) & ~1u) == 0;
}

/*
 * The common case, as long as it lasts, and at most WALK_PLAIN_FRAMES: a caller whose mapping and
 * rule are remembered, the rule is a plain one, and the stack is in the window. What a
 * rule says is data here, not a branch that a processor that comes here 20 times a second would
 * guess wrong. Everything else, walk_one does. A frame that managed ones stand for is not noted.
 */
static __always_inline void walk_plain(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	const uint64_t last = WALK_WINDOW_WORDS - 1;
	uint64_t pc = s->pc - 1, sp = s->sp, fp = s->fp, bx = s->gpr[BH_REG_RBX];
	uint64_t place = s->place;
	uint32_t bx_known = s->bx_known;
	struct walk_runtime *r = &s->runtime;

	if (s->registers_known || (r->passed && r->passed != WALK_PASSED_NOTED))
		return;
	WALK_NO_UNROLL
	for (int i = 0; i < WALK_PLAIN_FRAMES; i++) {
		if (walk_in_text(s, pc) && !r->passed &&
		    (pc - r->ahead_start >= r->ahead_end - r->ahead_start || !walk_take_ahead(s)))
			break;
		if (!walk_remember_mapping(s, env, pc) || !s->last.module_id)
			break;
		const uint64_t frame = walk_frame(s, pc);
		const uint64_t found = walk_place(cache, place, frame);
		const struct walk_cached *entry = &cache->entries[found];
		const struct bh_rule *rule = &entry->rule;

		if (entry->frame != frame || !walk_rule_is_plain(rule) ||
		    !walk_has_room(s->frame_count))
			break;
		const uint64_t cfa = walk_choose(rule->kind, sp, fp) + (int64_t)rule->cfa;
		const uint64_t above = cfa - s->window_start;
		const uint64_t word = above >> 3;
		const uint64_t fp_word = word + (int64_t)rule->fp;
		const uint64_t bx_word = word + (int64_t)rule->bx;

		if (cfa <= sp || (above & 7) ||
		    ((word - 1) | fp_word | bx_word) >= WALK_WINDOW_WORDS)
			break;
		const uint64_t ra = s->window[walk_masked(word - 1, last)];
		if (!ra)
			break;
		if (!r->passed)
			walk_note(s, frame);
		r->passed = WALK_PASSED_NOTHING;
		fp = walk_choose(rule->fp_kind, fp, s->window[walk_masked(fp_word, last)]);
		bx = walk_choose(rule->bx_kind, bx, s->window[walk_masked(bx_word, last)]);
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
	s->place = place;
}

/* The frame's rule out of its module's table into the cache, at *place. */
static __always_inline int walk_look_up(struct walk_state *s, WALK_ENV env,
					struct walk_cache *cache, uint64_t offset, uint64_t key,
					uint64_t *place)
{
	const struct bh_module *module = walk_module(env, s->last.slot);
	uint32_t number = 0;

	if (!module)
		return BH_REASON_BAD_TABLE;
	if (module->id != s->last.module_id)
		return BH_REASON_CHANGED;
	if (module->state == BH_MODULE_PENDING)
		return BH_REASON_NO_TABLE;
	if (module->state == BH_MODULE_READY) {
		int end = walk_find_rule(module, env, offset, &number);

		if (end != WALK_GO_ON)
			return end;
	} else if (s->last.module_id) {
		key = 0; /* it may have a table one day: not to be found again */
	}
	const struct bh_rule *rule = walk_rule(env, number);
	if (!rule)
		return BH_REASON_BAD_TABLE;
	*place = walk_masked(cache->added++, WALK_CACHED_MAX - 1);
	cache->entries[*place].rule = *rule;
	cache->entries[*place].frame = key;
	walk_index_add(walk_index(cache, key), *place);
	return WALK_GO_ON;
}

#endif

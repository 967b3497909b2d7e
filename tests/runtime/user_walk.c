/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/user_walk_env.h"

#include <stdlib.h>
#include <string.h>

struct scratch {
	struct walk_state state;
	struct walk_cache cache;
};

static int walk_managed(struct walk_state *s, const struct user_walk *walk)
{
	const uint32_t at = s->runtime.block & ((1 << BH_RUNTIME_BLOCKS_BITS) - 1);
	const struct bh_runtime_block *block = &walk->runtimes->blocks[at];

	switch (s->runtime.runtime) {
#define RUNTIME(id, name, frame_type, title)                                      \
	case BH_RUNTIME_##id:                                                                      \
		return user_walk_##name(s, walk, block);
#include "common/runtimes.def"
#undef RUNTIME
	default:
		return BH_REASON_BAD_TABLE;
	}
}

/* As walk_user() and walk_turn() of bpf/sample.bpf.c. */
static unsigned int walk_stack(const struct user_walk *walk, struct scratch *scratch,
			       unsigned int *steps)
{
	struct walk_state *s = &scratch->state;
	int end = WALK_GO_ON;

	walk_start(s);
	walk_find_slot(s, walk, walk->tgid);
	for (*steps = 0; *steps < USER_WALK_STEPS_MAX && end == WALK_GO_ON; ++*steps) {
		end = walk_on(s, walk, &scratch->cache);
		if (end == WALK_RUNTIME)
			end = walk_managed(s, walk);
	}
	if (walk_slot_changed(s, walk))
		end = BH_REASON_CHANGED;
	return end == WALK_GO_ON ? BH_REASON_TOO_DEEP : (unsigned int)end;
}

void user_walk_run(const struct user_walk *walk, const struct bh_registers *registers,
		   struct user_walk_result *result)
{
	struct scratch *scratch = calloc(1, sizeof(*scratch));

	if (!scratch)
		abort();
	struct walk_state *s = &scratch->state;
	memcpy(s->gpr, registers->gpr, sizeof(s->gpr));
	s->pc = registers->rip;
	s->sp = registers->gpr[BH_REG_RSP];
	s->fp = registers->gpr[BH_REG_RBP];
	s->mapping_slab = walk->mapping_slab;
	s->mapping_offset = walk->mapping_offset;
	s->mapping_count = walk->mapping_count;
	result->reason = walk_stack(walk, scratch, &result->steps);
	result->count = s->frame_count;
	memcpy(result->frames, s->frames, sizeof(result->frames));
	result->rule_count = 0;
	for (unsigned int i = 0; i < WALK_CACHED_MAX && i < scratch->cache.added; i++) {
		const struct walk_cached *entry = &scratch->cache.entries[i];

		if (!entry->frame || entry->frame & BH_FRAME_RAW)
			continue;
		result->rules[result->rule_count++] =
		    (struct user_walk_rule){.frame = entry->frame, .rule = entry->rule};
	}
	free(scratch);
}

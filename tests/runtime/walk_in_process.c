/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/walk_in_process_private.h"

#include <stdlib.h>
#include <string.h>

struct scratch {
	struct unwind_state state;
	struct rule_cache cache;
};

static int call_walker(struct unwind_state *s, const struct walk_in_process *walk)
{
	const uint32_t at = s->runtime.block & ((1 << BH_RUNTIME_BLOCKS_BITS) - 1);
	const struct bh_runtime_block *block = &walk->runtimes->blocks[at];

	switch (s->runtime.id) {
#define RUNTIME(id, name, frame_type, title)                                                       \
	case BH_RUNTIME_##id:                                                                      \
		return walk_in_process_##name(s, walk, block);
#include "common/runtimes.def"
#undef RUNTIME
	default:
		return BH_REASON_BAD_TABLE;
	}
}

/* Does what unwind_user_stack() and unwind_batch() of bpf/sample.bpf.c do. Returns the reason. */
static unsigned int unwind_stack(const struct walk_in_process *walk, struct scratch *scratch,
				 unsigned int *steps)
{
	struct unwind_state *s = &scratch->state;
	int end = UNWIND_CONTINUE;

	unwind_start(s);
	managed_find_slot(s, walk, walk->tgid);
	for (*steps = 0; *steps < WALK_IN_PROCESS_STEPS_MAX && end == UNWIND_CONTINUE; ++*steps) {
		end = unwind_steps(s, walk, &scratch->cache);
		if (end == UNWIND_CALL_WALKER)
			end = call_walker(s, walk);
	}
	if (managed_slot_changed(s, walk))
		end = BH_REASON_CHANGED;
	return end == UNWIND_CONTINUE ? BH_REASON_TOO_DEEP : (unsigned int)end;
}

void walk_in_process_run(const struct walk_in_process *walk, const struct bh_registers *registers,
			 struct walk_in_process_result *result)
{
	struct scratch *scratch = calloc(1, sizeof(*scratch));

	if (!scratch)
		abort();
	struct unwind_state *s = &scratch->state;
	memcpy(s->gpr, registers->gpr, sizeof(s->gpr));
	s->pc = registers->rip;
	s->sp = registers->gpr[BH_REG_RSP];
	s->fp = registers->gpr[BH_REG_RBP];
	s->mapping_slab = walk->mapping_slab;
	s->mapping_offset = walk->mapping_offset;
	s->mapping_count = walk->mapping_count;
	result->reason = unwind_stack(walk, scratch, &result->steps);
	result->count = s->frame_count;
	memcpy(result->frames, s->frames, sizeof(result->frames));
	result->rule_count = 0;
	for (unsigned int i = 0; i < RULE_CACHE_ENTRIES && i < scratch->cache.added; i++) {
		const struct rule_cache_entry *entry = &scratch->cache.entries[i];

		if (!entry->key || entry->key & BH_FRAME_RAW)
			continue;
		result->rules[result->rule_count++] =
		    (struct walk_in_process_rule){.frame = entry->key, .rule = entry->rule};
	}
	free(scratch);
}

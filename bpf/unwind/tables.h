/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Searches in the tables that the manager writes.
 *
 * How this works. An address is looked up in two steps:
 *
 * 1. The process has a list of executable mappings, sorted by address, in a slab. A binary search
 *    finds the mapping of the address (tables_find_mapping). The mapping names the module, and
 * gives the offset in the module's file: address - bias.
 * 2. The module has an index with one entry for each KiB of its file. The entry says where the
 *    deltas of that page are. A binary search among them finds the last delta that starts at or
 *    before the offset (tables_find_rule). Its rule id selects the unwind rule.
 *
 * Example: the mapping 0x7f0000401000 - 0x7f0000500000 of libexample.so has the bias
 * 0x7f0000400000. The address 0x7f0000401c30 has the offset 0x1c30: page 7, 0x030 within the page.
 * If page 7 has the deltas (0x000, rule 4), (0x021, rule 9), (0x0a8, rule 4), then rule 9 applies,
 * because 0x021 <= 0x030 < 0x0a8.
 *
 * The manager may change a table while it is read. Therefore each offset is limited to its slab,
 * and a wrong result is harmless: the caller compares sequence numbers at the end.
 */
#ifndef BPF_UNWIND_TABLES_H
#define BPF_UNWIND_TABLES_H

#include "bpf/unwind/state.h"

/* Returns the mapping with this index in the list of the process. */
static __always_inline const struct bh_mapping *
tables_mapping_at(const struct unwind_state *s, const uint8_t *slab, uint64_t index)
{
	return (const void *)(slab + bits_slab_offset(s->mapping_offset +
							  index * sizeof(struct bh_mapping),
						      sizeof(struct bh_mapping)));
}

/* Returns the hint for the page of `pc`. See the field `hints`. */
static __always_inline uint16_t *tables_mapping_hint(struct unwind_state *s, uint64_t pc)
{
	const uint64_t hash = (pc >> 12) * HASH_MULTIPLIER;

	return &s->hints[bits_mask(hash >> 32, (1 << MAPPING_HINT_BITS) - 1)];
}

/* Sets s->last to the mapping of `pc` and returns 1 if that needs no search: it is the mapping of
 * the previous frame, or the hint leads to it. Otherwise returns 0. */
static __always_inline int tables_recall_mapping(struct unwind_state *s, UNWIND_ENV env,
						 uint64_t pc)
{
	if (pc - s->last.start < s->last.end - s->last.start)
		return 1;
	const uint8_t *slab = env_slab(env, s->mapping_slab);
	const uint64_t hint = *tables_mapping_hint(s, pc);
	if (!slab || hint >= s->mapping_count)
		return 0;
	const struct bh_mapping *mapping = tables_mapping_at(s, slab, hint);
	if (pc - mapping->start >= mapping->end - mapping->start)
		return 0;
	s->last = *mapping;
	return 1;
}

/* Sets s->last to the mapping of `pc` by a search. Returns UNWIND_CONTINUE, or the reason that ends
 * the stack. */
static __always_inline int tables_find_mapping(struct unwind_state *s, UNWIND_ENV env, uint64_t pc)
{
	const uint8_t *slab = env_slab(env, s->mapping_slab);
	if (!slab)
		return BH_REASON_BAD_TABLE;
	uint64_t count = s->mapping_count & ((1 << BH_PROCESS_MAPPINGS_BITS) - 1);
	uint64_t base = 0;

	for (int i = 0; i < BH_PROCESS_MAPPINGS_BITS && count > 1; i++) {
		uint64_t half = count >> 1;

		base +=
		    half & bits_below_or_equal(tables_mapping_at(s, slab, base + half)->start, pc);
		count -= half;
	}
	s->last = *tables_mapping_at(s, slab, base);
	if (pc < s->last.start || pc >= s->last.end)
		return BH_REASON_NO_MAPPING;
	*tables_mapping_hint(s, pc) = (uint16_t)base;
	return UNWIND_CONTINUE;
}

/* Sets *rule to the id of the rule for `offset` in the file of a module that is ready. That is
 * 0 (use the frame pointer) for an offset outside the module's pages. */
static __always_inline int tables_find_rule(const struct bh_module *module, UNWIND_ENV env,
					    uint64_t offset, uint32_t *rule)
{
	uint64_t page = (offset >> BH_PAGE_BITS) - module->first_page;

	*rule = 0;
	if (page >= module->page_count)
		return UNWIND_CONTINUE;
	const uint8_t *slab = env_slab(env, module->page_slab);
	if (!slab)
		return BH_REASON_BAD_TABLE;
	const struct bh_page *entry =
	    (const void *)(slab + bits_slab_offset(module->page_offset + page * sizeof(*entry),
						   sizeof(*entry)));
	uint64_t count = entry->count, first = entry->offset;
	if (entry->slab != module->page_slab) {
		slab = env_slab(env, entry->slab);
		if (!slab)
			return BH_REASON_BAD_TABLE;
	}
	uint64_t key = offset & ((1 << BH_PAGE_BITS) - 1), base = 0;

	for (int i = 0; i < BH_PAGE_DELTAS_BITS && count > 1; i++) {
		uint64_t half = count >> 1;
		uint64_t at = bits_slab_offset(first + (base + half) * sizeof(struct bh_delta),
					       sizeof(struct bh_delta));

		base += half & bits_below_or_equal(*(const uint16_t *)(slab + at), key);
		count -= half;
	}
	uint64_t at =
	    bits_slab_offset(first + base * sizeof(struct bh_delta), sizeof(struct bh_delta));
	*rule = ((const struct bh_delta *)(slab + at))->rule;
	return UNWIND_CONTINUE;
}

/* Returns the native frame word for `pc`, which is in the mapping s->last. */
static __always_inline uint64_t tables_native_frame(const struct unwind_state *s, uint64_t pc)
{
	return (uint64_t)s->last.module_id << BH_FRAME_OFFSET_BITS |
	       ((pc - s->last.bias) & BH_FRAME_OFFSET_MASK);
}

#endif

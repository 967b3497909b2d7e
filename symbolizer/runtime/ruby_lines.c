/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the line of an instruction of Ruby code.
 *
 * How this works (iseq.c, struct succ_index_table): a table has the lines of those instructions at
 * which the line or the events change. An index says how many of these there are up to a position,
 * which is the number of the entry. It has the answers for the positions 0 to 53 themselves, 7 bits
 * each, nine in a word. The others are in blocks of 512 positions: the answer for what is before
 * the block, then 9 bits for what is before each of its groups of 64, except for the first one, and
 * a bitmap of the positions.
 *
 * Example: entries are for the positions 0, 3 and 60. Position 4 is in the first word, and the
 * answer is 2, so its line is that of the second entry. Position 70 is in the first block: 2 are
 * before it, and one of the bits up to 70 - 54 is set. So it has the line of the third entry.
 */
#include "symbolizer/runtime/ruby_lines.h"

enum {
	SMALL_POSITIONS = 54, /* IMMEDIATE_TABLE_SIZE */
	SMALL_IN_WORD = 9,
	SMALL_BITS = 7,
	BLOCK_POSITIONS = 512,
	GROUP_POSITIONS = 64,
	GROUP_BITS = 9,
	/* The words of a block. */
	BLOCK_RANK = 0,
	BLOCK_GROUPS = 1,
	BLOCK_BITMAP = 2,
	/* struct iseq_insn_info, in words. */
	INFO_ENTRIES = 0,
	INFO_COUNT = 2, /* 4 bytes */
	INFO_INDEX = 3,
};

uint32_t ruby_lines_small_rank(uint64_t word, uint32_t position)
{
	return word >> (position % SMALL_IN_WORD * SMALL_BITS) & ((1u << SMALL_BITS) - 1);
}

uint32_t ruby_lines_block_rank(const uint64_t block[RUBY_RANKS_WORDS], uint32_t position)
{
	const uint32_t in_block = (position - SMALL_POSITIONS) % BLOCK_POSITIONS;
	const uint32_t group = in_block / GROUP_POSITIONS, bit = in_block % GROUP_POSITIONS;
	const uint64_t up_to = block[BLOCK_BITMAP + group] << (GROUP_POSITIONS - 1 - bit);
	const uint64_t groups = group ? block[BLOCK_GROUPS] >> ((group - 1) * GROUP_BITS) : 0;
	const uint32_t before = (uint32_t)groups & ((1u << GROUP_BITS) - 1);

	return (uint32_t)block[BLOCK_RANK] + before + (uint32_t)__builtin_popcountll(up_to);
}

/* Reads how many entries there are up to `position`. */
static int read_rank(struct memory *memory, uint64_t index, uint32_t position, uint32_t *rank)
{
	uint64_t block[RUBY_RANKS_WORDS];
	int r;

	if (position < SMALL_POSITIONS) {
		r = memory_read(memory, index + position / SMALL_IN_WORD * 8, block, 8);
		if (!r)
			*rank = ruby_lines_small_rank(block[0], position);
		return r;
	}
	const uint64_t number = (position - SMALL_POSITIONS) / BLOCK_POSITIONS;
	r = memory_read(memory,
			index + SMALL_POSITIONS / SMALL_IN_WORD * 8 + number * sizeof(block), block,
			sizeof(block));
	if (!r)
		*rank = ruby_lines_block_rank(block, position);
	return r;
}

int ruby_lines_find(struct memory *memory, const uint64_t info[RUBY_LINES_WORDS],
		    uint32_t entry_bytes, uint32_t position, uint32_t *line)
{
	const uint32_t count = (uint32_t)info[INFO_COUNT];
	uint32_t rank = 1;

	*line = 0;
	if (!count)
		return 0;
	int r = count > 1 ? read_rank(memory, info[INFO_INDEX], position, &rank) : 0;
	if (r || !rank || rank > count)
		return r;
	/* struct iseq_insn_info_entry starts with the line. */
	return memory_read_u32(memory, info[INFO_ENTRIES] + (uint64_t)(rank - 1) * entry_bytes,
			       line);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the line of an instruction of Ruby code. */
#ifndef SYMBOLIZER_RUNTIME_RUBY_LINES_H
#define SYMBOLIZER_RUNTIME_RUBY_LINES_H

#include <stdint.h>

#include "symbolizer/runtime/memory.h"

enum {
	RUBY_LINES_WORDS = 4,  /* of struct iseq_insn_info */
	RUBY_RANKS_WORDS = 10, /* of struct succ_dict_block */
};

/* Reads the line of the instruction at `position`. `info` is a struct iseq_insn_info, whose entries
 * have `entry_bytes`. Sets *line to 0 if the table has none. Returns 0, or an error of
 * memory_read(). */
int ruby_lines_find(struct memory *memory, const uint64_t info[RUBY_LINES_WORDS],
		    uint32_t entry_bytes, uint32_t position, uint32_t *line);

/* For tests: returns how many entries of the table there are up to `position`, according to the
 * part of the index of positions that has it: a word for nine small ones, or a block for 512
 * others. */
uint32_t ruby_lines_small_rank(uint64_t word, uint32_t position);
uint32_t ruby_lines_block_rank(const uint64_t block[RUBY_RANKS_WORDS], uint32_t position);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The index of Ruby's tables of lines, laid out by hand as in iseq.c (struct succ_index_table). */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "symbolizer/runtime/ruby_lines.h"

enum {
	SMALL = 54,
	SMALL_WORDS = 6,
	POSITIONS = 1200,
	BLOCKS = 3,
	ENTRIES = 64,
};

static struct {
	uint64_t small[SMALL_WORDS];
	uint64_t blocks[BLOCKS][RUBY_RANKS_WORDS];
} ranks;

static struct {
	uint32_t line, node, events;
} entries[ENTRIES];

static uint64_t at(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

/* Whether the line changes at a position, in this test. */
static bool is_entry(uint32_t position)
{
	return position % 37 == 0 || position == 53 || position == 54 || position == 565;
}

/* Writes the index as iseq.c describes it. Returns the number of entries. */
static uint32_t setup(void)
{
	uint32_t count = 0, in_group = 0;

	memset(&ranks, 0, sizeof(ranks));
	for (uint32_t i = 0; i < POSITIONS; i++) {
		const uint32_t in_block = (i - SMALL) % 512;
		uint64_t *block = ranks.blocks[i < SMALL ? 0 : (i - SMALL) / 512];

		if (i >= SMALL && in_block == 0) {
			block[0] = count;
			in_group = 0;
		}
		if (i >= SMALL && in_block && in_block % 64 == 0)
			block[1] |= (uint64_t)in_group << (in_block / 64 - 1) * 9;
		if (is_entry(i)) {
			entries[count].line = 1000 + i;
			count++;
			in_group++;
			if (i >= SMALL)
				block[2 + in_block / 64] |= 1ull << in_block % 64;
		}
		if (i < SMALL)
			ranks.small[i / 9] |= (uint64_t)count << i % 9 * 7;
	}
	return count;
}

Test(ruby_lines, every_position_has_the_line_of_the_last_change_up_to_it)
{
	struct memory memory = {.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	const uint64_t info[RUBY_LINES_WORDS] = {at(entries), 0, setup(), at(&ranks)};
	uint32_t expected = 0, line;

	cr_assert_leq(info[2], ENTRIES);
	memory_allow(&memory, 4 * POSITIONS, 1 << 20);
	for (uint32_t i = 0; i < POSITIONS; i++) {
		if (is_entry(i))
			expected = 1000 + i;
		cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), i, &line), 0);
		cr_assert_eq(line, expected, "position %u: %u, not %u", i, line, expected);
	}
}

Test(ruby_lines, code_with_one_line_needs_no_index)
{
	struct memory memory = {.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	const uint64_t info[RUBY_LINES_WORDS] = {at(entries), 0, 1, 0};
	uint32_t line;

	entries[0].line = 7;
	memory_allow(&memory, 10, 1 << 20);
	cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), 99, &line), 0);
	cr_assert_eq(line, 7);
}

Test(ruby_lines, forged_tables_have_no_line)
{
	struct memory memory = {.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	uint64_t info[RUBY_LINES_WORDS] = {at(entries), 0, 0, at(&ranks)};
	uint32_t line = 1;

	memory_allow(&memory, 10, 1 << 20);
	cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), 3, &line), 0);
	cr_assert_eq(line, 0, "no entries");
	/* An index with more entries than there are. */
	memset(&ranks, 0xff, sizeof(ranks));
	info[2] = 2;
	line = 1;
	cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), 3, &line), 0);
	cr_assert_eq(line, 0);
	line = 1;
	cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), 600, &line), 0);
	cr_assert_eq(line, 0);
	info[3] = 0;
	cr_assert_eq(ruby_lines_find(&memory, info, sizeof(entries[0]), 3, &line), -EFAULT);
}

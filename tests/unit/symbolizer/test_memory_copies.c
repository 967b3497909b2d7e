/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/runtime/memory.h"
#include "symbolizer/worker/memory_copies.h"

enum {
	TGID = 42
};

static struct memory_copies copies;

/* --- the records --- */

static const uint64_t frame = 0xc4017f0000001680;

static uint64_t word(uint32_t identity, uint32_t position)
{
	return (uint64_t)identity << 32 | position;
}

static void add(uint32_t tgid, uint32_t identity)
{
	const struct bh_memory_copy copy = {.header = {.tgid = tgid, .flags = BH_RECORD_COPY},
					    .frame = frame,
					    .word = word(identity, 4)};

	cr_assert(memory_copy_is(&copy, sizeof(copy)));
	memory_copies_add(&copies, &copy, sizeof(copy));
}

static bool is_found(uint32_t tgid, uint64_t first, uint64_t second)
{
	const uint64_t words[] = {first, second};

	return memory_copies_find(&copies, tgid, words) != NULL;
}

Test(memory_copies, is_found_at_any_position_in_the_code)
{
	add(TGID, 7);
	cr_expect(is_found(TGID, frame, word(7, 4)));
	cr_expect(is_found(TGID, frame, word(7, 90)));
}

Test(memory_copies, is_not_found_for_other_code)
{
	add(TGID, 7);
	cr_expect_not(is_found(TGID, frame, word(8, 4)));
	cr_expect_not(is_found(TGID, frame + 16, word(7, 4)));
	cr_expect_not(is_found(TGID + 1, frame, word(7, 4)));
}

Test(memory_copies, the_oldest_is_replaced)
{
	for (uint32_t i = 0; i <= LIMIT_MEMORY_COPIES; i++)
		add(TGID, i);
	cr_expect_not(is_found(TGID, frame, word(0, 4)));
	cr_expect(is_found(TGID, frame, word(1, 4)));
	cr_expect(is_found(TGID, frame, word(LIMIT_MEMORY_COPIES, 4)));
}

Test(memory_copies, samples_and_records_of_wrong_sizes_are_none)
{
	union {
		struct bh_memory_copy copy;
		uint8_t bytes[BH_MEMORY_COPY_MAX + 1];
	} record = {.copy = {.header = {.flags = BH_RECORD_COPY}}};

	cr_expect(memory_copy_is(&record, BH_MEMORY_COPY_MAX));
	cr_expect_not(memory_copy_is(&record, BH_MEMORY_COPY_MAX + 1));
	cr_expect_not(memory_copy_is(&record, sizeof(record.copy) - 1));
	record.copy.header.flags = BH_SAMPLE_MANAGED;
	cr_expect_not(memory_copy_is(&record, sizeof(record.copy)));
}

/* --- reading from a copy --- */

/* A copy of 8 bytes at 0x1000, of which 6 are valid, and of 8 bytes at 0x2000. */
static struct {
	struct bh_memory_part first_part;
	char first[8];
	struct bh_memory_part second_part;
	char second[8];
} parts;

static struct memory memory;

static void setup(void)
{
	parts.first_part = (struct bh_memory_part){.address = 0x1000, .bytes = 6, .room = 8};
	parts.second_part = (struct bh_memory_part){.address = 0x2000, .bytes = 8, .room = 8};
	memcpy(parts.first, "abcdefgh", 8);
	memcpy(parts.second, "ijklmnop", 8);
	memory = (struct memory){.fd = -1,
				 .pid = getpid(),
				 .copy = (const uint8_t *)&parts,
				 .copy_bytes = sizeof(parts)};
	memory_allow(&memory, 100, 1000);
}

TestSuite(memory_copy, .init = setup);

static void expect_read(uint64_t address, const char *text)
{
	char found[16] = "";

	cr_expect_eq(memory_read(&memory, address, found, strlen(text)), 0);
	cr_expect_str_eq(found, text);
}

static void expect_stale(uint64_t address, size_t bytes)
{
	char found[16];

	cr_expect_eq(memory_read(&memory, address, found, bytes), -ESTALE);
}

Test(memory_copy, parts_are_read)
{
	expect_read(0x1000, "abcdef");
	expect_read(0x1004, "ef");
	expect_read(0x2000, "ijklmnop");
	expect_read(0x2007, "p");
}

Test(memory_copy, what_is_not_in_one_part_cannot_be_read)
{
	expect_stale(0x0fff, 1);
	expect_stale(0x0fff, 2);
	expect_stale(0x1000, 7);
	expect_stale(0x1006, 1);
	expect_stale(0x2001, 8);
	expect_stale(~0ull >> 2, 1);
}

/* The memory of this process is there, but nobody knows whether it is what was sampled. */
Test(memory_copy, is_never_mixed_with_the_present_memory)
{
	static const char here[] = "here";

	expect_stale((uintptr_t)here, sizeof(here));
	memory.copy = NULL;
	expect_read((uintptr_t)here, "here");
}

Test(memory_copy, ends_at_a_part_that_is_cut_or_impossible)
{
	memory.copy_bytes = sizeof(parts) - 1;
	expect_read(0x1000, "abcdef");
	expect_stale(0x2000, 1);
	memory.copy_bytes = sizeof(parts);
	parts.first_part.bytes = 9;
	expect_stale(0x1000, 1);
	expect_stale(0x2000, 1);
	parts.first_part.bytes = 6;
	parts.first_part.room = ~0u;
	expect_stale(0x1000, 1);
}

Test(memory_copy, uses_the_budget)
{
	char found[8];

	memory_allow(&memory, 1, 4);
	cr_expect_eq(memory_read(&memory, 0x1000, found, 5), -EDQUOT);
	cr_expect_eq(memory_read(&memory, 0x1000, found, 4), 0);
	cr_expect_eq(memory_read(&memory, 0x1000, found, 1), -EDQUOT);
}

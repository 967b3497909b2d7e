/* SPDX-License-Identifier: Apache-2.0 */
/* Proves on small files that a test makes: V8's builtins and sizes of bytecodes are found wherever
 * linkers put them, nothing is found in a file that differs from V8's form, and a forged file costs
 * a limited number of reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "parse/v8_builtins.h"
#include "v8_fixture.h"

Test(v8_builtins, finds_tables_of_each_form)
{
	for (unsigned int words = 2; words <= V8_BUILTINS_ENTRY_WORDS_MAX; words++) {
		struct v8_fixture fixture;

		cr_log_info("%u words", words);
		v8_fixture_init(&fixture, words);
		v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
		v8_fixture_fini(&fixture);
	}
}

Test(v8_builtins, finds_a_table_in_the_executable_segment)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	memset(fixture.file->data + TABLE_AT, 0, DATA_BYTES - TABLE_AT);
	v8_check_not_found(&fixture, "there is no table");
	v8_fixture_put_table(&fixture, fixture.file->text + 6 * PAGE + 4, BUILTINS);
	v8_check_not_found(&fixture, "it is not aligned");
	v8_fixture_put_table(&fixture, fixture.file->text + 6 * PAGE, BUILTINS);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_table_has_a_thousand_builtins)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	(*v8_table_entry(&fixture, V8_BUILTINS_LEAST))++;
	v8_check_found(&fixture, BLOCK_VADDR, V8_BUILTINS_LEAST);
	for (unsigned int i = 0; i < V8_BUILTINS_LEAST; i += i < 20 ? 1 : 89) {
		(*v8_table_entry(&fixture, i))++;
		v8_check_not_found(&fixture, "an offset is wrong");
		(*v8_table_entry(&fixture, i))--;
	}
	v8_check_found(&fixture, BLOCK_VADDR, V8_BUILTINS_LEAST);
	/* The segment ends with the thousandth builtin. */
	fixture.file->data_segment.p_filesz =
	    TABLE_AT + HASHES_BYTES + (size_t)V8_BUILTINS_LEAST * 12;
	v8_check_found(&fixture, BLOCK_VADDR, V8_BUILTINS_LEAST);
	fixture.file->data_segment.p_filesz--;
	v8_check_not_found(&fixture, "it ends in the thousandth");
	/* The segment starts with the hashes. */
	fixture.file->data_segment.p_offset += TABLE_AT;
	fixture.file->data_segment.p_vaddr += TABLE_AT;
	fixture.file->data_segment.p_filesz = DATA_BYTES - TABLE_AT;
	v8_check_found(&fixture, BLOCK_VADDR, V8_BUILTINS_LEAST);
	fixture.file->data_segment.p_offset += 8;
	fixture.file->data_segment.p_vaddr += 8;
	fixture.file->data_segment.p_filesz -= 8;
	v8_check_not_found(&fixture, "there are two hashes");
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_builtin_has_bytes)
{
	struct v8_fixture fixture;
	const unsigned int small = 7 * 127; /* has one byte */

	v8_fixture_init(&fixture, 3);
	cr_assert_eq(fixture.bytes[small], 1);
	fixture.file->text[BLOCK_AT + fixture.offsets[small]] = INT3;
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	memset(v8_table_entry(&fixture, small) + 4, 0, 4);
	v8_check_not_found(&fixture, "one has none");
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_table_ends_before_a_builtin_of_more_than_1_mib)
{
	const unsigned int index = V8_BUILTINS_LEAST + 50;
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	v8_enlarge(&fixture, index, 1 << 20);
	v8_check_found(&fixture, BLOCK_VADDR, index);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_table_of_more_than_8_mib_of_code_is_passed)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	/* The right table is in the other segment, and the larger one is found first. */
	v8_fixture_put_table(&fixture, fixture.file->text + 6 * PAGE, BUILTINS);
	struct v8_fixture larger = fixture;
	for (unsigned int i = 0; i < 8; i++)
		v8_enlarge(&larger, V8_BUILTINS_LEAST + i, (1 << 20) - 128);
	cr_assert_gt(larger.offsets[BUILTINS - 1], V8_BUILTINS_CODE_BYTES_MAX);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, at_most_4096_builtins_are_read)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	uint8_t *block;

	v8_fixture_init(&fixture, 3);
	block = fixture.file->text + BLOCK_AT;
	for (uint32_t i = 0; i < V8_BUILTINS_MAX + 4; i++) {
		const uint32_t entry[] = {i * 64, 63};

		memcpy(v8_table_entry(&fixture, i), entry, sizeof(entry));
		memset(block + entry[0], OTHER_CODE, 63);
		block[entry[0] + 63] = INT3;
	}
	memcpy(block + ENTRY * 64, v8_entry_code, sizeof(v8_entry_code));
	cr_assert_eq(v8_find(&fixture, &builtins), 0);
	cr_expect_eq(builtins.start, BLOCK_VADDR);
	cr_expect_eq(builtins.end, BLOCK_VADDR + V8_BUILTINS_MAX * 64);
	cr_expect_eq(builtins.handlers, builtins.end - HANDLERS * 64);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_block_with_wrong_padding_is_passed)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	for (unsigned int i = 0; i < BUILTINS; i += i < 20 ? 1 : 83) {
		uint8_t *first = fixture.file->text + BLOCK_AT + fixture.offsets[i];
		uint8_t *const bytes[] = {first + fixture.bytes[i], fixture.file->text + BLOCK_AT +
									fixture.offsets[i + 1] - 1};

		for (unsigned int j = 0; j < 2; j++) {
			*bytes[j] = OTHER_CODE;
			v8_check_not_found(&fixture, "the padding is wrong");
			v8_fixture_put_code(&fixture, fixture.file->text + BLOCK_AT + BLOCK_ROOM);
			v8_check_found(&fixture, BLOCK_VADDR + BLOCK_ROOM, BUILTINS);
			memset(fixture.file->text + BLOCK_AT + BLOCK_ROOM, OTHER_CODE, BLOCK_ROOM);
			*bytes[j] = INT3;
		}
	}
	/* Of two, the first is taken. */
	v8_fixture_put_code(&fixture, fixture.file->text + BLOCK_AT + BLOCK_ROOM);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, a_block_is_code_at_a_page)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	fixture.file->text_segment.p_vaddr += 64;
	v8_check_not_found(&fixture, "it is not at a page");
	fixture.file->text_segment.p_vaddr += PAGE - 64;
	v8_check_found(&fixture, BLOCK_VADDR + PAGE, BUILTINS);
	fixture.file->text_segment.p_flags = PF_R;
	v8_check_not_found(&fixture, "it is not executable");
	fixture.file->text_segment.p_flags = PF_X;
	/* The segment ends with the block. */
	fixture.file->text_segment.p_filesz = BLOCK_AT + fixture.offsets[BUILTINS];
	v8_check_found(&fixture, BLOCK_VADDR + PAGE, BUILTINS);
	fixture.file->text_segment.p_filesz--;
	v8_check_not_found(&fixture, "it ends after the segment");
	v8_fixture_fini(&fixture);
}

/* Padding alone looks like every block, and after some such pages no place is looked at. */
Test(v8_builtins, padding_alone_is_no_block)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct v8_counted counted;

	v8_fixture_init(&fixture, 3);
	memset(fixture.file->text, INT3, BLOCK_AT);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	memset(fixture.file->text, INT3, TEXT_BYTES);
	counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
	cr_expect_lt(counted.bytes, DATA_BYTES + TEXT_BYTES + 2 * BLOCK_ROOM, "%lu", counted.bytes);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, the_entry_is_the_first_builtin_with_its_instructions)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct v8_counted counted;
	uint8_t *code;

	v8_fixture_init(&fixture, 3);
	code = fixture.file->text + BLOCK_AT;
	memcpy(code + fixture.offsets[ENTRY], v8_entry_slots_code, sizeof(v8_entry_slots_code));
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	memset(code + fixture.offsets[ENTRY], OTHER_CODE, fixture.bytes[ENTRY]);
	cr_assert_eq(v8_find(&fixture, &builtins), 0);
	cr_expect_eq(builtins.entry, BLOCK_VADDR + fixture.offsets[SECOND]);
	/* It is not one of the handlers. */
	counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, BUILTINS - SECOND - 1, &counted, &builtins), 0);
	cr_expect_eq(builtins.entry, BLOCK_VADDR + fixture.offsets[SECOND]);
	cr_expect_eq(builtins.handlers, BLOCK_VADDR + fixture.offsets[SECOND + 1]);
	counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, BUILTINS - SECOND, &counted, &builtins), -ENOENT);
	memset(code + fixture.offsets[SECOND], OTHER_CODE, fixture.bytes[SECOND]);
	v8_check_not_found(&fixture, "no builtin has the instructions");
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, refuses_forms_out_of_range)
{
	static const unsigned int words[] = {0, 1, V8_BUILTINS_ENTRY_WORDS_MAX + 1, UINT_MAX};
	static const unsigned int handlers[] = {0, BUILTINS, BUILTINS + 1, UINT_MAX};
	struct v8_fixture fixture;
	struct v8_builtins builtins;

	v8_fixture_init(&fixture, 2);
	for (unsigned int i = 0; i < 4; i++) {
		struct v8_counted counted = v8_counted_init(&fixture);

		fixture.entry_words = words[i];
		cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
		cr_expect_eq(counted.reads, 0, "%u words", words[i]);
	}
	fixture.entry_words = 2;
	for (unsigned int i = 0; i < 4; i++) {
		struct v8_counted counted = v8_counted_init(&fixture);

		cr_expect_eq(v8_find_counted(&fixture, handlers[i], &counted, &builtins), -ENOENT,
			     "%u handlers", handlers[i]);
	}
	v8_fixture_fini(&fixture);
}

static void check_sizes(const struct v8_fixture *fixture, unsigned int count, uint64_t expected)
{
	struct v8_counted counted = v8_counted_init(fixture);
	uint64_t vaddr = 0;
	const int r = v8_find_sizes(fixture, count, &counted, &vaddr);

	cr_expect_eq(r, expected ? 0 : -ENOENT, "%d", r);
	cr_expect(!expected || vaddr == expected, "%#lx", vaddr);
}

Test(v8_builtins, finds_the_sizes_of_bytecodes)
{
	struct v8_fixture fixture;

	v8_fixture_init(&fixture, 3);
	uint8_t *data = fixture.file->data;
	check_sizes(&fixture, BYTECODES, DATA_VADDR + SIZES_AT);
	check_sizes(&fixture, BYTECODES - 1, 0);
	for (unsigned int i = 0; i < V8_BYTECODE_SCALES * 14; i++) {
		data[SIZES_AT + i / 14 * BYTECODES + i % 14] ^= 0x80;
		check_sizes(&fixture, BYTECODES, 0);
		data[SIZES_AT + i / 14 * BYTECODES + i % 14] ^= 0x80;
	}
	fixture.file->data_segment.p_vaddr += 8;
	check_sizes(&fixture, BYTECODES, 0);
	fixture.file->data_segment.p_vaddr -= 8;
	/* The segment ends with the last row. */
	fixture.file->data_segment.p_filesz = SIZES_AT + V8_BYTECODE_SCALES * BYTECODES;
	check_sizes(&fixture, BYTECODES, DATA_VADDR + SIZES_AT);
	fixture.file->data_segment.p_filesz--;
	check_sizes(&fixture, BYTECODES, 0);
	v8_fixture_put_sizes(fixture.file->text + 2 * PAGE, BYTECODES);
	check_sizes(&fixture, BYTECODES, TEXT_VADDR + 2 * PAGE);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, there_are_14_to_256_bytecodes)
{
	static const unsigned int outside[] = {0, 13, 257, UINT_MAX};
	struct v8_fixture fixture;
	uint64_t vaddr;

	v8_fixture_init(&fixture, 3);
	for (unsigned int i = 0; i < 4; i++) {
		struct v8_counted counted = v8_counted_init(&fixture);

		v8_fixture_put_sizes(fixture.file->data + SIZES_AT, outside[i] % BUILTINS);
		cr_expect_eq(v8_find_sizes(&fixture, outside[i], &counted, &vaddr), -ENOENT);
		cr_expect_eq(counted.reads, 0, "%u bytecodes", outside[i]);
	}
	v8_fixture_put_sizes(fixture.file->data + SIZES_AT, 14);
	check_sizes(&fixture, 14, DATA_VADDR + SIZES_AT);
	v8_fixture_put_sizes(fixture.file->data + SIZES_AT, 256);
	check_sizes(&fixture, 256, DATA_VADDR + SIZES_AT);
	v8_fixture_fini(&fixture);
}

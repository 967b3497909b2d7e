/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a builtin is taken for InterpreterEntryTrampoline only if it has all of its parts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "v8_fixture.h"

/* Examines a copy of the code, after which ASan detects a read. */
static bool examine(struct v8_entry *entry, const uint8_t *code, size_t length)
{
	_cleanup_free_ uint8_t *copy = malloc(length);

	cr_assert(copy || !length);
	if (length)
		memcpy(copy, code, length);
	return v8_entry_examine(entry, copy, length);
}

Test(v8_entry, says_where_the_frame_is_made_and_removed)
{
	struct v8_entry entry;

	cr_assert(examine(&entry, v8_entry_code, sizeof(v8_entry_code)));
	cr_expect_eq(entry.push, 2);
	cr_expect_eq(entry.call, 10, "not the call before the frame is made");
	cr_expect_eq(entry.leave, 13);
	cr_expect_eq(entry.removed, 18);
	cr_expect_eq(entry.shift, 0);
	cr_assert(examine(&entry, v8_entry_slots_code, sizeof(v8_entry_slots_code)));
	cr_expect_eq(entry.push, 0);
	cr_expect_eq(entry.call, 7);
	cr_expect_eq(entry.leave, 9);
	cr_expect_eq(entry.removed, 15);
	cr_expect_eq(entry.shift, 3);
}

Test(v8_entry, code_that_is_cut_off_is_refused)
{
	struct v8_entry entry;

	for (size_t length = 0; length < sizeof(v8_entry_code); length++)
		cr_expect_not(examine(&entry, v8_entry_code, length), "%zu bytes", length);
	for (size_t length = 0; length < sizeof(v8_entry_slots_code); length++)
		cr_expect_not(examine(&entry, v8_entry_slots_code, length), "%zu bytes", length);
}

Test(v8_entry, each_byte_of_the_instructions_matters)
{
	struct v8_entry entry;
	uint8_t code[32];

	for (size_t i = 2; i < sizeof(v8_entry_code); i++) {
		memcpy(code, v8_entry_code, sizeof(v8_entry_code));
		code[i] ^= 0x40;
		cr_expect_eq(examine(&entry, code, sizeof(v8_entry_code)), v8_entry_code[i] == 0x90,
			     "byte %zu", i);
	}
	for (size_t i = 0; i < sizeof(v8_entry_slots_code); i++) {
		memcpy(code, v8_entry_slots_code, sizeof(v8_entry_slots_code));
		code[i] ^= 0x40;
		cr_expect_not(examine(&entry, code, sizeof(v8_entry_slots_code)), "byte %zu", i);
	}
}

Test(v8_entry, the_frame_is_made_before_the_call_and_removed_after_it)
{
	struct v8_entry entry;
	uint8_t code[17];

	memcpy(code, v8_entry_code + 13, 7);
	memcpy(code + 7, v8_entry_code + 2, 10);
	cr_expect_not(examine(&entry, code, sizeof(code)));
	memcpy(code, v8_entry_slots_code + 9, 8);
	memcpy(code + 8, v8_entry_slots_code, 9);
	cr_expect_not(examine(&entry, code, sizeof(code)));
	memcpy(code, v8_entry_slots_code + 7, 2);
	memcpy(code + 2, v8_entry_slots_code, 7);
	memcpy(code + 9, v8_entry_slots_code + 9, 8);
	cr_expect_not(examine(&entry, code, sizeof(code)));
}

Test(v8_entry, code_of_more_than_4096_bytes_is_refused)
{
	struct v8_entry entry;
	uint8_t code[V8_ENTRY_BYTES_MAX + 1] = {0};

	memcpy(code + V8_ENTRY_BYTES_MAX - sizeof(v8_entry_code), v8_entry_code,
	       sizeof(v8_entry_code));
	cr_assert(examine(&entry, code, V8_ENTRY_BYTES_MAX));
	cr_expect_eq(entry.removed, V8_ENTRY_BYTES_MAX - 2);
	cr_expect_not(examine(&entry, code, sizeof(code)));
}

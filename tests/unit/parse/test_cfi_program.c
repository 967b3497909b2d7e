/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the programs of CFA instructions: what each instruction does to the rows of an FDE. */
#include "cfi_fixture.h"

Test(cfi, an_empty_section_has_no_fdes)
{
	struct bytes b = {.length = 0};
	struct result r = parse(&b);

	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.count, 0);
	cr_assert_not(r.stats.truncated);
}

Test(cfi, an_ordinary_function_has_its_rows)
{
	struct result r = run(CODE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x50, 0x0c, 7, 8));

	check_row(&r, 0, CODE, RULE());
	check_row(&r, 1, CODE + 1,
		  RULE(.cfa_offset = 16, .fp_kind = CFI_SAVE_CFA, .fp_offset = -16));
	check_row(
	    &r, 2, CODE + 4,
	    RULE(.cfa_register = 6, .cfa_offset = 16, .fp_kind = CFI_SAVE_CFA, .fp_offset = -16));
	check_row(&r, 3, CODE + 0x54, RULE(.fp_kind = CFI_SAVE_CFA, .fp_offset = -16));
	cr_assert_eq(r.fdes[0].row_count, 4);
	cr_assert_eq(r.fdes[0].end, CODE + CODE_SIZE);
	cr_assert_eq(r.stats.fdes, 1);
	cr_assert_eq(r.stats.rows, 4);
	cr_assert_eq(r.stats.bad_fdes, 0);
	cr_assert_eq(r.unknown_rows, 0);
}

Test(cfi, every_advance_instruction_moves_the_location)
{
	struct result r = run(CODE(0x41, 0x0e, 16,			      /* +1 */
				   0x02, 0xff, 0x0e, 24,		      /* +255 */
				   0x03, 0x00, 0x01, 0x0e, 32,		      /* +256 */
				   0x04, 0x00, 0x02, 0x00, 0x00, 0x0e, 40,    /* +512 */
				   0x1d, 0x01, 0, 0, 0, 0, 0, 0, 0, 0x0e, 48, /* +1 */
				   0x01, 0xa0, 0x06, 0x03, 0x00, 0x0e, 56));  /* set_loc */
	static const uint64_t offsets[] = {0, 1, 256, 512, 1024, 1025};

	for (unsigned int i = 0; i < 6; i++)
		check_row(&r, i, CODE + offsets[i], RULE(.cfa_offset = 8 + 8 * (int)i));
	cr_assert_eq(r.fdes[0].row_count, 7);
	cr_assert_eq(r.fdes[0].rules[6].cfa_offset, 56);
	cr_assert_gt(r.fdes[0].starts[6], CODE + 1025);
}

Test(cfi, set_loc_is_encoded_like_the_fde)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);
	size_t at_body = fde_start(&b, cie);

	put_int(&b, CODE - (VADDR + b.length), 4);
	put_int(&b, CODE_SIZE, 4);
	put(&b, (uint8_t[]){0, 0x01}, 2);
	put_int(&b, CODE + 0x123 - (VADDR + b.length), 4);
	put(&b, (uint8_t[]){0x0e, 16}, 2);
	entry_end(&b, at_body);
	struct result r = parse(&b);
	check_row(&r, 1, CODE + 0x123, RULE(.cfa_offset = 16));

	/* The location cannot move backwards. */
	size_t at = b.length - 6;
	uint32_t back = (uint32_t)(CODE - 1 - (VADDR + at));
	memcpy(b.data + at, &back, 4);
	r = parse(&b);
	cr_assert_eq(r.stats.bad_fdes, 1);
}

Test(cfi, code_alignment_scales_advances)
{
	struct bytes b = {.length = 0};
	size_t at_body = entry_start(&b);

	put_int(&b, 0, 4);
	put(&b, (uint8_t[]){1, 'z', 'R', 0, 4, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1}, 14);
	entry_end(&b, at_body);
	put_fde(&b, at_body - 4, CODE, CODE_SIZE, CODE(0x43, 0x0e, 16));
	struct result r = parse(&b);
	check_row(&r, 1, CODE + 12, RULE(.cfa_offset = 16));
}

Test(cfi, equal_neighbouring_rows_are_merged)
{
	struct result r = run(CODE(0x41, 0x0e, 8, 0x41, 0x8c, 2, 0x41, 0x0e, 16, 0x0e, 8, 0x42));

	check_row(&r, 0, CODE, RULE());
	cr_assert_eq(r.fdes[0].row_count, 1, "r12 and what is undone at once make no row");
	/* rbx saved at CFA-16, restored, undefined. */
	r = run(CODE(0x41, 0x83, 2, 0x41, 0xc3, 0x41, 0x07, 3));
	check_row(&r, 1, CODE + 1, RULE(.bx_kind = CFI_SAVE_CFA, .bx_offset = -16));
	check_row(&r, 2, CODE + 2, RULE());
	check_row(&r, 3, CODE + 3, RULE(.bx_kind = CFI_SAVE_UNKNOWN));
	r = run(CODE(0x41, 0x0e, 16, 0x40, 0x0e, 24, 0x02, 0, 0x0e, 32));
	check_row(&r, 1, CODE + 1, RULE(.cfa_offset = 32));
	cr_assert_eq(r.fdes[0].row_count, 2, "an advance of nothing makes no row");
}

Test(cfi, rows_end_with_the_function)
{
	struct result r = run(CODE(0x04, 0xff, 0x0f, 0, 0, 0x0e, 16, 0x41, 0x0e, 24, 0x17));

	check_row(&r, 1, CODE + CODE_SIZE - 1, RULE(.cfa_offset = 16));
	cr_assert_eq(r.fdes[0].row_count, 2);
	r = run(CODE(0x1d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0e, 24));
	check_row(&r, 0, CODE, RULE());
	cr_assert_eq(r.fdes[0].row_count, 1);
}

Test(cfi, every_cfa_instruction_sets_the_rule)
{
	CHECK_ONE(CODE(0x0c, 6, 16), .cfa_register = 6, .cfa_offset = 16);
	CHECK_ONE(CODE(0x0d, 10), .cfa_register = 10);
	CHECK_ONE(CODE(0x0e, 0x80, 0x10), .cfa_offset = 2048);
	CHECK_ONE(CODE(0x12, 6, 0x7e), .cfa_register = 6, .cfa_offset = 16);
	CHECK_ONE(CODE(0x13, 0x7d), .cfa_offset = 24);
	CHECK_ONE(CODE(0x2e, 0x20), .cfa_offset = 8); /* GNU_args_size */
	CHECK_ONE(CODE(0x2d), .cfa_offset = 8);	      /* GNU_window_save */
	CHECK_ONE(CODE(0x0e, 0xff, 0xff, 0xff, 0xff, 0x07), .cfa_offset = INT32_MAX);
}

Test(cfi, a_cfa_that_no_rule_can_hold_is_unknown)
{
#define UNKNOWN_CFA .cfa_kind = CFI_CFA_UNKNOWN, .cfa_register = 0, .cfa_offset = 0
	CHECK_ONE(CODE(0x0d, 16), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0c, 0x87, 0x02, 8), UNKNOWN_CFA); /* register 263 is not 7 */
	CHECK_ONE(CODE(0x0e, 0x80, 0x80, 0x80, 0x80, 0x08), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		  UNKNOWN_CFA);
	CHECK_ONE(CODE(0x13, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f),
		  UNKNOWN_CFA);
	struct result r = run(CODE(0x0d, 16, 0x41, 0x0d, 7));
	cr_assert_eq(r.unknown_rows, 1);
	check_row(&r, 1, CODE + 1, RULE());
}

Test(cfi, every_save_instruction_sets_the_rule)
{
	CHECK_ONE(CODE(0x86, 2), .fp_kind = CFI_SAVE_CFA, .fp_offset = -16);
	CHECK_ONE(CODE(0x86, 0x80, 0x01), .fp_kind = CFI_SAVE_CFA, .fp_offset = -1024);
	CHECK_ONE(CODE(0x05, 6, 3), .fp_kind = CFI_SAVE_CFA, .fp_offset = -24);
	CHECK_ONE(CODE(0x05, 16, 3), .ra_offset = -24);
	CHECK_ONE(CODE(0x11, 6, 0x7e), .fp_kind = CFI_SAVE_CFA, .fp_offset = 16);
	CHECK_ONE(CODE(0x2f, 6, 2), .fp_kind = CFI_SAVE_CFA, .fp_offset = 16);
	CHECK_ONE(CODE(0x07, 6), .fp_kind = CFI_SAVE_UNDEFINED);
	CHECK_ONE(CODE(0x07, 16), .ra_kind = CFI_SAVE_UNDEFINED, .ra_offset = 0);
	CHECK_ONE(CODE(0x08, 16), .ra_kind = CFI_SAVE_SAME, .ra_offset = 0);
	CHECK_ONE(CODE(0x86, 2, 0x08, 6), .fp_kind = CFI_SAVE_SAME);
	CHECK_ONE(CODE(0x09, 6, 3), .fp_kind = CFI_SAVE_IN_REGISTER, .fp_register = 3);
	CHECK_ONE(CODE(0x09, 16, 5), .ra_kind = CFI_SAVE_IN_REGISTER, .ra_register = 5,
		  .ra_offset = 0);
	CHECK_ONE(CODE(0x09, 6, 17), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x14, 6, 3), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x15, 6, 0x7e), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x16, 16, 2, 0x77, 8), .ra_kind = CFI_SAVE_UNKNOWN, .ra_offset = 0);
	CHECK_ONE(CODE(0x86, 0xff, 0xff, 0xff, 0xff, 0x0f), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x86, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		  .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x05, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		  .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x2f, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		  .fp_kind = CFI_SAVE_UNKNOWN);
}

Test(cfi, other_registers_are_parsed_and_ignored)
{
	CHECK_ONE(CODE(0x83, 0x80, 0x01, 0x05, 0x80, 0x01, 3, 0x06, 0x80, 0x01, 0x07, 3, 0x08, 3,
		       0x09, 3, 0x81, 0x01, 0x11, 3, 0xff, 0x7e, 0x14, 3, 0x81, 0x01, 0x15, 3, 0x7f,
		       0x2f, 3, 1, 0x10, 3, 1, 0x96, 0x16, 3, 2, 0x96, 0x96, 0xc3),
		  .cfa_offset = 8);
}

Test(cfi, restore_takes_the_rule_of_the_cie)
{
	CHECK_ONE(CODE(0x86, 2, 0xc6), .fp_kind = CFI_SAVE_SAME);
	CHECK_ONE(CODE(0x86, 2, 0x06, 6), .fp_kind = CFI_SAVE_SAME);
	CHECK_ONE(CODE(0x07, 16, 0xd0), .ra_offset = -8);
	CHECK_ONE(CODE(0x86, 2, 0x07, 16, 0xd0), .fp_kind = CFI_SAVE_CFA, .fp_offset = -16);
}

Test(cfi, states_are_restored_in_reverse_order)
{
	struct result r = run(CODE(0x0e, 16, 0x86, 2, 0x0a, 0x41, 0x0c, 6, 8, 0xc6, 0x41, 0x0b));

	check_row(&r, 0, CODE, RULE(.cfa_offset = 16, .fp_kind = CFI_SAVE_CFA, .fp_offset = -16));
	check_row(&r, 1, CODE + 1, RULE(.cfa_register = 6));
	check_row(&r, 2, CODE + 2,
		  RULE(.cfa_offset = 16, .fp_kind = CFI_SAVE_CFA, .fp_offset = -16));
	check_bad(CODE(0x0b));
	check_bad(CODE(0x0a, 0x0b, 0x0b));
	CHECK_ONE(CODE(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
		       0x0a, 0x0a, 0x0a),
		  .cfa_offset = 8);
	check_bad(CODE(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
		       0x0a, 0x0a, 0x0a, 0x0a));
}

Test(cfi, known_cfa_expressions_become_rules)
{
	CHECK_ONE(CODE(0x0f, 2, 0x76, 0x70), .cfa_register = 6, .cfa_offset = -16);
	CHECK_ONE(CODE(0x0f, 3, 0x92, 12, 0x18), .cfa_register = 12, .cfa_offset = 24);
	CHECK_ONE(CODE(0x0f, 3, 0x76, 0x78, 0x06), .cfa_kind = CFI_CFA_DEREF, .cfa_register = 6,
		  .cfa_offset = -8);
	CHECK_ONE(CODE(0x0f, 4, 0x77, 0xa0, 0x01, 0x06), .cfa_kind = CFI_CFA_DEREF,
		  .cfa_register = 7, .cfa_offset = 160);
	CHECK_ONE(CODE(0x0f, 5, 0x77, 0, 0x06, 0x23, 8), .cfa_kind = CFI_CFA_DEREF,
		  .cfa_register = 7, .cfa_offset = 0, .cfa_add = 8);
	CHECK_ONE(CODE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
		  .cfa_kind = CFI_CFA_PLT, .cfa_register = 0, .cfa_offset = 8, .cfa_add = 11);
	/* Similar forms are unknown. */
	CHECK_ONE(CODE(0x0f, 0), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 1, 0x76), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 2, 0x80, 0), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 3, 0x92, 16, 0), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 3, 0x76, 0, 0x96), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 4, 0x76, 0, 0x06, 0x06), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 6, 0x77, 0, 0x06, 0x23, 8, 0x06), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 4, 0x77, 0, 0x06, 0x23), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 9, 0x77, 0, 0x06, 0x23, 0x80, 0x80, 0x80, 0x80, 0x08), UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x50, 0x2a, 0x33, 0x24, 0x22),
		  UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22),
		  UNKNOWN_CFA);
	CHECK_ONE(CODE(0x0f, 12, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0x96),
		  UNKNOWN_CFA);
	/* After an expression, the offset from before it can be used again. */
	CHECK_ONE(CODE(0x0e, 24, 0x0f, 3, 0x76, 0x78, 0x06, 0x0d, 6), .cfa_register = 6,
		  .cfa_offset = 24);
}

Test(cfi, known_save_expressions_become_rules)
{
	CHECK_ONE(CODE(0x10, 6, 2, 0x76, 0), .fp_kind = CFI_SAVE_REGISTER, .fp_register = 6);
	CHECK_ONE(CODE(0x10, 6, 3, 0x77, 0x80, 0x01), .fp_kind = CFI_SAVE_REGISTER,
		  .fp_register = 7, .fp_offset = 128);
	CHECK_ONE(CODE(0x10, 16, 2, 0x70, 0x78), .ra_kind = CFI_SAVE_REGISTER, .ra_register = 0,
		  .ra_offset = -8);
	CHECK_ONE(CODE(0x10, 6, 2, 0x23, 8), .fp_kind = CFI_SAVE_CFA, .fp_offset = 8);
	CHECK_ONE(CODE(0x10, 6, 3, 0x76, 0, 0x06), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x10, 6, 0), .fp_kind = CFI_SAVE_UNKNOWN);
	CHECK_ONE(CODE(0x10, 6, 1, 0x23), .fp_kind = CFI_SAVE_UNKNOWN);
	/* Fields that a rule does not use any more are zero again. */
	CHECK_ONE(CODE(0x10, 6, 2, 0x77, 8, 0x08, 6), .fp_kind = CFI_SAVE_SAME);
	CHECK_ONE(CODE(0x0f, 5, 0x77, 0, 0x06, 0x23, 8, 0x0e, 16), .cfa_offset = 16);
}

Test(cfi, a_malformed_program_costs_only_its_fde)
{
	check_bad(CODE(0x02));
	check_bad(CODE(0x03, 1));
	check_bad(CODE(0x04, 1, 0, 0));
	check_bad(CODE(0x1d, 1, 0, 0, 0, 0, 0, 0));
	check_bad(CODE(0x01, 0, 0, 0));
	check_bad(CODE(0x0e));
	check_bad(CODE(0x0e, 0x80));
	check_bad(CODE(0x0c, 7));
	check_bad(CODE(0x86));
	check_bad(CODE(0x0f, 3, 0x77, 8));
	check_bad(CODE(0x10, 6, 3, 0x77, 8));
	check_bad(CODE(0x16, 3, 3, 0x77, 8));
	check_bad(CODE(0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
	check_bad(CODE(0x17));
	check_bad(CODE(0x3f));
	/* A number with 17 bytes of padding is too long. */
	check_bad(CODE(0x0e, 0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		       0x80, 0x80, 0x80, 0x80, 0));
	CHECK_ONE(CODE(0x0e, 0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0),
		  .cfa_offset = 8);
}

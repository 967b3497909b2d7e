/* SPDX-License-Identifier: Apache-2.0 */
/* Tests CIEs and FDEs of .eh_frame and .debug_frame: their fields, encodings and references. */
#include "cfi_fixture.h"

/* ---- CIEs and their FDEs ---- */

Test(cfi, terminator_ends_eh_frame)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	put_fde(&b, cie, CODE, CODE_SIZE, NONE);
	put_int(&b, 0, 4);
	put_fde(&b, cie, CODE + CODE_SIZE, CODE_SIZE, NONE);
	struct result r = parse(&b);
	cr_assert_eq(r.stats.fdes, 1);
	cr_assert_not(r.stats.truncated);
}

Test(cfi, fdes_find_their_cie_anywhere)
{
	struct bytes b = {.length = 0};
	size_t first = put_usual_cie(&b);
	size_t second = put_cie(&b, "zRS", CODE(1, 0x1b), CODE(0x0c, 6, 16, 0x90, 1));

	put_fde(&b, second, CODE, 16, NONE);
	put_fde(&b, first, CODE + 16, 16, NONE);
	put_fde(&b, second, CODE + 32, 16, NONE);
	struct result r = parse(&b);
	cr_assert_eq(r.count, 3);
	cr_assert_eq(r.fdes[0].rules[0].cfa_register, 6);
	cr_assert_eq(r.fdes[0].rules[0].signal_frame, 1);
	cr_assert_eq(r.fdes[1].rules[0].cfa_register, 7);
	cr_assert_eq(r.fdes[1].rules[0].signal_frame, 0);
	cr_assert_eq(memcmp(&r.fdes[2].rules[0], &r.fdes[0].rules[0], sizeof(struct cfi_rule)), 0);
}

Test(cfi, registers_without_instructions_have_default_rules)
{
	struct bytes b = {.length = 0};
	size_t cie = put_cie(&b, "zR", CODE(1, 0x1b), NONE);

	put_fde(&b, cie, CODE, 16, CODE(0x0e, 8));
	struct result r = parse(&b);
	check_row(&r, 0, CODE, (struct cfi_rule){0});
	cr_assert_eq(r.unknown_rows, 1, "an offset without a register");
}

/* Returns the number of FDEs that are delivered for a CIE with this augmentation and data. */
static struct result augmented(const char *augmentation, struct code data, struct code fde)
{
	struct bytes b = {.length = 0};
	size_t cie = put_cie(&b, augmentation, data, USUAL);
	size_t at_body = fde_start(&b, cie);

	put(&b, fde.bytes, fde.length);
	entry_end(&b, at_body);
	return parse(&b);
}

Test(cfi, known_augmentations_are_skipped_correctly)
{
	/* absptr start and range, then the augmentation data's length if there is a 'z' */
#define ABSOLUTE 0, 0, 4, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0
	struct result r = augmented("", NONE, CODE(ABSOLUTE));
	check_row(&r, 0, CODE, RULE());
	r = augmented("z", CODE(0), CODE(ABSOLUTE, 0, 0x0e, 16));
	check_row(&r, 0, CODE, RULE(.cfa_offset = 16));
	r = augmented("zR", CODE(1, 0), CODE(ABSOLUTE, 0));
	check_row(&r, 0, CODE, RULE());
	r = augmented("zRS", CODE(1, 0), CODE(ABSOLUTE, 0));
	check_row(&r, 0, CODE, RULE(.signal_frame = 1));
	r = augmented("zPLR", CODE(7, 0x9b, 1, 2, 3, 4, 0x1b, 0), CODE(ABSOLUTE, 4, 1, 2, 3, 4));
	check_row(&r, 0, CODE, RULE());
	r = augmented("zRPL", CODE(11, 0, 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0xff), CODE(ABSOLUTE, 0));
	check_row(&r, 0, CODE, RULE());
	r = augmented("zRB", CODE(1, 0), CODE(ABSOLUTE, 0));
	check_row(&r, 0, CODE, RULE());
	r = augmented("zR?", CODE(4, 0, 1, 2, 3), CODE(ABSOLUTE, 0));
	check_row(&r, 0, CODE, RULE());
	/* There may be more data than the string announces. */
	r = augmented("zR", CODE(3, 0, 9, 9), CODE(ABSOLUTE, 2, 0x17, 0x17));
	check_row(&r, 0, CODE, RULE());
}

Test(cfi, a_bad_augmentation_makes_the_cie_unusable)
{
	static const struct {
		const char *string;
		uint8_t data[4];
	} bad[] = {
	    {"x", {0}},
	    {"R", {0}},
	    {"zR", {0}},
	    {"zL", {0}},
	    {"zP", {1, 0x1b}},
	    {"zP", {2, 0x07}},
	    {"zR", {100, 0x1b}},
	    {"zR", {1, 0xff}}, /* DW_EH_PE_omit */
	    {"zR", {1, 0x9b}},
	    {"zR", {1, 0x70}},
	    {"zR", {1, 0x40}},
	    {"zR", {1, 0x05}},
	    {"zRSSSSSSSSSSSSSSSSSSSSSSSSSSSS", {1, 0}},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct result r = augmented(bad[i].string, (struct code){bad[i].data, 4},
					    CODE(ABSOLUTE, 0, 0, 0, 0));

		cr_assert_eq(r.rc, 0);
		cr_assert_eq(r.stats.fdes, 0, "%zu", i);
		cr_assert_eq(r.stats.bad_fdes, 1, "%zu", i);
	}
}

Test(cfi, the_augmentation_of_gcc_2_is_read)
{
	struct bytes b = {.length = 0};
	size_t at_body = entry_start(&b);

	put_int(&b, 0, 4);
	put(&b,
	    (uint8_t[]){1, 'e', 'h', 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1},
	    20);
	entry_end(&b, at_body);
	size_t cie = at_body - 4;
	at_body = fde_start(&b, cie);
	put(&b, (uint8_t[]){ABSOLUTE}, 16);
	entry_end(&b, at_body);
	struct result r = parse(&b);
	check_row(&r, 0, CODE, RULE());
}

/* The start and the size of a function in every encoding. */
Test(cfi, every_pointer_encoding_is_decoded)
{
	static const struct {
		uint8_t encoding, size;
		uint64_t raw, start;
	} cases[] = {
	    {0x00, 8, CODE, CODE},
	    {0x08, 8, CODE, CODE},
	    {0x02, 2, 0xfff0, 0xfff0},
	    {0x03, 4, 0xf0001000, 0xf0001000},
	    {0x04, 8, 1ull << 40, 1ull << 40},
	    {0x0c, 8, 1ull << 40, 1ull << 40},
	    {0x20, 8, 0x10, 0x1000010},
	    {0x2a, 2, 0xfff0, 0x1000000 - 0x10},
	    {0x33, 4, 0x20, 0x2000020},
	    {0x3b, 4, (uint32_t)-0x20, 0x2000000 - 0x20},
	    {0x10, 8, (uint64_t)-0x100, 0},
	    {0x1a, 2, 0x7000, 0},
	    {0x1c, 8, (uint64_t)-0x100, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes b = {.length = 0};
		size_t cie = put_cie(&b, "zR", CODE(1, cases[i].encoding), USUAL);
		size_t at_body = fde_start(&b, cie);
		uint64_t start = cases[i].start;

		if (start == 0)
			start =
			    VADDR + b.length +
			    (cases[i].size == 2 ? (uint64_t)(int16_t)cases[i].raw : cases[i].raw);
		put_int(&b, cases[i].raw, cases[i].size);
		put_int(&b, 0x40, cases[i].size);
		put_int(&b, 0, 1);
		entry_end(&b, at_body);
		struct result r = parse(&b);
		check_row(&r, 0, start, RULE());
		cr_assert_eq(r.fdes[0].end, start + 0x40);
	}
}

Test(cfi, pointers_in_leb128_and_aligned_are_decoded)
{
	struct result r = augmented("zR", CODE(1, 0x01), CODE(0x80, 0x80, 0x10, 0x80, 0x20, 0));
	check_row(&r, 0, CODE, RULE());
	cr_assert_eq(r.fdes[0].end, CODE + 0x1000);
	r = augmented("zR", CODE(1, 0x39), CODE(0x70, 0x10, 0));
	check_row(&r, 0, 0x2000000 - 0x10, RULE());

	for (size_t shift = 0; shift < 8; shift++) {
		struct bytes b = {.length = 0};
		size_t cie = put_cie(&b, "zR", CODE(1, 0x50), USUAL);

		/* An entry that only moves the FDE. */
		size_t at_body = entry_start(&b);
		put(&b, (uint8_t[12]){0}, 4 + shift);
		entry_end(&b, at_body);
		at_body = fde_start(&b, cie);
		while ((VADDR + b.length) % 8 != 0)
			put_int(&b, 0xee, 1);
		put_int(&b, CODE, 8);
		put_int(&b, 0x40, 8);
		put_int(&b, 0, 1);
		entry_end(&b, at_body);
		r = parse(&b);
		check_row(&r, 0, CODE, RULE());
	}
}

Test(cfi, empty_and_wrapping_ranges_are_left_out)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	put_fde(&b, cie, VADDR + b.length + 8, 16,
		NONE);				     /* a null pointer: the function was dropped */
	put_fde(&b, cie, CODE, 0, NONE);	     /* empty */
	put_fde(&b, cie, CODE, (uint32_t)-16, NONE); /* its end overflows */
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.fdes, 0);
	cr_assert_eq(r.stats.bad_fdes, 1);
}

Test(cfi, an_fde_without_a_valid_cie_is_skipped)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);
	size_t fde = b.length;

	put_fde(&b, cie + 4, CODE, 16, NONE); /* the middle of a CIE */
	put_fde(&b, (size_t)-64, CODE, 16, NONE);
	put_fde(&b, fde, CODE, 16, NONE); /* an FDE */
	put_fde(&b, cie, CODE, 16, NONE);
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.bad_fdes, 3);
	cr_assert_eq(r.stats.fdes, 1);
}

Test(cfi, a_malformed_cie_makes_its_fdes_unusable)
{
	/* version, alignment of code and data, return address column, initial instructions */
	static const uint8_t bad[][10] = {
	    {2, 0, 1, 0x78, 16},       {5, 0, 1, 0x78, 16},
	    {1, 0, 1, 0x78, 15},       {1, 0, 1, 0x78, 16, 0x41},
	    {1, 0, 1, 0x78, 16, 0x0b}, {1, 0, 1, 0x78, 16, 0, 0, 0, 0, 0x0e},
	    {4, 0, 3, 0, 1, 0x78, 16}, {4, 0, 8, 9, 1, 0x78, 16},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct bytes b = {.length = 0};
		size_t at_body = entry_start(&b);

		put_int(&b, 0, 4);
		put(&b, bad[i], sizeof(bad[i]));
		entry_end(&b, at_body);
		size_t cie = at_body - 4;
		for (int n = 0; n < 2; n++) {
			at_body = fde_start(&b, cie);
			put(&b, (uint8_t[]){ABSOLUTE}, 16);
			entry_end(&b, at_body);
		}
		struct result r = parse(&b);
		cr_assert_eq(r.rc, 0);
		cr_assert_eq(r.stats.bad_fdes, 2, "%zu", i);
		cr_assert_eq(r.stats.fdes, 0, "%zu", i);
	}
}

Test(cfi, a_section_that_is_cut_off_keeps_what_came_before)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);
	size_t cie_end = b.length;

	put_fde(&b, cie, CODE, 16, CODE(0x41, 0x0e, 16));
	size_t whole = b.length;
	for (size_t length = 1; length < whole; length++) {
		b.length = length;
		struct result r = parse(&b);

		cr_assert_eq(r.rc, 0);
		cr_assert_eq(r.stats.fdes, 0);
		cr_assert_eq(r.stats.truncated, length != cie_end, "%zu", length);
	}
	/* Lengths beyond the end of the section, and beyond 64 bits. */
	b.length = 0;
	put_int(&b, 0xfffffff0, 4);
	put_int(&b, 0, 4);
	cr_assert(parse(&b).stats.truncated);
	b.length = 0;
	put_int(&b, UINT64_MAX, 8);
	put_int(&b, UINT64_MAX, 8);
	cr_assert(parse(&b).stats.truncated);
}

Test(cfi, an_entry_too_short_for_its_id_costs_only_itself)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	put_int(&b, 3, 4);
	put_int(&b, 1, 3);
	put_fde(&b, cie, CODE, 16, NONE);
	struct result r = parse(&b);
	cr_assert_eq(r.stats.bad_fdes, 1);
	cr_assert_eq(r.stats.fdes, 1);
}

Test(cfi, lengths_of_64_bits_are_read)
{
	struct bytes b = {.length = 0};

	/* .eh_frame: the id stays four bytes long. */
	put_int(&b, UINT32_MAX, 4);
	put_int(&b, 18, 8);
	put_int(&b, 0, 4);
	put(&b, (uint8_t[]){1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1}, 14);
	put_int(&b, UINT32_MAX, 4);
	put_int(&b, 4 + 16 + 1, 8);
	put_int(&b, b.length, 4);
	put(&b, (uint8_t[]){ABSOLUTE, 0}, 17);
	struct result r = parse(&b);
	check_row(&r, 0, CODE, RULE());
}

/* ---- .debug_frame ---- */

static size_t put_debug_cie(struct bytes *b, uint8_t version, uint8_t address, uint8_t selector,
			    bool wide)
{
	size_t start = b->length;

	if (wide)
		put_int(b, UINT32_MAX, 4);
	put_int(b, (wide ? 8 : 4) + (version == 4 ? 2 : 0) + 10, wide ? 8 : 4);
	put_int(b, UINT64_MAX, wide ? 8 : 4);
	put(b, (uint8_t[]){version, 0}, 2);
	if (version == 4)
		put(b, (uint8_t[]){address, selector}, 2);
	put(b, (uint8_t[]){1, 0x78, 16, 0x0c, 7, 8, 0x90, 1}, 8);
	return start;
}

static void put_debug_fde(struct bytes *b, size_t cie, size_t address, size_t selector, bool wide)
{
	size_t id = wide ? 8 : 4;

	if (wide)
		put_int(b, UINT32_MAX, 4);
	put_int(b, id + selector + 2 * address + 2, id);
	put_int(b, cie, id);
	put(b, (uint8_t[8]){1, 2, 3, 4, 5, 6, 7, 8}, selector);
	put_int(b, CODE, address);
	put_int(b, CODE_SIZE, address);
	put(b, (uint8_t[]){0x0e, 16}, 2);
}

Test(cfi, debug_frame_is_parsed_in_all_versions)
{
	static const struct {
		uint8_t version, address, selector;
		bool wide;
	} cases[] = {{1, 8, 0, false}, {3, 8, 0, false}, {4, 8, 0, false}, {4, 4, 0, false},
		     {4, 8, 2, false}, {3, 8, 0, true},	 {4, 4, 8, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes b = {.length = 0};

		put_int(&b, 0, 4); /* padding, not a terminator */
		size_t cie = put_debug_cie(&b, cases[i].version, cases[i].address,
					   cases[i].selector, cases[i].wide);
		put_debug_fde(&b, cie, cases[i].address, cases[i].selector, cases[i].wide);
		struct result r = parse_debug(&b);
		cr_assert_eq(r.stats.bad_fdes, 0, "%zu", i);
		check_row(&r, 0, CODE, RULE(.cfa_offset = 16));
		cr_assert_eq(r.fdes[0].end, CODE + CODE_SIZE);
	}
}

Test(cfi, debug_frame_refers_to_cies_by_offset)
{
	struct bytes b = {.length = 0};
	size_t cie = put_debug_cie(&b, 3, 8, 0, false);

	put_debug_fde(&b, cie + 1, 8, 0, false);
	put_debug_fde(&b, 0xfffffff0, 8, 0, false);
	struct result r = parse_debug(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.bad_fdes, 2);
}

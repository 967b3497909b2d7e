/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "parse/cfi.h"
#include "parse/elf_image.h"
#include "tests/support/cfi_rules.h"

/* ---- Building a section ---- */

enum {
	VADDR = 0x10000,
	CODE = 0x40000,
	CODE_SIZE = 0x1000
};

struct bytes {
	uint8_t data[8192];
	size_t length;
};

static void put(struct bytes *b, const void *from, size_t length)
{
	cr_assert_leq(b->length + length, sizeof(b->data));
	if (length > 0)
		memcpy(b->data + b->length, from, length);
	b->length += length;
}

static void put_int(struct bytes *b, uint64_t value, size_t size)
{
	put(b, &value, size);
}

static size_t entry_start(struct bytes *b)
{
	put_int(b, 0, 4);
	return b->length;
}

static void entry_end(struct bytes *b, size_t at_body)
{
	uint32_t length = (uint32_t)(b->length - at_body);

	memcpy(b->data + at_body - 4, &length, 4);
}

struct code {
	const uint8_t *bytes;
	size_t length;
};
#define CODE(...)                                                                                  \
	((struct code){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})
#define NONE ((struct code){NULL, 0})

/* The program of every CIE on x86-64: CFA = rsp + 8, return address at CFA - 8. */
#define USUAL CODE(0x0c, 7, 8, 0x90, 1)

/* Appends a CIE of version 1 and returns its offset. `data` is the augmentation data with its length.
 */
static size_t put_cie(struct bytes *b, const char *augmentation, struct code data, struct code code)
{
	size_t at_body = entry_start(b);

	put_int(b, 0, 4);
	put_int(b, 1, 1);
	put(b, augmentation, strlen(augmentation) + 1);
	put(b, (uint8_t[]){1, 0x78, 16}, 3);
	put(b, data.bytes, data.length);
	put(b, code.bytes, code.length);
	entry_end(b, at_body);
	return at_body - 4;
}

static size_t put_usual_cie(struct bytes *b)
{
	return put_cie(b, "zR", CODE(1, 0x1b), USUAL);
}

static size_t fde_start(struct bytes *b, size_t cie)
{
	size_t at_body = entry_start(b);

	put_int(b, b->length - cie, 4);
	return at_body;
}

/* Appends an FDE for a CIE with pcrel sdata4 and 'z'. */
static void put_fde(struct bytes *b, size_t cie, uint64_t start, uint32_t size, struct code code)
{
	size_t at_body = fde_start(b, cie);

	put_int(b, start - (VADDR + b->length), 4);
	put_int(b, size, 4);
	put_int(b, 0, 1);
	put(b, code.bytes, code.length);
	entry_end(b, at_body);
}

enum {
	FDES_MAX = 8,
	ROWS_MAX = 64
};

struct result {
	int rc;
	struct cfi_stats stats;
	uint64_t unknown_rows; /* with CFI_CFA_UNKNOWN */
	struct {
		uint64_t start, end;
		unsigned int row_count;
		uint64_t starts[ROWS_MAX];
		struct cfi_rule rules[ROWS_MAX];
	} fdes[FDES_MAX];
	unsigned int count;
	struct cfi_rules rule_ids;
};

static int collect_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct result *r = context;

	return cfi_rules_id(&r->rule_ids, rule, id);
}

static int collect(void *context, const struct cfi_fde *fde)
{
	struct result *r = context;

	cr_assert_lt(fde->start, fde->end);
	cr_assert_gt(fde->row_count, 0);
	cr_assert_eq(fde->rows[0].at, 0);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const struct cfi_rule *rule = &r->rule_ids.rules[fde->rows[i].rule];

		cr_assert_lt(fde->rows[i].rule, r->rule_ids.count);
		cr_assert_lt(fde->rows[i].at, fde->end - fde->start);
		cr_assert(!i || fde->rows[i - 1].at < fde->rows[i].at);
		cr_assert(!i || fde->rows[i - 1].rule != fde->rows[i].rule);
		r->unknown_rows += rule->cfa_kind == CFI_CFA_UNKNOWN;
		if (r->count < FDES_MAX && i < ROWS_MAX) {
			r->fdes[r->count].starts[i] = fde->start + fde->rows[i].at;
			r->fdes[r->count].rules[i] = *rule;
		}
	}
	if (r->count < FDES_MAX) {
		r->fdes[r->count].start = fde->start;
		r->fdes[r->count].end = fde->end;
		r->fdes[r->count].row_count = fde->row_count;
	}
	r->count++;
	return 0;
}

static const struct cfi_budget plenty = {1000000, 1000000, 10000000};

/* The bytes of a section in memory, and the size of the window over them (0: the usual one). */
struct input {
	struct elf_buffer buffer;
	struct elf_source source;
	struct elf_window window;
};

static struct elf_window *input_window(struct input *input, const void *data, size_t length,
				       size_t step)
{
	input->buffer = (struct elf_buffer){data, length};
	input->source = elf_source_from_buffer(&input->buffer);
	elf_window_init(&input->window, &input->source, 0, length);
	if (step)
		input->window.step = step;
	return &input->window;
}

/* Parses the bytes; all fields of `section` but the window are set. */
static struct result parse_with(const struct bytes *b, struct cfi_section section,
				const struct cfi_budget *budget, size_t step)
{
	struct result r = {0};
	const struct cfi_sink sink = {.context = &r, .rule = collect_rule, .fde = collect};
	struct input input;

	cr_assert_eq(cfi_rules_init(&r.rule_ids), 0);
	section.window = input_window(&input, b->data, b->length, step);
	r.rc = cfi_parse(&section, budget, &sink, &r.stats);
	elf_window_fini(&input.window);
	cfi_rules_fini(&r.rule_ids);
	return r;
}

static const struct cfi_section usual_section = {
    .vaddr = VADDR, .text_vaddr = 0x1000000, .data_vaddr = 0x2000000};

static struct result parse(const struct bytes *b)
{
	return parse_with(b, usual_section, &plenty, 0);
}

static struct result parse_debug(const struct bytes *b)
{
	return parse_with(b, (struct cfi_section){.debug_frame = true}, &plenty, 0);
}

/* Parses one FDE with this program and the usual CIE. */
static struct result run(struct code code)
{
	struct bytes b = {.length = 0};

	put_fde(&b, put_usual_cie(&b), CODE, CODE_SIZE, code);
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	return r;
}

/* The rule of the usual CIE, with the fields that differ. Later initialisers override it. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define RULE(...)                                                                                  \
	((struct cfi_rule){.cfa_kind = CFI_CFA_REGISTER,                                           \
			   .cfa_register = 7,                                                      \
			   .cfa_offset = 8,                                                        \
			   .ra_kind = CFI_SAVE_CFA,                                                \
			   .ra_offset = -8,                                                        \
			   __VA_ARGS__})

static void check_row(const struct result *r, unsigned int i, uint64_t start, struct cfi_rule want)
{
	const struct cfi_rule *got = &r->fdes[0].rules[i];

	cr_assert_eq(r->count, 1, "%u FDEs, %lu bad", r->count, r->stats.bad_fdes);
	cr_assert_lt(i, r->fdes[0].row_count);
	cr_assert_eq(r->fdes[0].starts[i], start, "row %u starts at %#lx", i, r->fdes[0].starts[i]);
	cr_assert_eq(memcmp(got, &want, sizeof(want)), 0,
		     "row %u: cfa %d r%d %d %d, fp %d r%d %d, ra %d r%d %d, signal %d", i,
		     got->cfa_kind, got->cfa_register, got->cfa_offset, got->cfa_add, got->fp_kind,
		     got->fp_register, got->fp_offset, got->ra_kind, got->ra_register,
		     got->ra_offset, got->signal_frame);
}

/* Checks that the program makes one row, at the start of the function. */
#define CHECK_ONE(code, ...)                                                                       \
	do {                                                                                       \
		struct result r_ = run(code);                                                      \
		check_row(&r_, 0, CODE, RULE(__VA_ARGS__));                                        \
		cr_assert_eq(r_.fdes[0].row_count, 1);                                             \
	} while (0)

/* Checks that the program makes its FDE invalid, and no other. */
static void check_bad(struct code code)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	put_fde(&b, cie, CODE, CODE_SIZE, code);
	put_fde(&b, cie, CODE + CODE_SIZE, CODE_SIZE, NONE);
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.bad_fdes, 1);
	cr_assert_eq(r.stats.fdes, 1);
	cr_assert_eq(r.stats.rows, 1);
	cr_assert_not(r.stats.truncated);
	cr_assert_eq(r.fdes[0].start, CODE + CODE_SIZE);
}

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
	CHECK_ONE(CODE(0x09, 16, 5), .ra_kind = CFI_SAVE_IN_REGISTER, .ra_register = 5, .ra_offset = 0);
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

/* The number of FDEs that are delivered for a CIE with this augmentation and data. */
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

/* ---- Budgets ---- */

static struct result budgeted(const struct bytes *b, struct cfi_budget budget)
{
	return parse_with(b, usual_section, &budget, 0);
}

Test(cfi, each_budget_ends_the_parse)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b); /* two instructions */

	for (uint64_t i = 0; i < 3; i++) /* two instructions, two rows each */
		put_fde(&b, cie, CODE + 16 * i, 16, CODE(0x41, 0x0e, 16));
	struct result r = budgeted(&b, (struct cfi_budget){3, 6, 8});
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.rows, 6);
	cr_assert_not(r.stats.truncated);

	static const struct cfi_budget small[] = {
	    {2, 6, 8}, {3, 5, 8}, {3, 4, 8}, {3, 6, 7}, {3, 6, 6}};
	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
		r = budgeted(&b, small[i]);
		cr_assert_eq(r.rc, -E2BIG, "%zu", i);
		cr_assert(r.stats.truncated);
		cr_assert_eq(r.count, 2, "what came before was delivered");
		cr_assert_eq(r.stats.fdes, 2);
		cr_assert_eq(r.stats.rows, 4);
	}
	cr_assert_eq(budgeted(&b, (struct cfi_budget){3, 6, 1}).rc, -E2BIG, "within the CIE");
	cr_assert_eq(budgeted(&b, (struct cfi_budget){3, 0, 8}).rc, -E2BIG);
	cr_assert_eq(budgeted(&b, (struct cfi_budget){0, 6, 8}).rc, -E2BIG);
}

Test(cfi, a_cie_is_run_once)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	for (uint64_t i = 0; i < 100; i++)
		put_fde(&b, cie, CODE + 16 * i, 16, NONE);
	struct result r = budgeted(&b, (struct cfi_budget){100, 100, 2});
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.fdes, 100);
}

Test(cfi, a_function_may_have_many_rows)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);
	size_t at_body = fde_start(&b, cie);

	put_int(&b, CODE - (VADDR + b.length), 4);
	put_int(&b, CODE_SIZE, 4);
	put_int(&b, 0, 1);
	for (unsigned int i = 0; i < 1000; i++)
		put(&b, (uint8_t[]){0x41, 0x0e, (uint8_t)(16 + i % 2)}, 3);
	entry_end(&b, at_body);
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.fdes[0].row_count, 1001);
	r = budgeted(&b, (struct cfi_budget){1, 1000, UINT64_MAX});
	cr_assert_eq(r.rc, -E2BIG);
	cr_assert_eq(r.count, 0);
}

static int identify_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	(void)context;
	*id = (uint32_t)rule->cfa_offset;
	return 0;
}

static int refuse_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	(void)context;
	(void)rule;
	(void)id;
	return -ENOSPC;
}

static int refuse(void *context, const struct cfi_fde *fde)
{
	(void)fde;
	return ++*(int *)context == 2 ? -ECANCELED : 0;
}

static bool want_second(void *context, uint64_t start, uint64_t end)
{
	(void)context;
	cr_assert_eq(end - start, 16);
	return start == CODE + 16;
}

static int count_calls(void *context, const struct cfi_fde *fde)
{
	cr_assert_eq(fde->start, CODE + 16);
	++*(int *)context;
	return 0;
}

/* Three functions of 16 bytes and two rows each. */
static struct cfi_section section_of_three(struct bytes *b, struct input *input)
{
	size_t cie = put_usual_cie(b);
	struct cfi_section section = usual_section;

	for (uint64_t i = 0; i < 3; i++)
		put_fde(b, cie, CODE + 16 * i, 16, CODE(0x41, 0x0e, 16));
	section.window = input_window(input, b->data, b->length, 0);
	return section;
}

Test(cfi, an_error_of_the_sink_ends_the_parse)
{
	struct bytes b = {.length = 0};
	struct input input;
	const struct cfi_section section = section_of_three(&b, &input);
	struct cfi_stats stats;
	int calls = 0;

	struct cfi_sink sink = {.context = &calls, .rule = identify_rule, .fde = refuse};
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), -ECANCELED);
	cr_assert_eq(calls, 2);
	sink.rule = refuse_rule;
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), -ENOSPC);
	cr_assert_eq(calls, 2);
	elf_window_fini(&input.window);
}

/* The program of an FDE that the sink does not want is not run. */
Test(cfi, unwanted_fdes_cost_nothing)
{
	struct bytes b = {.length = 0};
	struct input input;
	const struct cfi_section section = section_of_three(&b, &input);
	struct cfi_stats stats;
	int calls = 0;

	const struct cfi_sink sink = {
	    .context = &calls, .want = want_second, .rule = identify_rule, .fde = count_calls};
	cr_assert_eq(cfi_parse(&section, &(struct cfi_budget){3, 2, 4}, &sink, &stats), 0);
	cr_assert_eq(calls, 1);
	cr_assert_eq(stats.fdes, 1);
	cr_assert_eq(stats.rows, 2);
	cr_assert_eq(stats.bad_fdes, 0);
	elf_window_fini(&input.window);
}

/* ---- Caches and windows ---- */

/* More shapes and rules than the caches hold are used in turn. */
Test(cfi, more_rules_than_the_caches_hold_are_correct)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	for (unsigned int i = 0; i < 200; i++) {
		uint8_t at = (uint8_t)(2 + i % 100);

		put_fde(&b, cie, CODE + 64 * i, 64,
			CODE(0x41, 0x0e, 16, 0x86, at, 0x41, 0x83, at, 0x41, 0x0e, at, 0x41, 0xc6));
	}
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	cr_assert_eq(r.stats.bad_fdes, 0);
	cr_assert_eq(r.stats.rows, 200 * 5 - 2, "one row less where the offset is 16 already");
	for (unsigned int i = 0; i < FDES_MAX; i++) {
		const struct cfi_rule *rules = r.fdes[i].rules;
		const unsigned int last = r.fdes[i].row_count - 1;

		cr_assert_eq(rules[1].fp_offset, -8 * (2 + (int)i));
		cr_assert_eq(rules[1].bx_kind, CFI_SAVE_SAME);
		cr_assert_eq(rules[2].bx_offset, -8 * (2 + (int)i));
		cr_assert_eq(rules[last].cfa_offset, 2 + (int)i);
		cr_assert_eq(rules[last].fp_kind, CFI_SAVE_SAME);
		cr_assert_eq(rules[last].bx_offset, -8 * (2 + (int)i));
	}
}

/* DW_CFA_offset and DW_CFA_restore depend on the CIE. */
Test(cfi, cached_changes_are_not_mixed_between_cies)
{
	struct bytes b = {.length = 0};
	size_t first = put_usual_cie(&b), at_body = entry_start(&b);

	/* Data alignment -4, rbp saved at CFA - 12 from the start. */
	put_int(&b, 0, 4);
	put(&b, (uint8_t[]){1, 'z', 'R', 0, 1, 0x7c, 16, 1, 0x1b}, 9);
	put(&b, (uint8_t[]){0x0c, 7, 8, 0x90, 2, 0x86, 3}, 7);
	entry_end(&b, at_body);
	for (unsigned int i = 0; i < 4; i++)
		put_fde(&b, i % 2 ? at_body - 4 : first, CODE + 64 * i, 64,
			CODE(0x86, 4, 0x41, 0xc6));
	struct result r = parse(&b);
	cr_assert_eq(r.count, 4);
	for (unsigned int i = 0; i < 4; i++) {
		const struct cfi_rule *rules = r.fdes[i].rules;

		cr_assert_eq(r.fdes[i].row_count, 2);
		cr_assert_eq(rules[0].fp_offset, i % 2 ? -16 : -32);
		cr_assert_eq(rules[1].fp_kind, i % 2 ? CFI_SAVE_CFA : CFI_SAVE_SAME);
		cr_assert_eq(rules[1].fp_offset, i % 2 ? -12 : 0);
	}
}

Test(cfi, every_register_can_be_the_base_of_the_cfa)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	for (unsigned int half = 0; half < 2; half++) {
		b.length = 0;
		put_usual_cie(&b);
		for (unsigned int i = 0; i < FDES_MAX; i++)
			put_fde(&b, cie, CODE + 64 * i, 64,
				CODE(0x0d, (uint8_t)(half * FDES_MAX + i)));
		struct result r = parse(&b);
		for (unsigned int i = 0; i < FDES_MAX; i++)
			cr_assert_eq(r.fdes[i].rules[0].cfa_register, half * FDES_MAX + i);
	}
}

Test(cfi, windows_of_any_size_give_the_same_result)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b);

	for (uint64_t i = 0; i < 5; i++)
		put_fde(&b, cie, CODE + 16 * i, 16,
			CODE(0x41, 0x0e, (uint8_t)(16 + 8 * i), 0x41, 0x0e, 8));
	put_cie(&b, "zR", CODE(1, 0x1b), USUAL);
	put_int(&b, 0, 4);
	for (size_t step = 1; step < b.length + 2; step++) {
		for (size_t cut = 0; cut < 50; cut++) {
			struct bytes less = b;

			less.length -= cut;
			struct result whole = parse_with(&less, usual_section, &plenty, 0);
			struct result r = parse_with(&less, usual_section, &plenty, step);
			memset(&whole.rule_ids, 0, sizeof(whole.rule_ids));
			memset(&r.rule_ids, 0, sizeof(r.rule_ids));
			cr_assert_eq(memcmp(&r, &whole, sizeof(r)), 0, "step %zu cut %zu", step,
				     cut);
		}
	}
}

/* Parses one FDE that saves rbp in `count` places, all at the same location. */
static struct result many_shapes(uint32_t count, uint64_t instructions)
{
	struct bytes b = {.length = 0};
	size_t cie = put_usual_cie(&b), at_body = fde_start(&b, cie);
	struct result r = {0};
	const struct cfi_sink sink = {.context = &r, .rule = collect_rule, .fde = collect};
	struct cfi_section section = usual_section;
	struct input input;

	put_int(&b, CODE - (VADDR + b.length), 4);
	put_int(&b, CODE_SIZE, 4);
	put_int(&b, 0, 1);
	_cleanup_free_ uint8_t *data = malloc(b.length + 4 * count);
	memcpy(data, b.data, b.length);
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t code[] = {0x86, 0x80 | (i & 0x7f), 0x80 | (i >> 7 & 0x7f),
					i >> 14 & 0x7f};

		memcpy(data + b.length + 4 * i, code, 4);
	}
	const uint32_t length = (uint32_t)(b.length - at_body + 4 * count);
	memcpy(data + at_body - 4, &length, 4);
	cr_assert_eq(cfi_rules_init(&r.rule_ids), 0);
	section.window = input_window(&input, data, b.length + 4 * count, 0);
	r.rc = cfi_parse(&section, &(struct cfi_budget){1, 100, instructions}, &sink, &r.stats);
	elf_window_fini(&input.window);
	cfi_rules_fini(&r.rule_ids);
	return r;
}

Test(cfi, the_number_of_shapes_is_limited)
{
	struct result r = many_shapes(60000, UINT64_MAX);

	check_row(&r, 0, CODE, RULE(.fp_kind = CFI_SAVE_CFA, .fp_offset = -8 * 59999));
	r = many_shapes(70000, UINT64_MAX);
	cr_assert_eq(r.rc, -E2BIG);
	cr_assert(r.stats.truncated);
	cr_assert_eq(r.count, 0);
	/* Searching for shapes has a budget, too: a program cannot consist of nothing else. */
	cr_assert_eq(many_shapes(60000, 60002).rc, -E2BIG);
}

/* Every byte of a valid section is changed to every value. collect() and the sanitizers check. */
Test(cfi, survives_every_changed_byte)
{
	struct bytes b = {.length = 0};
	size_t cie = put_cie(&b, "zPLR", CODE(7, 0x1b, 1, 2, 3, 4, 0x1b, 0x1b), USUAL);

	put_fde(&b, cie, CODE, CODE_SIZE,
		CODE(0x41, 0x0e, 16, 0x0a, 0x02, 0x20, 0x0f, 3, 0x76, 0x78, 0x06, 0x41, 0x0b));
	for (size_t i = 0; i < b.length; i++) {
		uint8_t good = b.data[i];

		for (unsigned int value = 0; value < 256; value++) {
			b.data[i] = (uint8_t)value;
			cr_assert_eq(parse(&b).rc, 0);
		}
		b.data[i] = good;
	}
}

/* ---- Against libdw ---- */

struct truth {
	struct cfi_rules rule_ids;
	Dwarf_CFI *cfi;
	unsigned long fdes, rows, unknown_rows, checked, skip;
	const char *path;
};

/* Converts one of libdw's locations to a rule. `deref`: it is the place where a register is saved. */
static void save_from_ops(const Dwarf_Op *ops, size_t count, const Dwarf_Op *memory, uint8_t *kind,
			  uint8_t *reg, int32_t *offset)
{
	*kind = CFI_SAVE_UNKNOWN;
	*reg = 0;
	*offset = 0;
	if (count == 0) {
		*kind = ops == memory ? CFI_SAVE_UNDEFINED : CFI_SAVE_SAME;
		return;
	}
	bool from_cfa = ops[0].atom == DW_OP_call_frame_cfa;
	if (from_cfa) {
		ops++;
		count--;
	}
	if (count == 0) {
		*kind = CFI_SAVE_CFA;
	} else if (count == 1 && ops[0].atom == DW_OP_plus_uconst && from_cfa) {
		*kind = CFI_SAVE_CFA;
		*offset = (int32_t)ops[0].number;
	} else if (count == 1 && ops[0].atom == DW_OP_regx && ops[0].number < 16) {
		*kind = CFI_SAVE_IN_REGISTER;
		*reg = (uint8_t)ops[0].number;
	} else if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
		*kind = CFI_SAVE_IN_REGISTER;
		*reg = ops[0].atom - DW_OP_reg0;
	} else if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg15) {
		*kind = CFI_SAVE_REGISTER;
		*reg = ops[0].atom - DW_OP_breg0;
		*offset = (int32_t)ops[0].number;
	} else if (count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < 16) {
		*kind = CFI_SAVE_REGISTER;
		*reg = (uint8_t)ops[0].number;
		*offset = (int32_t)ops[0].number2;
	}
}

static void cfa_from_ops(const Dwarf_Op *ops, size_t count, struct cfi_rule *rule)
{
	static const uint8_t plt[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15,
				      DW_OP_and,   DW_OP_lit11,	 DW_OP_ge,
				      DW_OP_lit3,  DW_OP_shl,	 DW_OP_plus};
	uint64_t reg = 99;
	int64_t offset = 0;

	if (count == sizeof(plt)) {
		bool same = true;

		for (size_t i = 0; i < count; i++)
			same &= ops[i].atom == plt[i] ||
				(i == 4 && ops[i].atom >= DW_OP_lit0 && ops[i].atom <= DW_OP_lit15);
		if (same && ops[0].number == 8 && ops[1].number == 0) {
			rule->cfa_kind = CFI_CFA_PLT;
			rule->cfa_offset = 8;
			rule->cfa_add = ops[4].atom - DW_OP_lit0;
		}
		return;
	}
	if (ops[0].atom == DW_OP_bregx) {
		reg = ops[0].number;
		offset = (int64_t)ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		reg = ops[0].atom - DW_OP_breg0;
		offset = (int64_t)ops[0].number;
	}
	if (reg > 15 || (count > 1 && ops[1].atom != DW_OP_deref) || count > 3 ||
	    (count == 3 && ops[2].atom != DW_OP_plus_uconst))
		return;
	rule->cfa_kind = count == 1 ? CFI_CFA_REGISTER : CFI_CFA_DEREF;
	rule->cfa_register = (uint8_t)reg;
	rule->cfa_offset = (int32_t)offset;
	rule->cfa_add = count == 3 ? (int32_t)ops[2].number : 0;
}

static void check_against(const struct truth *t, uint64_t address, struct cfi_rule mine)
{
	struct cfi_rule theirs = {0};
	Dwarf_Frame *frame = NULL;
	Dwarf_Op memory[3], *ops;
	Dwarf_Addr start, end;
	bool signal_frame;
	size_t count;

	cr_assert_eq(dwarf_cfi_addrframe(t->cfi, address, &frame), 0, "%s %#lx: %s", t->path,
		     address, dwarf_errmsg(-1));
	cr_assert_geq(dwarf_frame_info(frame, &start, &end, &signal_frame), 0);
	cr_assert(start <= address && address < end);
	theirs.signal_frame = signal_frame;
	cr_assert_eq(dwarf_frame_cfa(frame, &ops, &count), 0);
	cfa_from_ops(ops, count, &theirs);
	cr_assert_eq(dwarf_frame_register(frame, 6, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.fp_kind, &theirs.fp_register, &theirs.fp_offset);
	cr_assert_eq(dwarf_frame_register(frame, 16, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.ra_kind, &theirs.ra_register, &theirs.ra_offset);
	uint8_t unused;
	cr_assert_eq(dwarf_frame_register(frame, 3, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.bx_kind, &unused, &theirs.bx_offset);
	/* libdw's table of what the ABI preserves gives rbx the number 0, so an rbx without a rule is "undefined" to it. */
	if (theirs.bx_kind == CFI_SAVE_UNDEFINED && mine.bx_kind == CFI_SAVE_SAME)
		theirs.bx_kind = CFI_SAVE_SAME;
	if (theirs.bx_kind != CFI_SAVE_SAME && theirs.bx_kind != CFI_SAVE_CFA) {
		theirs.bx_kind = CFI_SAVE_UNKNOWN;
		theirs.bx_offset = 0;
	}
	/* No rule at all is "undefined" to libdw. */
	if (mine.ra_kind == CFI_SAVE_SAME)
		mine.ra_kind = CFI_SAVE_UNDEFINED;
	cr_assert_eq(
	    memcmp(&mine, &theirs, sizeof(mine)), 0,
	    "%s %#lx: cfa %d r%d%+d+%d / %d r%d%+d+%d, fp %d r%d%+d / %d r%d%+d, ra %d r%d%+d / "
	    "%d r%d%+d, bx %d%+d / %d%+d, signal %d / %d",
	    t->path, address, mine.cfa_kind, mine.cfa_register, mine.cfa_offset, mine.cfa_add,
	    theirs.cfa_kind, theirs.cfa_register, theirs.cfa_offset, theirs.cfa_add, mine.fp_kind,
	    mine.fp_register, mine.fp_offset, theirs.fp_kind, theirs.fp_register, theirs.fp_offset,
	    mine.ra_kind, mine.ra_register, mine.ra_offset, theirs.ra_kind, theirs.ra_register,
	    theirs.ra_offset, mine.bx_kind, mine.bx_offset, theirs.bx_kind,
	    theirs.bx_offset, mine.signal_frame, theirs.signal_frame);
	free(frame);
}

/* Compares every `skip`th row, and every unusual one, at its first and last address. */
static int compare_fde(void *context, const struct cfi_fde *fde)
{
	struct truth *t = context;

	t->fdes++;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const struct cfi_rule *rule = &t->rule_ids.rules[fde->rows[i].rule];
		uint64_t start = fde->start + fde->rows[i].at;
		uint64_t end =
		    i + 1 < fde->row_count ? fde->start + fde->rows[i + 1].at : fde->end;

		bool odd = rule->cfa_kind != CFI_CFA_REGISTER || rule->signal_frame ||
			   rule->fp_kind > CFI_SAVE_CFA || rule->ra_kind != CFI_SAVE_CFA;
		t->unknown_rows += rule->cfa_kind == CFI_CFA_UNKNOWN;
		if (t->rows++ % t->skip != 0 && !odd)
			continue;
		check_against(t, start, *rule);
		check_against(t, end - 1, *rule);
		t->checked += 2;
	}
	return 0;
}

static int truth_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct truth *t = context;

	return cfi_rules_id(&t->rule_ids, rule, id);
}

static int count_fde(void *context, const struct cfi_fde *fde)
{
	(void)context;
	(void)fde;
	return 0;
}

/* Goes through the FDEs with libdw, in the section as it is in the file. */
static unsigned long count_entries(Elf *elf, const uint8_t *bytes, size_t length)
{
	Elf_Data data = {.d_buf = (void *)bytes, .d_size = length, .d_type = ELF_T_BYTE};
	Dwarf_Off offset = 0, next;
	unsigned long fdes = 0;
	Dwarf_CFI_Entry entry;

	while (dwarf_next_cfi((const unsigned char *)elf_getident(elf, NULL), &data, true, offset,
			      &next, &entry) == 0) {
		fdes += entry.CIE_id != DW_CIE_ID_64;
		offset = next;
	}
	return fdes;
}

static int fd_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(int *)context, buffer, length, (off_t)offset);

	return n == (ssize_t)length ? 0 : -ENODATA;
}

static bool compare_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *data = NULL;
	struct truth truth = {.path = path};
	struct elf_image image;
	struct cfi_stats stats;
	size_t length;
	struct stat st;

	if (fd < 0)
		return false;
	cr_assert_eq(fstat(fd, &st), 0);
	struct elf_source source = {.read = fd_read, .context = &fd, .size = (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&image, &source), 0, "%s", path);
	const struct elf_section *s = elf_image_find_section(&image, ".eh_frame");
	cr_assert_not_null(s);
	cr_assert_eq(elf_image_read_section(&image, s, 1 << 30, &data, &length), 0);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	truth.cfi = dwarf_getcfi_elf(elf);
	cr_assert_not_null(truth.cfi);

	struct elf_window window;
	struct cfi_section section = {.window = &window, .vaddr = s->vaddr};
	struct cfi_sink sink = {.context = &truth, .rule = truth_rule, .fde = count_fde};
	cr_assert_eq(cfi_rules_init(&truth.rule_ids), 0);
	cr_assert_eq(elf_window_init_section(&window, &image, s, 1 << 30), 0);
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), 0);
	const unsigned long rows = stats.rows;
	truth.skip = rows / 5000 + 1;
	sink.fde = compare_fde;
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), 0);
	cr_assert_eq(stats.bad_fdes, 0);
	/* libcrypto computes three CFAs from two registers; libdw must have called each of those
	 * unknown, too. */
	cr_assert_leq(truth.unknown_rows, 3, "%s", path);
	cr_assert_not(stats.truncated);
	cr_assert_eq(stats.fdes, count_entries(elf, data, length));
	cr_assert_eq(stats.rows, rows);
	cr_log_info("%s: %lu FDEs, %lu rows, %lu addresses compared", path, truth.fdes, rows,
		    truth.checked);
	dwarf_cfi_end(truth.cfi);
	elf_window_fini(&window);
	cfi_rules_fini(&truth.rule_ids);
	elf_end(elf);
	elf_image_fini(&image);
	return true;
}

Test(cfi, agrees_with_libdw, .timeout = 300)
{
	static const char *const paths[] = {
	    "/lib/x86_64-linux-gnu/libc.so.6",
	    "/lib64/libc.so.6",
	    "/lib64/ld-linux-x86-64.so.2",
	    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
	    "/usr/bin/gdb",
	    "/usr/bin/cmake",
	    "/usr/bin/python3",
	};
	unsigned int files = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		files += compare_file(paths[i]);
	cr_assert_gt(files, 1, "not even a libc and a loader");
}

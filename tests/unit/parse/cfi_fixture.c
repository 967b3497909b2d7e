/* SPDX-License-Identifier: Apache-2.0 */
#include "cfi_fixture.h"

const struct cfi_budget plenty = {1000000, 1000000, 10000000};

const struct cfi_section usual_section = {
    .vaddr = VADDR, .text_vaddr = 0x1000000, .data_vaddr = 0x2000000};

void put(struct bytes *b, const void *from, size_t length)
{
	cr_assert_leq(b->length + length, sizeof(b->data));
	if (length > 0)
		memcpy(b->data + b->length, from, length);
	b->length += length;
}

void put_int(struct bytes *b, uint64_t value, size_t size)
{
	put(b, &value, size);
}

size_t entry_start(struct bytes *b)
{
	put_int(b, 0, 4);
	return b->length;
}

void entry_end(struct bytes *b, size_t at_body)
{
	uint32_t length = (uint32_t)(b->length - at_body);

	memcpy(b->data + at_body - 4, &length, 4);
}

size_t put_cie(struct bytes *b, const char *augmentation, struct code data, struct code code)
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

size_t put_usual_cie(struct bytes *b)
{
	return put_cie(b, "zR", CODE(1, 0x1b), USUAL);
}

size_t fde_start(struct bytes *b, size_t cie)
{
	size_t at_body = entry_start(b);

	put_int(b, b->length - cie, 4);
	return at_body;
}

void put_fde(struct bytes *b, size_t cie, uint64_t start, uint32_t size, struct code code)
{
	size_t at_body = fde_start(b, cie);

	put_int(b, start - (VADDR + b->length), 4);
	put_int(b, size, 4);
	put_int(b, 0, 1);
	put(b, code.bytes, code.length);
	entry_end(b, at_body);
}

int collect_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct result *r = context;

	return cfi_rules_id(&r->rule_ids, rule, id);
}

int collect(void *context, const struct cfi_fde *fde)
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

struct elf_window *input_window(struct input *input, const void *data, size_t length, size_t step)
{
	input->buffer = (struct elf_buffer){data, length};
	input->source = elf_source_from_buffer(&input->buffer);
	elf_window_init(&input->window, &input->source, 0, length);
	if (step)
		input->window.step = step;
	return &input->window;
}

struct result parse_with(const struct bytes *b, struct cfi_section section,
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

struct result parse(const struct bytes *b)
{
	return parse_with(b, usual_section, &plenty, 0);
}

struct result parse_debug(const struct bytes *b)
{
	return parse_with(b, (struct cfi_section){.debug_frame = true}, &plenty, 0);
}

struct result run(struct code code)
{
	struct bytes b = {.length = 0};

	put_fde(&b, put_usual_cie(&b), CODE, CODE_SIZE, code);
	struct result r = parse(&b);
	cr_assert_eq(r.rc, 0);
	return r;
}

void check_row(const struct result *r, unsigned int i, uint64_t start, struct cfi_rule want)
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

void check_bad(struct code code)
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

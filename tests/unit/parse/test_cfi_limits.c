/* SPDX-License-Identifier: Apache-2.0 */
/* Tests budgets, caches, windows and sinks, and that a damaged section is survived. */
#include "cfi_fixture.h"

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

/* Returns a section with three functions of 16 bytes and two rows each. */
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
	for (size_t cut = 0; cut < 50; cut++) {
		struct bytes less = b;

		less.length -= cut;
		struct result whole = parse_with(&less, usual_section, &plenty, 0);
		memset(&whole.rule_ids, 0, sizeof(whole.rule_ids));
		for (size_t step = 1; step < b.length + 2; step++) {
			struct result r = parse_with(&less, usual_section, &plenty, step);
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

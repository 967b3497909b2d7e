/* SPDX-License-Identifier: Apache-2.0 */
/* Proves on small files that a test makes: which functions of a Go program are followed instead of
 * read from its tables, which lists are refused, which errors and limits end a parse, and that
 * forged lists cost a limited number of reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "go_fixture.h"
#include "parse/go_rows.h"
#include "tests/support/cfi_rules.h"
#include "tests/unit/parse/go_rule.h"

enum {
	ROWS_MAX = 1 << 20, /* more than any file has */
	/* What parsing the fixture costs: its functions, and the pairs of three lists. */
	FIXTURE_COST = GO_FUNCTIONS + 5 + 1 + 2,
	DELIVERED_MAX = 16,
	DELIVERED_ROWS_MAX = 8,
};

/* What a parse has delivered. */
struct delivered {
	struct cfi_rules rules;
	struct {
		uint64_t start, end;
		unsigned int row_count;
		struct cfi_row rows[DELIVERED_ROWS_MAX];
	} functions[DELIVERED_MAX];
	unsigned int function_count;
	struct {
		uint64_t start, end;
		bool abandons;
	} visits[DELIVERED_MAX];
	unsigned int visit_count;
	uint64_t rows, largest;
	int rule_error, fde_error, visit_error;
	uint64_t wanted; /* the only function that is wanted; 0: all are */
};

static int deliver_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct delivered *delivered = context;

	return delivered->rule_error ? delivered->rule_error
				     : cfi_rules_id(&delivered->rules, rule, id);
}

static int deliver_fde(void *context, const struct cfi_fde *fde)
{
	struct delivered *delivered = context;
	const unsigned int at = delivered->function_count++;

	cr_assert_lt(at, DELIVERED_MAX);
	delivered->functions[at].start = fde->start - GO_TEXT;
	delivered->functions[at].end = fde->end - GO_TEXT;
	delivered->functions[at].row_count = fde->row_count;
	for (unsigned int i = 0; i < fde->row_count && i < DELIVERED_ROWS_MAX; i++)
		delivered->functions[at].rows[i] = fde->rows[i];
	delivered->rows += fde->row_count;
	if (fde->row_count > delivered->largest)
		delivered->largest = fde->row_count;
	return delivered->fde_error;
}

static int deliver_visit(void *context, uint64_t start, uint64_t end, bool abandons)
{
	struct delivered *delivered = context;
	const unsigned int at = delivered->visit_count++;

	cr_assert_lt(at, DELIVERED_MAX);
	delivered->visits[at].start = start - GO_TEXT;
	delivered->visits[at].end = end - GO_TEXT;
	delivered->visits[at].abandons = abandons;
	return delivered->visit_error;
}

static bool deliver_want(void *context, uint64_t start, uint64_t end)
{
	struct delivered *delivered = context;

	cr_assert_lt(start, end);
	return !delivered->wanted || start == delivered->wanted;
}

/* Parses the rows of an opened file. `delivered` may contain errors to return, and has to be freed
 * with delivered_fini(). */
static int parse_opened(const struct go_opened *opened, uint64_t rows_max,
			struct delivered *delivered)
{
	const struct cfi_sink sink = {
	    .context = delivered, .want = deliver_want, .rule = deliver_rule, .fde = deliver_fde};

	cr_assert_eq(cfi_rules_init(&delivered->rules), 0);
	return go_rows_parse(&opened->module, &opened->source, rows_max, &sink, deliver_visit,
			     delivered);
}

static int parse(const struct go_fixture *fixture, uint64_t rows_max, struct delivered *delivered)
{
	struct go_opened opened;

	cr_assert_eq(go_open(&opened, &fixture->file), 0);
	return parse_opened(&opened, rows_max, delivered);
}

static void delivered_fini(struct delivered *delivered)
{
	cfi_rules_fini(&delivered->rules);
	*delivered = (struct delivered){0};
}

/* Checks that the function with this index was delivered with these rows. */
#define UNKNOWN (-1) /* in the place of a size: the rule says that nothing is known */

static void check_rows(const struct delivered *delivered, unsigned int at, uint64_t start,
		       uint64_t end, const struct go_pair *pairs, unsigned int count)
{
	cr_assert_lt(at, delivered->function_count);
	cr_expect_eq(delivered->functions[at].start, start);
	cr_expect_eq(delivered->functions[at].end, end);
	cr_assert_eq(delivered->functions[at].row_count, count);
	for (unsigned int i = 0; i < count; i++) {
		const struct cfi_row *row = &delivered->functions[at].rows[i];
		const struct cfi_rule *rule = &delivered->rules.rules[row->rule];

		cr_expect_eq(row->at, i ? pairs[i - 1].end : 0);
		if (pairs[i].value == UNKNOWN) {
			cr_expect_eq(rule->cfa_kind, CFI_CFA_UNKNOWN);
			continue;
		}
		cr_expect_eq(rule->cfa_offset, pairs[i].value + 8);
		go_check_rule(rule);
	}
}

/* The lists of the fixture. */
static const struct go_pair run_rows[] = {{0, 1}, {8, 4}, {40, 0x60}, {8, 0x61}, {0, 0x62}};
static const struct go_pair leaf_rows[] = {{0, 0x20}};
static const struct go_pair assembly_rows[] = {{0, 4}, {16, 0x20}};

Test(go_row_lists, are_those_of_the_lists_in_each_format)
{
	for (unsigned int format = 0; format <= GO_PIE; format++) {
		struct go_fixture fixture;
		struct delivered delivered = {0};

		go_fixture_init(&fixture, format);
		const int r = parse(&fixture, FIXTURE_COST, &delivered);
		cr_assert_eq(r, 0, "%d", r);
		cr_assert_eq(delivered.function_count, 4);
		check_rows(&delivered, 0, 0, 0x80, run_rows, 5);
		check_rows(&delivered, 1, 0x80, 0xa0, leaf_rows, 1);
		cr_expect_eq(delivered.functions[2].start, 0xa0);
		cr_expect_eq(delivered.functions[2].end, 0xb0);
		cr_expect_eq(delivered.functions[2].row_count, 1);
		const struct cfi_rule outermost = {.ra_kind = CFI_SAVE_UNDEFINED};
		cr_expect_eq(memcmp(&delivered.rules.rules[delivered.functions[2].rows[0].rule],
				    &outermost, sizeof(outermost)),
			     0);
		check_rows(&delivered, 3, 0xe0, 0x100, assembly_rows, 2);
		cr_assert_eq(delivered.visit_count, 3);
		cr_expect_eq(delivered.visits[0].start, 0xb0);
		cr_expect_eq(delivered.visits[0].end, 0xc0);
		cr_expect(delivered.visits[0].abandons);
		cr_expect_eq(delivered.visits[1].start, 0xc0);
		cr_expect_not(delivered.visits[1].abandons);
		cr_expect_eq(delivered.visits[2].start, 0xd0);
		cr_expect_eq(delivered.visits[2].end, 0xe0);
		cr_expect_not(delivered.visits[2].abandons);
		delivered_fini(&delivered);
	}
}

Test(go_row_lists, end_with_an_error_if_there_are_too_many)
{
	struct go_fixture fixture;
	struct delivered delivered = {0};

	go_fixture_init(&fixture, GO_1_20);
	for (uint64_t rows_max = 0; rows_max < FIXTURE_COST; rows_max++) {
		cr_expect_eq(parse(&fixture, rows_max, &delivered), -E2BIG);
		cr_expect_leq(delivered.rows, rows_max);
		delivered_fini(&delivered);
	}
}

Test(go_row_lists, pass_on_errors_and_ask_what_is_wanted)
{
	struct go_fixture fixture;
	struct delivered delivered = {.rule_error = -ENOSPC};

	go_fixture_init(&fixture, GO_1_20);
	cr_expect_eq(parse(&fixture, 100, &delivered), -ENOSPC);
	cr_expect_eq(delivered.function_count, 0);
	delivered_fini(&delivered);
	delivered.fde_error = -EIO;
	cr_expect_eq(parse(&fixture, 100, &delivered), -EIO);
	cr_expect_eq(delivered.function_count, 1);
	delivered_fini(&delivered);
	delivered.visit_error = -ENOLINK;
	cr_expect_eq(parse(&fixture, 100, &delivered), -ENOLINK);
	cr_expect_eq(delivered.visit_count, 1);
	delivered_fini(&delivered);
	delivered.wanted = GO_TEXT + 0x80;
	cr_expect_eq(parse(&fixture, 100, &delivered), 0);
	cr_expect_eq(delivered.visit_count, 0);
	cr_expect_eq(delivered.function_count, 1);
	check_rows(&delivered, 0, 0x80, 0xa0, leaf_rows, 1);
	delivered_fini(&delivered);
}

/* Gives main.leaf a list, and checks whether it is left out. The other functions are not. */
static void check_list(struct go_fixture *fixture, uint32_t list, const struct go_pair *pairs,
		       unsigned int count)
{
	struct delivered delivered = {0};

	go_fixture_set_list(fixture, 1, GO_LIST_SIZES, list);
	cr_assert_eq(parse(fixture, 100, &delivered), 0);
	cr_assert_eq(delivered.function_count, count ? 4 : 3);
	check_rows(&delivered, 0, 0, 0x80, run_rows, 5);
	if (count)
		check_rows(&delivered, 1, 0x80, 0xa0, pairs, count);
	delivered_fini(&delivered);
}

static void check_pairs(const struct go_pair *given, size_t given_count,
			const struct go_pair *pairs, unsigned int count)
{
	struct go_fixture fixture;

	go_fixture_init(&fixture, GO_1_20);
	check_list(&fixture, go_fixture_put_list(&fixture, given, given_count), pairs, count);
}

Test(go_row_lists, where_a_size_is_impossible_the_rule_is_unknown)
{
	const struct go_pair unknown[] = {{0, 4}, {UNKNOWN, 0x20}};

	check_pairs((const struct go_pair[]){{0, 4}, {12, 0x20}}, 2, unknown, 2);
	check_pairs((const struct go_pair[]){{0, 4}, {-8, 0x20}}, 2, unknown, 2);
	check_pairs((const struct go_pair[]){{0, 4}, {INT32_MIN, 0x20}}, 2, unknown, 2);
	/* runtime.call1073741824 has a frame of this size. */
	const struct go_pair largest[] = {{0, 4}, {(1 << 30) + 16, 0x20}};
	check_pairs(largest, 2, largest, 2);
}

Test(go_row_lists, hold_up_to_the_next_function_and_differ)
{
	/* The list continues after the function. */
	const struct go_pair longer[] = {{0, 4}, {8, 0x40}, {16, 0x60}};
	check_pairs(longer, 3, longer, 2);
	const struct go_pair shorter[] = {{0, 4}, {8, 0x10}};
	check_pairs(shorter, 2, shorter, 2);
}

Test(go_row_lists, a_function_without_a_list_is_left_out)
{
	struct go_fixture fixture;

	go_fixture_init(&fixture, GO_1_20);
	check_list(&fixture, 0, NULL, 0);
	check_list(&fixture, sizeof(fixture.file.values), NULL, 0);
	check_list(&fixture, UINT32_MAX, NULL, 0);
}

Test(go_row_lists, a_function_with_a_malformed_list_is_left_out)
{
	static const uint8_t too_long[] = {2, 4, 0x90, 0x80, 0x80, 0x80, 0x80, 0x01, 4, 0};
	static const uint8_t no_bytes[] = {2, 4, 0x10, 0, 0x0f, 0x1c, 0};
	static const uint8_t cut_off[] = {2, 4, 0x10};
	struct go_fixture fixture;

	go_fixture_init(&fixture, GO_1_20);
	check_list(&fixture, go_fixture_put_bytes(&fixture, too_long, sizeof(too_long)), NULL, 0);
	check_list(&fixture, go_fixture_put_bytes(&fixture, no_bytes, sizeof(no_bytes)), NULL, 0);
	const uint32_t end = sizeof(fixture.file.values) - sizeof(cut_off);
	memcpy(fixture.file.values + end, cut_off, sizeof(cut_off));
	check_list(&fixture, end, NULL, 0);
}

Test(go_row_lists, a_description_outside_of_the_table_is_left_out)
{
	struct go_fixture fixture;
	struct delivered delivered = {0};

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.functions[7] = sizeof(fixture.file.functions) - 41;
	fixture.file.functions[9] = UINT32_MAX;
	cr_assert_eq(parse(&fixture, 100, &delivered), 0);
	cr_expect_eq(delivered.visit_count, 0);
	cr_expect_eq(delivered.function_count, 3);
	cr_expect_eq(delivered.functions[2].start, 0xa0);
	delivered_fini(&delivered);
}

/* Reading them in any order would cost more than the table that there is. */
Test(go_row_lists, end_where_descriptions_are_out_of_order)
{
	struct go_fixture fixture;
	struct delivered delivered = {0};

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.functions[3] = fixture.file.functions[5] + 4;
	cr_assert_eq(parse(&fixture, 100, &delivered), 0);
	cr_expect_lt(delivered.function_count, 3);
	delivered_fini(&delivered);
}

Test(go_row_lists, end_where_functions_are_out_of_order)
{
	struct go_fixture fixture;
	struct delivered delivered = {0};

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.functions[4] = 0x9f; /* runtime.goexit starts within main.leaf */
	fixture.file.functions[6] = 0x90;
	cr_assert_eq(parse(&fixture, 100, &delivered), 0);
	cr_expect_eq(delivered.function_count, 2);
	cr_expect_eq(delivered.functions[1].end, 0x9f);
	cr_expect_eq(delivered.visit_count, 0);
	delivered_fini(&delivered);
}

/* deliver_want() checks that each function starts before its end. */
Test(go_row_lists, addresses_do_not_wrap)
{
	struct go_fixture fixture;
	struct go_opened opened;
	struct delivered delivered = {0};

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.module[GO_WORD_TEXT] = UINT64_MAX - 0x90;
	if (go_open(&opened, &fixture.file) == -ENOENT)
		return;
	cr_expect_eq(parse_opened(&opened, 100, &delivered), 0);
	delivered_fini(&delivered);
}

/* A file whose values continue without an end: pairs of sizes, each of which holds for some
 * bytes. */
#define ENDLESS_AT (1ull << 40)
#define ENDLESS_LIST 4

struct endless {
	struct elf_buffer buffer;
	uint64_t reads;
	uint8_t bytes; /* of code per pair */
};

static int read_endless(void *context, uint64_t offset, void *bytes, size_t length)
{
	struct endless *endless = context;
	const struct elf_source source = elf_source_from_buffer(&endless->buffer);
	uint8_t *to = bytes;

	if (offset < ENDLESS_AT)
		return source.read(source.context, offset, bytes, length);
	/* A parse without a limit would never end. */
	if (++endless->reads > 1 << 20)
		return -ENODATA;
	for (size_t i = 0; i < length; i++) {
		const uint64_t at = offset - ENDLESS_AT + i;

		/* +17 from -1, then -16 and +16 in turns */
		to[i] = at % 2 ? endless->bytes : at == ENDLESS_LIST ? 0x22 : at % 4 ? 0x1f : 0x20;
	}
	return 0;
}

/* Parses a file with values that have no end. The first function has 16 MiB, and the others follow
 * it. */
static int parse_endless(struct endless *endless, uint64_t rows_max, struct delivered *delivered)
{
	struct go_fixture fixture;
	struct go_opened opened;

	go_fixture_init(&fixture, GO_1_20);
	for (unsigned int i = 1; i <= GO_FUNCTIONS; i++)
		fixture.file.functions[2 * i] += 1 << 24;
	go_fixture_set_list(&fixture, 0, GO_LIST_SIZES, ENDLESS_LIST);
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	endless->buffer = (struct elf_buffer){&fixture.file, sizeof(fixture.file)};
	opened.source = (struct elf_source){read_endless, endless, UINT64_MAX};
	opened.module.values = (struct go_part){ENDLESS_AT, 1ull << 41};
	return parse_opened(&opened, rows_max, delivered);
}

Test(go_row_lists, a_list_without_an_end_costs_a_limited_number_of_reads, .timeout = 60)
{
	struct endless endless = {.bytes = 0};
	struct delivered delivered = {0};

	/* A list whose parts have no bytes, and one that is longer than what may be read. */
	cr_expect_eq(parse_endless(&endless, ROWS_MAX, &delivered), 0);
	cr_expect_lt(endless.reads, 10000, "%lu reads", endless.reads);
	delivered_fini(&delivered);
	endless = (struct endless){.bytes = 1};
	cr_expect_eq(parse_endless(&endless, 2000, &delivered), -E2BIG);
	cr_expect_lt(endless.reads, 2000, "%lu reads", endless.reads);
	delivered_fini(&delivered);
}

Test(go_row_lists, a_function_with_too_many_rows_is_left_out)
{
	struct endless endless = {.bytes = 1};
	struct delivered delivered = {0};

	cr_expect_eq(parse_endless(&endless, ROWS_MAX, &delivered), 0);
	cr_expect_lt(endless.reads, 10000, "%lu reads", endless.reads);
	for (unsigned int i = 0; i < delivered.function_count; i++)
		cr_expect_neq(delivered.functions[i].start, 0, "%u rows, up to %#lx",
			      delivered.functions[i].row_count, delivered.functions[i].end);
	delivered_fini(&delivered);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of files that the tests write, compared with what the files mean. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/unit/unwinder-mgr/manual_elf.h"
#include "tests/unit/unwinder-mgr/table_lookup.h"

static void build(struct unwind_memory *memory, struct manual_elf *file, struct table *table)
{
	const struct elf_source source = manual_elf_finish(file);
	struct unwind_table_builder builder;

	cr_assert_eq(unwind_table_build(&builder, memory->rules, RULES_MAX, &source), 0);
	cr_assert_eq(table_place(table, &builder, &memory->slabs), 0);
	unwind_table_builder_fini(&builder, memory->rules, 0);
	unwind_memory_publish(memory, SLOT, MODULE_ID, table);
	manual_elf_close_gaps(file);
}

/* Returns whether the model's last row at or before `offset` has this CFA. Of forged functions that start at the same
 * offset any may count. */
static bool model_allows(const struct manual_elf *file, uint64_t offset, int32_t cfa)
{
	uint64_t best = 0;
	bool allowed = cfa == 0;

	for (unsigned int i = 0; i < file->row_count; i++) {
		if (file->rows[i].key > (offset << 1 | 1) || file->rows[i].key < best)
			continue;
		if (file->rows[i].key > best)
			allowed = false;
		best = file->rows[i].key;
		allowed |= file->rows[i].cfa == cfa;
	}
	return allowed;
}

static void check_range(const struct unwind_memory *memory, const struct manual_elf *file, uint64_t from, uint64_t to)
{
	for (uint64_t offset = from; offset < to; offset++) {
		const struct bh_rule *rule = &memory->rules->table[find_rule(memory, offset)];

		cr_assert_eq(rule->kind, rule->cfa ? BH_RULE_SP : BH_RULE_FRAME_POINTER);
		cr_assert(model_allows(file, offset, rule->cfa), "offset %#lx: cfa %d", offset, rule->cfa);
	}
}

/* Builds the table, compares it with the model at every offset and some around it, and gives everything back. */
static void check(struct manual_elf *file)
{
	struct unwind_memory memory = memory_with(2);
	struct table table;

	build(&memory, file, &table);
	check_range(&memory, file, TEXT - 2000, file->text[0].offset + file->text[0].size + 2000);
	cr_assert_eq(find_rule(&memory, 0), 0);
	cr_assert_eq(find_rule(&memory, UINT64_MAX), 0);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

#define FUNCTION(piece, offset, bytes, ...)                                                                                   \
	put_function(piece, TEXT + (offset), bytes, (const struct row[]){__VA_ARGS__},                                        \
		     sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row), true)

Test(tables, rows_of_one_function_apply_from_their_offsets)
{
	struct manual_elf *file = manual_elf_new(0x1000);

	FUNCTION(eh_frame(file), 0x123, 0x40, {0, 8}, {1, 16}, {4, 64}, {0x3f, 8});
	check(file);
}

Test(tables, rules_continue_across_page_boundaries)
{
	struct manual_elf *file = manual_elf_new(0x8000);

	FUNCTION(eh_frame(file), 0x000, 0x400, {0, 8}, {0x3ff, 16});	/* a page, to the byte */
	FUNCTION(eh_frame(file), 0x400, 0x400, {0, 16}, {1, 24});	/* its first rule is the last one's */
	FUNCTION(eh_frame(file), 0xbff, 2, {0, 8}, {1, 32});		/* across a boundary */
	FUNCTION(eh_frame(file), 0xfff, 1, {0, 40});			/* the last byte */
	FUNCTION(eh_frame(file), 0x1400, 1, {0, 48});			/* the first byte */
	FUNCTION(eh_frame(file), 0x1801, 0x1bfe, {0, 8}, {0x7ff, 56}, {0x1bfd, 8}); /* whole pages without a row */
	FUNCTION(eh_frame(file), 0x7fff, 1, {0, 64});			/* the end of the text */
	check(file);
}

/* The worst case for a page: another rule for each byte. */
Test(tables, page_may_have_a_delta_for_each_byte)
{
	struct manual_elf *file = manual_elf_new(0x4000);
	struct row rows[ROWS_MAX];

	for (uint32_t base = 0x300; base < 0x1800; base += ROWS_MAX) {
		for (uint32_t i = 0; i < ROWS_MAX; i++)
			rows[i] = (struct row){i, (int32_t)(8 + (base + i) % 1000 * 8)};
		put_function(eh_frame(file), TEXT + base, ROWS_MAX, rows, ROWS_MAX, true);
	}
	check(file);
}

/* A gap of 15 bytes belongs to the function before it. One of 16 bytes does not, and neither do the bytes after the last
 * function. */
Test(tables, gaps_below_16_bytes_belong_to_the_function_before)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;
	const struct bh_rule *rules = memory.rules->table;

	FUNCTION(eh_frame(file), 0x000, 0x10, {0, 8}, {4, 80});
	FUNCTION(eh_frame(file), 0x01f, 0x10, {0, 8}, {4, 96});
	FUNCTION(eh_frame(file), 0x03f, 0x3b9, {0, 8}, {4, 112});
	FUNCTION(eh_frame(file), 0x402, 0x10, {0, 8}, {4, 120}); /* the gap is across a page's end */
	build(&memory, file, &table);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x10)].cfa, 80);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x1e)].cfa, 80);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x1f)].cfa, 8);
	cr_assert_eq(find_rule(&memory, TEXT + 0x2f), 0);
	cr_assert_eq(find_rule(&memory, TEXT + 0x3e), 0);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x3f8)].cfa, 112);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x400)].cfa, 112);
	cr_assert_eq(rules[find_rule(&memory, TEXT + 0x402)].cfa, 8);
	cr_assert_eq(find_rule(&memory, TEXT + 0x412), 0);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

/* A function that starts with the rule that the one before it ends with needs no delta there. */
Test(tables, equal_rules_of_neighbours_share_a_delta)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;

	for (uint32_t i = 0; i < 64; i++)
		FUNCTION(eh_frame(file), i * 16, 16, {0, 8});
	build(&memory, file, &table);
	const struct bh_page *page = slabs_at(&memory.slabs, &table.pages);
	cr_assert_eq(page->count, 1);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, file_with_debug_frame_only_has_a_table)
{
	struct manual_elf *file = manual_elf_new(0x1000);

	FUNCTION(debug_frame(file), 0x10, 0x100, {0, 8}, {9, 80});
	FUNCTION(debug_frame(file), 0x110, 0x100, {0, 8}, {9, 96});
	check(file);
}

/* Where both sections describe a function, .eh_frame counts. */
Test(tables, debug_frame_fills_gaps)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	const struct row other = {0, 800};

	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {9, 80});
	FUNCTION(eh_frame(file), 0x180, 0x10, {0, 8});
	FUNCTION(eh_frame(file), 0x300, 0x80, {0, 8}, {9, 88});
	put_function(debug_frame(file), TEXT + 0x100, 0x80, &other, 1, false);
	put_function(debug_frame(file), TEXT + 0x37f, 1, &other, 1, false);
	FUNCTION(debug_frame(file), 0x190, 0x20, {0, 8}, {3, 104});
	FUNCTION(debug_frame(file), 0x380, 0x20, {0, 112});
	FUNCTION(debug_frame(file), 0x20, 0x20, {0, 8}, {3, 120});
	check(file);
}

/* Functions come in any order, and overlap. */
Test(tables, forged_functions_give_rules_that_the_file_has)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		const uint32_t text = 0x3000;
		struct manual_elf *file = manual_elf_new(text);
		uint64_t random = seed * 0x9e3779b97f4a7c15ull;

		for (unsigned int i = 0; i < seed * 2; i++) {
			struct row rows[8];
			unsigned int count = 0;
			uint32_t at = 0;

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			uint32_t bytes = 1 + (uint32_t)(random >> 20) % (seed % 2 ? 3000 : 60);
			uint32_t offset = (uint32_t)(random >> 40) % (text - bytes);
			if (seed % 3 == 0)
				offset = (offset & ~0x3ffu) + ((random & 1) ? 0x3ff : 0);
			if (offset + bytes > text)
				bytes = text - offset;
			while (at < bytes && count < 8) {
				random = random * 6364136223846793005ull + 1442695040888963407ull;
				rows[count] = (struct row){at, (int32_t)(8 + count % 2 * 8 + (random >> 50) % 50 * 16)};
				count++;
				at += 1 + (uint32_t)(random >> 30) % 100;
			}
			put_function(eh_frame(file), TEXT + offset, bytes, rows, count, true);
		}
		check(file);
	}
}

/* A row can be at most 65,535 bytes after the previous one. */
Test(tables, rows_farther_apart_than_a_row_can_say_start_a_range)
{
	struct manual_elf *file = manual_elf_new(0x80000);

	FUNCTION(eh_frame(file), 0x100, 0x10000, {0, 8}, {0xffff, 16});
	FUNCTION(eh_frame(file), 0x10108, 0x30000, {0, 8}, {0x10000, 24}, {0x2ffff, 32});
	FUNCTION(eh_frame(file), 0x40108, 0x20010, {0, 40}, {0x10000, 8}, {0x20001, 16});
	check(file);
}

/* The same with overlaps: rows of one function lie between two distant rows of another. */
Test(tables, rows_far_apart_may_overlap)
{
	struct manual_elf *file = manual_elf_new(0x40000);

	FUNCTION(eh_frame(file), 0x100, 0x30000, {0, 8}, {0x10000, 24}, {0x2ffff, 32});
	FUNCTION(eh_frame(file), 0x10100, 0x10, {0, 48}, {4, 56});
	FUNCTION(eh_frame(file), 0x18000, 0x10800, {0, 64}, {0x10004, 72});
	FUNCTION(eh_frame(file), 0x50, 0x10000, {0, 80}, {0xfff0, 88});
	check(file);
}

/* A linker groups the functions by section (hot, cold, others), but the descriptions by object file. */
Test(tables, functions_of_many_objects_are_sorted)
{
	struct manual_elf *file = manual_elf_new(0x30000);

	for (uint32_t i = 0; i < 100; i++) {
		FUNCTION(eh_frame(file), 0x20000 + i * 48, 48, {0, 8}, {1, (int32_t)(16 + i * 8)});
		FUNCTION(eh_frame(file), 0x20000 - i * 0x100, 0xf8, {0, 8}, {4, 24}, {0x40, 32});
		FUNCTION(eh_frame(file), i * 32, 9, {0, (int32_t)(64 + i * 8)});
	}
	FUNCTION(debug_frame(file), 31, 1, {0, 120});
	FUNCTION(debug_frame(file), 9, 16, {0, 128});
	FUNCTION(debug_frame(file), 0x21300, 0x100, {0, 136});
	check(file);
}

/* Addresses that are not in the text, and ranges without a valid end. */
Test(tables, functions_outside_of_the_text_are_ignored)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	const struct row row = {0, 800};

	put_function(eh_frame(file), 0x100, 0x80, &row, 1, false);		  /* a segment without code */
	put_function(eh_frame(file), TEXT - 1, 0x80, &row, 1, false);		  /* begins before it */
	put_function(eh_frame(file), TEXT + 0xfff, 2, &row, 1, false);		  /* ends after it */
	put_function(eh_frame(file), TEXT + 0x10, 0x7fffffff, &row, 1, false);
	put_function(eh_frame(file), TEXT + 0x10, UINT32_MAX, &row, 1, false);	  /* sdata4: -1 */
	put_function(eh_frame(file), TEXT + 0x1000, 1, &row, 1, false);
	put_function(eh_frame(file), TEXT + 0x40000000, 0x10, &row, 1, false);
	put_function(debug_frame(file), TEXT + 0x20, 0x7fffffff, &row, 1, false);
	put_function(debug_frame(file), -(uint64_t)SHIFT, 0x10, &row, 1, false);  /* address 0: dropped by the linker */
	put_function(debug_frame(file), UINT64_MAX - SHIFT - 4, 16, &row, 1, false); /* wraps */
	FUNCTION(eh_frame(file), 0x80, 0x80, {0, 8}, {4, 16});
	check(file);
}

Test(tables, file_without_descriptions_has_no_table)
{
	struct unwind_memory memory = memory_with(1);
	struct manual_elf *file = manual_elf_new(0x1000);
	struct elf_source source = manual_elf_finish(file);
	struct unwind_table_builder builder;

	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), -ENODATA);
	/* Functions, but all of them elsewhere. */
	put_function(eh_frame(file), 0x100, 0x80, &(const struct row){0, 8}, 1, false);
	source = manual_elf_finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), -ENODATA);
	file->meta[0] = 0;
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), -ENOEXEC);
	manual_elf_finish(file);
	((Elf64_Ehdr *)file->meta)->e_machine = EM_AARCH64;
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), -ENODATA);
	cr_assert_eq(users_of_all(memory.rules), 0);
	unwind_memory_fini(&memory);
	free(file);
}

/* Two pieces of code lie far apart. */
Test(tables, pages_without_code_share_one_delta)
{
	const uint64_t far = 100ull << 20;
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;

	file->text[1].offset = far;
	file->text[1].size = 0x1000;
	file->text_count = 2;
	file->size = far + 0x1000;
	FUNCTION(eh_frame(file), 0x10, 0x10, {0, 8}, {2, 16});
	FUNCTION(eh_frame(file), far - TEXT + 0x20, 0x900, {0, 8}, {2, 24});
	build(&memory, file, &table);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	check_range(&memory, file, far - 0x1000, far + 0x2000);
	for (uint64_t offset = TEXT + 0x1000; offset < far; offset += 777)
		cr_assert_eq(find_rule(&memory, offset), 0);
	cr_assert_leq(table.bytes, table.page_count * sizeof(struct bh_page) + 512, "%zu bytes", table.bytes);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, text_larger_than_a_page_index_is_refused)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	const uint64_t far = (256ull << 20) + TEXT;
	struct elf_source source;
	struct unwind_table_builder builder;
	struct table table;

	file->text[1].offset = far;
	file->text[1].size = 0x1000;
	file->text_count = 2;
	file->size = far + 0x1000;
	FUNCTION(eh_frame(file), 0x10, 0x10, {0, 8});
	FUNCTION(eh_frame(file), far - TEXT + 0x10, 0x10, {0, 8});
	source = manual_elf_finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -EFBIG);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	cr_assert_eq(users_of_all(memory.rules), 0);
	cr_assert_eq(memory.slabs.free_bytes, BH_SLAB_BYTES);
	unwind_memory_fini(&memory);
	free(file);
}

/* A failed attempt loses nothing. */
Test(tables, table_is_placed_as_soon_as_there_is_room)
{
	struct manual_elf *file = manual_elf_new(0x10000);
	struct unwind_memory memory = memory_with(1);
	struct slab_block most;
	struct unwind_table_builder builder;
	struct table table;

	for (uint32_t i = 0; i < 1000; i++)
		FUNCTION(eh_frame(file), i * 64, 64, {0, 8}, {1, (int32_t)(16 + i % 500 * 8)}, {40, 8});
	const struct elf_source source = manual_elf_finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, RULES_MAX, &source), 0);
	/* Room for the pages, but not for all deltas. */
	cr_assert_eq(slabs_alloc(&memory.slabs, BH_SLAB_BYTES - 2048, &most), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -ENOSPC);
	memory.slabs.exhausted = false;
	slabs_reclaim(&memory.slabs, clock_monotonic_ns() + LIMIT_GRACE_MS * NS_PER_MS);
	cr_assert_eq(memory.slabs.free_bytes, 2048);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -EAGAIN);
	cr_assert_eq(unwind_memory_add_slab(&memory), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, MODULE_ID, &table);
	manual_elf_close_gaps(file);
	check_range(&memory, file, TEXT, TEXT + 0x10000);
	slabs_retire(&memory.slabs, &most);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

/* The first module to be retired leaves the rules to the second one. */
Test(tables, modules_share_equal_rules)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(2);
	struct table first, second;

	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {1, 16}, {9, 80}, {0x70, 8});
	build(&memory, file, &first);
	build(&memory, file, &second);
	cr_assert_eq(first.rule_count, 3);
	cr_assert_eq(second.rule_count, 3);
	cr_assert_eq(memory.rules->count, 3);
	cr_assert_eq(users_of_all(memory.rules), 6);
	table_retire(&first, &memory.slabs, memory.rules, clock_monotonic_ns());
	cr_assert_eq(users_of_all(memory.rules), 3);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &second);
	unwind_memory_fini(&memory);
	free(file);
}

/* Three rules are needed and there is room for two, in the table or in the user's share of it. */
static void check_missing_rule(uint32_t others, uint32_t rules_most)
{
	struct manual_elf *file = manual_elf_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct unwind_table_builder builder;
	struct table table;
	uint32_t unlimited = UINT32_MAX;
	uint16_t id;

	for (uint32_t i = 0; i < others; i++)
		cr_assert_eq(rules_get(memory.rules, &(struct bh_rule){.kind = BH_RULE_FP, .cfa = (int32_t)i}, &unlimited, &id), 0);
	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {1, 16}, {9, 80}, {0x70, 8});
	const struct elf_source source = manual_elf_finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, rules_most, &source), 0);
	cr_expect_eq(builder.rules_added, 2);
	cr_expect_eq(builder.rules_missing, 1);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, MODULE_ID, &table);
	cr_expect_eq(memory.rules->table[find_rule(&memory, TEXT + 0x108)].cfa, 16);
	cr_expect_eq(find_rule(&memory, TEXT + 0x109), BH_RULE_ID_REFUSED);
	cr_expect_eq(find_rule(&memory, TEXT + 0x16f), BH_RULE_ID_REFUSED);
	cr_expect_eq(memory.rules->table[find_rule(&memory, TEXT + 0x170)].cfa, 8);
	table_retire(&table, &memory.slabs, memory.rules, 0);
	cr_expect_eq(users_of_all(memory.rules), others, "what it had taken is given back");
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, a_rule_without_room_is_missing_alone)
{
	check_missing_rule(RULES_MAX - BH_RULE_IDS_FIXED - 2, RULES_MAX);
	check_missing_rule(0, 2);
}

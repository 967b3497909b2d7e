/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a Go program by their names, in the small program of go_fixture.h, and in ones whose
 * names are forged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "go_fixture.h"
#include "parse/go_names.h"

static struct go_fixture fixture;
static struct go_opened opened;
static struct go_place places[GO_NAMES_MAX];

static void setup(void)
{
	go_fixture_init(&fixture, GO_1_20);
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
}

TestSuite(go_names, .init = setup);

static int find(const char *first, const char *second)
{
	const char *const names[] = {first, second};

	return go_names_find(&opened.module, &opened.source, names, second ? 2 : 1, places);
}

Test(go_names, are_found_with_their_code)
{
	cr_assert_eq(find("runtime.systemstack", "main.run"), 0);
	cr_expect_eq(places[0].vaddr, GO_TEXT + 0xc0);
	cr_expect_eq(places[0].size, 0x10);
	cr_expect_eq(places[1].vaddr, GO_TEXT);
	cr_expect_eq(places[1].size, 0x80);
	/* The last one. */
	cr_assert_eq(find("main.assembly", NULL), 0);
	cr_expect_eq(places[0].size, 0x20);
}

Test(go_names, are_there_without_moduledata)
{
	const char *const wanted[] = {"runtime.systemstack", "main.run"}, *missing = "main.missing";
	struct elf_image image;
	struct go_module table;

	cr_assert_eq(elf_image_init(&image, &opened.source), 0);
	cr_assert_eq(go_module_find_table(&table, &image), 0);
	elf_image_fini(&image);
	cr_expect_eq(go_names_contain(&table, &opened.source, wanted, 2), 0);
	cr_expect_eq(go_names_contain(&table, &opened.source, &missing, 1), -ENOENT);
}

Test(go_names, must_be_complete)
{
	cr_expect_eq(find("runtime.goexi", NULL), -ENOENT);
	cr_expect_eq(find("untime.goexit", NULL), -ENOENT);
	cr_expect_eq(find("main.run", "main.missing"), -ENOENT);
}

/* The name is there, but no function has it: main.add is only inlined. */
Test(go_names, need_a_function)
{
	for (uint32_t i = 0; i < GO_FUNCTIONS; i++)
		fixture.file.functions[fixture.descriptions[i] + 1] = 0xffffff;
	cr_expect_eq(find("main.run", NULL), -ENOENT);
}

Test(go_names, forged_tables)
{
	opened.module.functions.size = 12;
	cr_expect_eq(find("main.assembly", NULL), -ENOENT);
	opened.module.function_count = UINT32_MAX;
	cr_expect_eq(find("main.assembly", NULL), -ENOENT);
	opened.module.names.size = UINT64_MAX;
	cr_expect_eq(find("main.run", NULL), -ENOENT);
	opened.module.names.size = 1 << 20;
	cr_expect_lt(find("main.run", NULL), 0);
}

/* --- the work for a forged file --- */

enum {
	FORGED_FUNCTIONS = 1 << 19,
	FORGED_NAMES = 4096,
	FORGED_BYTES = 1 << 30
};
static uint32_t (*describe)(uint32_t function);
static unsigned int reads;

/* A file whose names begin with "main.run", with a table in which each word of an entry is as
 * `describe` says, and whose descriptions are zeros. */
static int read_forged(void *context, uint64_t offset, void *buffer, size_t length)
{
	uint32_t *words = buffer;

	(void)context;
	reads++;
	memset(buffer, 0, length);
	if (!offset)
		memcpy(buffer, "xxx\0main.run", 13);
	for (size_t i = 0; offset >= FORGED_NAMES && i < length / sizeof(*words); i++) {
		const uint64_t word = (offset - FORGED_NAMES) / sizeof(*words) + i;
		const uint32_t function = (uint32_t)(word / 2);

		if (word < 2 * FORGED_FUNCTIONS)
			words[i] = word % 2 ? describe(function) : function;
	}
	return 0;
}

static uint32_t describe_anywhere(uint32_t function)
{
	return (function % 2 ? 512u << 20 : 256u << 20) + function * 4;
}

static uint32_t describe_backwards(uint32_t function)
{
	return (32u << 20) - function * 8;
}

static uint32_t describe_far_apart(uint32_t function)
{
	return (8u << 20) + (function << 16);
}

static uint32_t describe_in_order(uint32_t function)
{
	return (8u << 20) + function * 48;
}

Test(go_names, a_forged_table_costs_few_reads)
{
	static uint32_t (*const descriptions[])(uint32_t) = {
	    describe_anywhere, describe_backwards, describe_far_apart, describe_in_order};
	static const struct elf_source source = {read_forged, NULL, FORGED_NAMES + FORGED_BYTES};
	const struct go_module module = {.function_count = FORGED_FUNCTIONS,
					 .names = {0, FORGED_NAMES},
					 .functions = {FORGED_NAMES, FORGED_BYTES}};
	const char *const wanted = "main.run";

	for (size_t i = 0; i < sizeof(descriptions) / sizeof(descriptions[0]); i++) {
		describe = descriptions[i];
		reads = 0;
		cr_expect_eq(go_names_find(&module, &source, &wanted, 1, places), -ENOENT);
		cr_expect_lt(reads, 2000, "%zu: %u", i, reads);
	}
	cr_expect_gt(reads, 300, "the last one is searched to its end: %u", reads);
}

/* --- names at every place relative to the chunks that are read --- */

static char *many;
static size_t many_length;

static int read_many(void *context, uint64_t offset, void *buffer, size_t length)
{
	(void)context;
	if (offset > many_length || length > many_length - offset)
		return -ENODATA;
	memcpy(buffer, many + offset, length);
	return 0;
}

Test(go_names, are_found_across_the_parts_that_are_read)
{
	const struct elf_source source = {read_many, NULL, 1 << 20};
	const uint32_t table[] = {0, 12, 16, 0, 0}; /* the entry, its end, the description */
	const char *const wanted = "runtime.wanted";

	for (uint32_t at = (64 << 10) - 40; at < (64 << 10) + 10; at++) {
		struct go_module module = {.function_count = 1, .names = {.size = 200 << 10}};
		uint32_t words[5];

		many_length = (200 << 10) + sizeof(table);
		many = malloc(many_length);
		memset(many, 'x', many_length);
		/* The end of another name is equal. */
		memcpy(many + at - 20, wanted, strlen(wanted) + 1);
		many[at - 1] = 0;
		memcpy(many + at, wanted, strlen(wanted) + 1);
		memcpy(words, table, sizeof(table));
		words[4] = at;
		memcpy(many + (200 << 10), words, sizeof(words));
		module.functions = (struct go_part){200 << 10, sizeof(table)};
		cr_expect_eq(go_names_find(&module, &source, &wanted, 1, places), 0, "%u", at);
		cr_expect_eq(places[0].size, 16);
		free(many);
	}
}

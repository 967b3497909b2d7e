/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/unnamed_modules.h"

#include <criterion/criterion.h>
#include <string.h>

static struct profile p;
static struct msg_unnamed_module top[3];

static void setup(void)
{
	cr_assert_eq(profile_init(&p, 64 << 20), 0);
}

static void teardown(void)
{
	profile_fini(&p);
}

TestSuite(unnamed_modules, .init = setup, .fini = teardown);

static uint32_t string(const char *text)
{
	uint32_t id;

	cr_assert_eq(profile_string(&p, text, strlen(text), &id), 0);
	return id;
}

/* Returns a location in a file, with a function unless `name` is NULL. */
static uint32_t location(const char *file, const char *build_id, const char *name, bool generated,
			 uint64_t address)
{
	struct profile_mapping mapping = {.filename = string(file),
					  .gnu_build_id = string(build_id)};
	struct profile_location made = {.kind = string("native"), .address = address};
	uint32_t id;

	cr_assert_eq(profile_mapping(&p, &mapping, &made.mapping), 0);
	if (name) {
		struct profile_function function = {.name = string(name),
						    .name_is_generated = generated};

		cr_assert_eq(profile_function(&p, &function, &made.function), 0);
	}
	cr_assert_eq(profile_location(&p, &made, &id), 0);
	return id;
}

static void add(const uint32_t *locations, uint32_t count, uint64_t samples)
{
	uint32_t stack;

	cr_assert_eq(profile_stack(&p, locations, count, &stack), 0);
	cr_assert_eq(profile_add(&p, 0, stack, samples), 0);
}

Test(unnamed_modules, a_named_profile_has_none)
{
	const uint32_t named = location("/bin/a", "11", "main", false, 1);

	cr_expect_eq(unnamed_modules_find(&p, top, 3), 0);
	add(&named, 1, 10);
	cr_expect_eq(unnamed_modules_find(&p, top, 3), 0);
}

Test(unnamed_modules, a_sample_counts_once_for_each_file)
{
	const uint32_t named = location("/bin/a", "11", "main", false, 1);
	const uint32_t generated = location("/bin/a", "11", "a+0x2", true, 2);
	const uint32_t without = location("/bin/a", "11", NULL, false, 3);
	const uint32_t other = location("/lib/b.so", "", NULL, false, 3);

	add((const uint32_t[]){generated, without, other, generated, named}, 5, 10);
	add((const uint32_t[]){other, named}, 2, 7);
	add((const uint32_t[]){named}, 1, 100);
	cr_assert_eq(unnamed_modules_find(&p, top, 3), 2);
	cr_expect_str_eq(top[0].path, "/lib/b.so");
	cr_expect_eq(top[0].samples, 17);
	cr_expect_str_eq(top[0].build_id, "");
	cr_expect_str_eq(top[1].path, "/bin/a");
	cr_expect_eq(top[1].samples, 10);
	cr_expect_str_eq(top[1].build_id, "11");
}

Test(unnamed_modules, what_is_no_file_does_not_count)
{
	const uint32_t kernel = location("vmlinux", "", NULL, false, 1);
	const uint32_t vdso = location("[vdso]", "", NULL, false, 1);
	struct profile_location generated = {.kind = string("native"), .address = 7};
	uint32_t code;

	cr_assert_eq(profile_location(&p, &generated, &code), 0);
	const uint32_t memory = location("/memfd:doublemapper (deleted)", "", NULL, false, 1);
	const uint32_t zero = location("/dev/zero (deleted)", "", NULL, false, 1);
	add((const uint32_t[]){kernel, vdso, code, memory, zero}, 5, 10);
	cr_expect_eq(unnamed_modules_find(&p, top, 3), 0);
}

Test(unnamed_modules, there_are_at_most_as_many_as_there_is_room_for)
{
	char path[32];

	for (unsigned int i = 1; i <= 9; i++) {
		snprintf(path, sizeof(path), "/lib/%u.so", i);
		const uint32_t unnamed = location(path, "", NULL, false, 1);
		add(&unnamed, 1, i);
	}
	cr_expect_eq(unnamed_modules_find(&p, top, 3), 3);
	cr_expect_str_eq(top[0].path, "/lib/9.so");
	cr_expect_str_eq(top[2].path, "/lib/7.so");
}

Test(unnamed_modules, long_names_are_cut)
{
	char path[2000] = "/", id[200] = "";

	memset(path + 1, 'x', sizeof(path) - 2);
	memset(id, 'a', sizeof(id) - 1);
	const uint32_t unnamed = location(path, id, NULL, false, 1);
	add(&unnamed, 1, 1);
	cr_assert_eq(unnamed_modules_find(&p, top, 3), 1);
	cr_expect_eq(strlen(top[0].path), sizeof(top[0].path) - 1);
	cr_expect_eq(strlen(top[0].build_id), sizeof(top[0].build_id) - 1);
}

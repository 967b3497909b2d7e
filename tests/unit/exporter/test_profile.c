/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "exporter/profile.h"

static struct profile p;

static void setup(void)
{
	cr_assert_eq(profile_init(&p, 64 << 20), 0);
}

static void teardown(void)
{
	profile_fini(&p);
}

TestSuite(profile, .init = setup, .fini = teardown);

static uint32_t string(const char *text)
{
	uint32_t number = 12345;

	cr_assert_eq(profile_string(&p, text, strlen(text), &number), 0);
	return number;
}

Test(profile, number_0_is_none_everywhere)
{
	uint32_t n = 9;

	cr_expect_eq(string(""), 0);
	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){0}, &n) | n, 0);
	n = 9;
	cr_expect_eq(profile_function(&p, &(struct profile_function){0}, &n) | n, 0);
	n = 9;
	cr_expect_eq(profile_location(&p, &(struct profile_location){0}, &n) | n, 0);
	n = 9;
	cr_expect_eq(profile_stack(&p, NULL, 0, &n) | n, 0);
	n = 9;
	cr_expect_eq(profile_process(&p, &(struct profile_process){0}, &n) | n, 0);
	n = 9;
	cr_expect_eq(profile_thread(&p, &(struct profile_thread){0}, &n) | n, 0);
	cr_expect_eq(p.samples_count, 0);
}

Test(profile, equal_contents_have_one_number)
{
	uint32_t a = string("a"), b = string("b");

	cr_expect_neq(a, b);
	cr_expect_eq(string("a"), a);
	for (int i = 0; i < 100000; i++) {
		char text[32];
		snprintf(text, sizeof(text), "name %d", i % 50000);
		cr_assert_eq(string(text), 3u + i % 50000);
	}
	cr_expect_eq(p.strings_count, 50003);
}

Test(profile, strings_are_bytes)
{
	uint32_t a, b;

	cr_assert_eq(profile_string(&p, "x\0y", 3, &a), 0);
	cr_assert_eq(profile_string(&p, "x\0z", 3, &b), 0);
	cr_expect_neq(a, b);
	cr_expect_eq(profile_string_length(&p, a), 3);
	cr_expect_eq(memcmp(p.strings[a], "x\0y", 4), 0);
}

Test(profile, strings_are_cut)
{
	static char text[5000];
	uint32_t a, b;

	memset(text, 'x', sizeof(text));
	cr_assert_eq(profile_string(&p, text, 5000, &a), 0);
	cr_assert_eq(profile_string(&p, text, 4096, &b), 0);
	cr_expect_eq(a, b);
	cr_expect_eq(strlen(p.strings[a]), 4096);
}

Test(profile, padding_does_not_count)
{
	struct profile_process one, two;
	uint32_t a, b;

	memset(&one, 0xaa, sizeof(one));
	memset(&two, 0x55, sizeof(two));
	one.tgid = two.tgid = 7;
	one.name = two.name = one.path = two.path = 0;
	one.start = two.start = 9;
	cr_assert_eq(profile_process(&p, &one, &a), 0);
	cr_assert_eq(profile_process(&p, &two, &b), 0);
	cr_expect_eq(a, b);
	two.start = 10;
	cr_assert_eq(profile_process(&p, &two, &b), 0);
	cr_expect_neq(a, b);
}

Test(profile, references_must_exist)
{
	uint32_t n = 77, bad = 5;

	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){.filename = 1}, &n), -EINVAL);
	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){.htlhash = 1}, &n), -EINVAL);
	cr_expect_eq(profile_function(&p, &(struct profile_function){.name = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.mapping = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.function = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.kind = 1}, &n), -EINVAL);
	cr_expect_eq(profile_stack(&p, &bad, 1, &n), -EINVAL);
	cr_expect_eq(profile_process(&p, &(struct profile_process){.path = 1}, &n), -EINVAL);
	cr_expect_eq(profile_thread(&p, &(struct profile_thread){.process = 1}, &n), -EINVAL);
	cr_expect_eq(profile_add(&p, 1, 0, 1), -EINVAL);
	cr_expect_eq(profile_add(&p, 0, 1, 1), -EINVAL);
	cr_expect_eq(n, 77);
}

Test(profile, samples_merge)
{
	uint32_t stack, zero = 0;

	cr_assert_eq(profile_stack(&p, &zero, 1, &stack), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 2), 0);
	cr_assert_eq(profile_add(&p, 0, 0, 1), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 3), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 0), 0);
	cr_expect_eq(p.samples_count, 2);
	cr_expect_eq(p.samples[0].count, 5);
	cr_expect_eq(p.sample_count, 6);
	cr_expect_eq(profile_add(&p, 0, stack, INT64_MAX), -EOVERFLOW);
	cr_expect_eq(p.sample_count, 6);
}

Test(profile, stacks_differ_by_length_and_order)
{
	uint32_t l, n[4];

	cr_assert_eq(profile_location(&p, &(struct profile_location){.address = 1}, &l), 0);
	cr_assert_eq(profile_stack(&p, (uint32_t[]){0, l}, 2, &n[0]), 0);
	cr_assert_eq(profile_stack(&p, (uint32_t[]){l, 0}, 2, &n[1]), 0);
	cr_assert_eq(profile_stack(&p, (uint32_t[]){l}, 1, &n[2]), 0);
	cr_assert_eq(profile_stack(&p, (uint32_t[]){l, 0}, 2, &n[3]), 0);
	cr_expect_eq(n[3], n[1]);
	cr_expect(n[0] != n[1] && n[1] != n[2] && n[0] != n[2]);
	cr_expect_eq(p.stack_locations_count, 5);
}

Test(profile, the_cap_holds_and_changes_nothing)
{
	struct profile small;
	uint32_t n = 0, strings;
	int r = 0;

	cr_assert_eq(profile_init(&small, 100000), 0);
	for (int i = 0; i < 100000 && r == 0; i++) {
		char text[32];
		snprintf(text, sizeof(text), "%d", i);
		r = profile_string(&small, text, strlen(text), &n);
	}
	cr_expect_eq(r, -ENOSPC);
	cr_expect_leq(small.bytes, 100000u);
	cr_expect_gt(small.bytes, 30000u);
	strings = small.strings_count;
	cr_expect_eq(n, strings - 1);
	cr_expect_eq(profile_string(&small, "another", 7, &n), -ENOSPC);
	cr_expect_eq(small.strings_count, strings);
	cr_expect_eq(profile_string(&small, "17", 2, &n), 0);
	cr_expect_eq(n, 18);
	profile_fini(&small);
	profile_fini(&small);
}

Test(profile, location_names)
{
	struct profile_location l = {.address = 0xabc};
	struct profile_mapping m = {.filename = string("/usr/lib/libfoo.so")};
	struct profile_function f = {.name = string("work")};
	char buffer[64];
	uint32_t n;

	cr_assert_eq(profile_location(&p, &l, &n), 0);
	profile_location_name(&p, n, buffer, sizeof(buffer));
	cr_expect_str_eq(buffer, "0xabc");
	cr_assert_eq(profile_mapping(&p, &m, &l.mapping), 0);
	cr_assert_eq(profile_location(&p, &l, &n), 0);
	profile_location_name(&p, n, buffer, sizeof(buffer));
	cr_expect_str_eq(buffer, "libfoo.so+0xabc");
	cr_assert_eq(profile_function(&p, &f, &l.function), 0);
	cr_assert_eq(profile_location(&p, &l, &n), 0);
	profile_location_name(&p, n, buffer, 4);
	cr_expect_str_eq(buffer, "wor");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "exporter/model/inlined.h"

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
	uint32_t id = 12345;

	cr_assert_eq(profile_string(&p, text, strlen(text), &id), 0);
	return id;
}

Test(profile, id_0_is_none_in_every_table)
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

Test(profile, equal_contents_have_one_id)
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

Test(profile, strings_are_printable_utf8)
{
	uint32_t a, b;

	cr_assert_eq(profile_string(&p, "x\0y", 3, &a), 0);
	cr_expect_str_eq(p.strings[a], "x\\x00y");
	cr_expect_eq(profile_string_length(&p, a), 6);
	cr_assert_eq(profile_string(&p, "x\xff\xc2\x9b\x1b[2J\n", 9, &a), 0);
	cr_expect_str_eq(p.strings[a], "x\\xff\\xc2\\x9b\\x1b[2J\\x0a");
	/* U+202E changes the direction of a text. */
	cr_assert_eq(profile_string(&p, "12345678\xe2\x80\xae", 11, &a), 0);
	cr_expect_str_eq(p.strings[a], "12345678\\xe2\\x80\\xae");
	/* What was cleaned is clean. */
	cr_assert_eq(profile_string(&p, p.strings[a], profile_string_length(&p, a), &b), 0);
	cr_expect_eq(a, b);
	cr_assert_eq(profile_string(&p, "x\xc3\xa4y", 4, &b), 0);
	cr_expect_str_eq(p.strings[b], "x\xc3\xa4y");
	cr_expect_eq(profile_find_string(&p, "x\xc3\xa4y"), b);
	cr_expect_eq(profile_find_string(&p, "x\xc3\xa4"), 0);
}

Test(profile, long_strings_are_cut_at_a_character)
{
	static char text[5000];
	uint32_t a, b;

	memset(text, 'x', sizeof(text));
	cr_assert_eq(profile_string(&p, text, 5000, &a), 0);
	cr_assert_eq(profile_string(&p, text, 4096, &b), 0);
	cr_expect_eq(a, b);
	cr_expect_eq(strlen(p.strings[a]), 4096);
	/* A name is not cut within a character, nor because of what cleaning adds. */
	memset(text, 'x', 4095);
	memcpy(text + 4095, "\xc3\xa4", 2);
	cr_assert_eq(profile_string(&p, text, 5000, &a), 0);
	cr_expect_eq(profile_string_length(&p, a), 4095);
	memset(text, 0xff, 4096);
	cr_assert_eq(profile_string(&p, text, 4096, &a), 0);
	cr_expect_eq(profile_string_length(&p, a), 4096);
}

Test(profile, processes_differ_in_any_field)
{
	const struct profile_process one = {.start = 9, .tgid = 7};
	struct profile_process others[] = {one, one, one, one, one, one, one, one};
	uint32_t ids[8], n, x = string("x");

	others[0].start = 10;
	others[1].tgid = 8;
	others[2].name = others[3].path = others[4].container_id = others[5].service_name = x;
	others[6].variables[PROFILE_VARIABLES_MAX - 1].name = x;
	others[7].variables[PROFILE_VARIABLES_MAX - 1].value = x;
	cr_assert_eq(profile_process(&p, &one, &n), 0);
	for (int i = 0; i < 8; i++) {
		cr_assert_eq(profile_process(&p, &others[i], &ids[i]), 0);
		cr_expect_eq(ids[i], n + 1 + i);
	}
	for (int i = 0; i < 8; i++) {
		cr_assert_eq(profile_process(&p, &others[i], &n), 0);
		cr_expect_eq(n, ids[i]);
	}
}

Test(profile, references_must_exist)
{
	uint32_t n = 77, bad = 5;

	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){.filename = 1}, &n), -EINVAL);
	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){.htlhash = 1}, &n), -EINVAL);
	cr_expect_eq(profile_mapping(&p, &(struct profile_mapping){.go_build_id = 1}, &n), -EINVAL);
	cr_expect_eq(profile_function(&p, &(struct profile_function){.name = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.mapping = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.function = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.kind = 1}, &n), -EINVAL);
	cr_expect_eq(profile_location(&p, &(struct profile_location){.address = 1}, &n), -EINVAL,
		     "a frame of no kind");
	cr_expect_eq(profile_stack(&p, &bad, 1, &n), -EINVAL);
	cr_expect_eq(profile_process(&p, &(struct profile_process){.path = 1}, &n), -EINVAL);
	cr_expect_eq(profile_thread(&p, &(struct profile_thread){.process = 1}, &n), -EINVAL);
	cr_expect_eq(profile_add(&p, 1, 0, 1), -EINVAL);
	cr_expect_eq(profile_add(&p, 0, 1, 1), -EINVAL);
	cr_expect_eq(n, 77);
}

/* Functions that are inlined at one address are together in each stack. */
Test(profile, inlined_functions_come_before_their_caller)
{
	uint32_t kind, outer, inner, other, id;

	cr_assert_eq(profile_string(&p, "native", 6, &kind), 0);
	struct profile_location location = {.kind = kind, .address = 16, .line = 1};
	cr_assert_eq(profile_location(&p, &location, &outer), 0);
	location.caller = outer;
	cr_assert_eq(profile_location(&p, &location, &inner), 0);
	location.address = 17;
	cr_expect_eq(profile_location(&p, &location, &id), -EINVAL, "another address");
	location.caller = 77;
	cr_expect_eq(profile_location(&p, &location, &id), -EINVAL, "no location");
	location.caller = 0;
	cr_assert_eq(profile_location(&p, &location, &other), 0);

	const uint32_t good[] = {other, inner, outer, outer};
	cr_assert_eq(profile_stack(&p, good, 4, &id), 0);
	cr_expect_eq(inlined_count(&p, &p.stacks[id], 0), 1);
	cr_expect_eq(inlined_count(&p, &p.stacks[id], 1), 2);
	cr_expect_eq(inlined_count(&p, &p.stacks[id], 3), 1);
	cr_expect_eq(profile_stack(&p, (const uint32_t[]){inner, other}, 2, &id), -EINVAL);
	cr_expect_eq(profile_stack(&p, (const uint32_t[]){outer, inner}, 2, &id), -EINVAL);

	/* There is a limit. */
	location = (struct profile_location){.kind = kind, .address = 16, .caller = inner};
	for (unsigned int i = 2; i < PROFILE_INLINED_MAX; i++) {
		cr_assert_eq(profile_location(&p, &location, &id), 0);
		location.caller = id;
	}
	cr_expect_eq(profile_location(&p, &location, &id), -EINVAL);
}

static uint32_t label(const char *key, const char *value)
{
	uint32_t text, id;

	cr_assert_eq(profile_string(&p, value, strlen(value), &text), 0);
	cr_assert_eq(profile_label(&p, key, strlen(key), text, &id), 0);
	return id;
}

Test(profile, equal_sets_of_labels_are_one)
{
	const uint32_t a = label("a", "1"), b = label("b", "2"), a_2 = label("a", "2");
	uint32_t id, other;

	cr_expect_eq(label("a", "1"), a);
	cr_expect_str_eq(p.strings[p.labels[a].key], "a");
	cr_expect_str_eq(p.strings[p.labels[a].value], "1");
	cr_expect_str_eq(p.strings[p.labels[a].attribute], PROFILE_LABEL_PREFIX "a");
	cr_assert_eq(profile_label_set(&p, (const uint32_t[]){a, b}, 2, &id), 0);
	cr_assert_eq(profile_label_set(&p, (const uint32_t[]){b, a}, 2, &other), 0);
	cr_expect_eq(id, other);
	/* Of two labels with one key the first counts. */
	cr_assert_eq(profile_label_set(&p, (const uint32_t[]){b, a, a_2}, 3, &other), 0);
	cr_expect_eq(id, other);
	cr_assert_eq(profile_label_set(&p, (const uint32_t[]){a_2, b}, 2, &other), 0);
	cr_expect_neq(id, other);
	cr_assert_eq(profile_label_set(&p, NULL, 0, &id), 0);
	cr_expect_eq(id, 0);
	cr_expect_eq(profile_label_set(&p, &p.labels_count, 1, &id), -EINVAL);
	cr_expect_eq(profile_label(&p, "a", 1, p.strings_count, &id), -EINVAL);
}

Test(profile, a_set_has_no_more_labels_than_there_is_room_for)
{
	uint32_t labels[PROFILE_LABELS_MAX + 5], id;

	for (uint32_t i = 0; i < PROFILE_LABELS_MAX + 5; i++) {
		const char key[] = {(char)('a' + i), 0};

		labels[i] = label(key, "");
	}
	cr_assert_eq(profile_label_set(&p, labels, PROFILE_LABELS_MAX + 5, &id), 0);
	cr_expect_eq(p.label_sets[id].count, PROFILE_LABELS_MAX);
}

Test(profile, a_stack_with_labels_has_the_frames_of_the_plain_one)
{
	const uint32_t a = label("a", "1"), b = label("b", "2");
	uint32_t plain, with_a, with_b, sets[2], id, zero = 0;

	cr_assert_eq(profile_label_set(&p, &a, 1, &sets[0]), 0);
	cr_assert_eq(profile_label_set(&p, &b, 1, &sets[1]), 0);
	cr_assert_eq(profile_stack(&p, &zero, 1, &plain), 0);
	cr_expect_eq(p.stacks[plain].plain, plain);
	cr_assert_eq(profile_labelled_stack(&p, plain, sets[0], &with_a), 0);
	cr_assert_eq(profile_labelled_stack(&p, with_a, sets[1], &with_b), 0);
	cr_expect(plain != with_a && with_a != with_b && plain != with_b);
	cr_expect_eq(p.stacks[with_b].plain, plain);
	cr_expect_eq(p.stacks[with_b].labels, sets[1]);
	cr_expect_eq(p.stacks[with_b].first, p.stacks[plain].first);
	cr_expect_eq(p.stacks[with_b].count, 1);
	cr_assert_eq(profile_labelled_stack(&p, plain, sets[1], &id), 0);
	cr_expect_eq(id, with_b);
	cr_assert_eq(profile_labelled_stack(&p, with_a, 0, &id), 0);
	cr_expect_eq(id, plain);
	cr_assert_eq(profile_stack(&p, &zero, 1, &id), 0);
	cr_expect_eq(id, plain);
	cr_expect_eq(profile_labelled_stack(&p, p.stacks_count, 0, &id), -EINVAL);
	cr_expect_eq(profile_labelled_stack(&p, 0, p.label_sets_count, &id), -EINVAL);
}

Test(profile, equal_samples_are_merged)
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

/* Returns the times of an entry as text. */
static const char *times(uint32_t sample)
{
	static char text[256];
	size_t used = 0;

	text[0] = 0;
	for (uint32_t at = p.samples[sample].first_time; at; at = p.times[at - 1].next)
		used += snprintf(text + used, sizeof(text) - used, "%lu ", p.times[at - 1].time_ns);
	return text;
}

Test(profile, samples_with_times_keep_their_order)
{
	uint32_t stack, zero = 0;

	cr_assert_eq(profile_stack(&p, &zero, 1, &stack), 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, 3, 100), 0);
	cr_assert_eq(profile_add_at(&p, 0, 0, 3, 101), 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, 3, 90), 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, 4, 103), 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, 3, 104), 0);
	/* Samples without times are another entry, even on the same CPU. */
	cr_assert_eq(profile_add_on(&p, 0, stack, 3, 7), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 5), 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, PROFILE_CPU_UNKNOWN, 105), 0);
	cr_expect_eq(p.samples_count, 6);
	cr_expect_eq(p.sample_count, 18);
	cr_expect_eq(p.samples[0].count, 3);
	cr_expect_str_eq(times(0), "100 90 104 ");
	cr_expect_str_eq(times(1), "101 ");
	cr_expect_str_eq(times(2), "103 ");
	cr_expect_str_eq(times(3), "");
	cr_expect_eq(p.samples[3].count, 7);
	cr_expect_eq(p.samples[4].timed, 0);
	cr_expect_str_eq(times(5), "105 ");
	cr_expect_eq(profile_add_at(&p, 1, 0, 0, 1), -EINVAL);
	cr_expect_eq(profile_add_at(&p, 0, 2, 0, 1), -EINVAL);
	cr_expect_eq(p.times_count, 6);

	profile_clear_samples(&p);
	cr_expect_eq(p.samples_count + p.sample_count + p.times_count, 0);
	cr_assert_eq(profile_add_at(&p, 0, stack, 4, 200), 0);
	cr_expect_eq(p.samples_count, 1);
	cr_expect_str_eq(times(0), "200 ");
}

Test(profile, times_are_within_the_cap)
{
	struct profile small;
	uint64_t added = 0;
	int r = 0;

	cr_assert_eq(profile_init(&small, 100000), 0);
	while (added < 100000 && !r) {
		r = profile_add_at(&small, 0, 0, 0, added);
		added += !r;
	}
	cr_expect_eq(r, -ENOSPC);
	cr_expect_leq(small.bytes, 100000u);
	cr_expect_geq(small.bytes, small.times_count * sizeof(struct profile_time));
	cr_expect_gt(added, 2000u);
	cr_expect_eq(small.sample_count, added);
	cr_expect_eq(small.times_count, added);
	profile_fini(&small);
}

Test(profile, stacks_differ_by_length_and_order)
{
	uint32_t l, n[4];

	const struct profile_location location = {.kind = string("native"), .address = 1};
	cr_assert_eq(profile_location(&p, &location, &l), 0);
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

Test(profile, locations_are_named_by_function_module_or_address)
{
	struct profile_location l = {.kind = string("native"), .address = 0xabc};
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

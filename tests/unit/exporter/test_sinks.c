/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"
#include "pprof/profile.pb-c.h"
#include "random_profile.h"
#include "sinks_fixture.h"

TestSuite(sinks, .init = setup, .fini = teardown);

static Perftools__Profiles__Profile *read_pprof(void)
{
	size_t length, capacity = 64 << 20;
	_cleanup_free_ char *gzip = render("pprof", &length);
	_cleanup_free_ uint8_t *raw = malloc(capacity);
	z_stream z = {.next_in = (Bytef *)gzip, .avail_in = (uInt)length};

	cr_assert_eq(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = raw;
	z.avail_out = (uInt)capacity;
	cr_assert_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	const size_t used = z.total_out;
	inflateEnd(&z);
	Perftools__Profiles__Profile *m = perftools__profiles__profile__unpack(NULL, used, raw);
	cr_assert_not_null(m);
	return m;
}

Test(sinks, every_format_is_found_by_name)
{
	static const char *const names[] = {"html",	  "folded", "pprof",
					    "speedscope", "otlp",   "tree"};

	for (size_t i = 0; i < 6; i++) {
		cr_assert_not_null(sink_find(names[i]));
		cr_expect_str_eq(sink_find(names[i])->name, names[i]);
	}
	cr_expect_null(sink_find("perf"));
	cr_expect_null(sink_find(""));
}

Test(sinks, folded_escapes_separators_and_merges_stacks)
{
	size_t length;
	uint32_t main = frame("native", "/bin/app", "main", 1);
	uint32_t bad = frame("native", "/bin/app", "a;b\nc", 2);
	uint32_t none = frame("native", "/lib/libc.so.6", "", 0x1f);
	uint32_t sys = frame("kernel", "vmlinux", "do_sys", 3);
	uint32_t t1 = thread(1, 1, "app", "w;1"), t2 = thread(1, 2, "app", "w;1");

	options.group_by = GROUP_BY_THREAD;
	ADD(t1, 2, sys, none, main);
	ADD(t2, 3, sys, none, main);
	ADD(t2, 1, main);
	ADD(t2, 1, bad, main);
	_cleanup_free_ char *text = render("folded", &length);
	cr_expect_str_eq(text, "w:1;main 1\n"
			       "w:1;main;a:b\\x0ac 1\n"
			       "w:1;main;libc.so.6+0x1f;do_sys_[k] 5\n");
}

/* Two addresses in one function without a symbol. */
Test(sinks, frames_with_a_generated_name_are_one_function)
{
	const struct profile_function f = {.name = string("app+0x100"), .name_is_generated = 1};
	uint32_t frames[2];
	size_t length;

	for (uint64_t i = 0; i < 2; i++) {
		struct profile_location l = {.kind = string("native"), .address = 0x110 + i};

		cr_assert_eq(profile_function(&p, &f, &l.function), 0);
		cr_assert_eq(profile_location(&p, &l, &frames[i]), 0);
		ADD(0, 1, frames[i]);
	}
	cr_assert_neq(frames[0], frames[1]);
	_cleanup_free_ char *text = render("folded", &length);
	cr_expect_str_eq(text, "[unknown];app+0x100 2\n");
}

Test(sinks, folded_groups_by_process_name_unless_pid_or_thread_is_asked_for)
{
	static const char *const expected[] = {
	    [GROUP_BY_NAME] = "cc1;main 6\nmake;main 8\n",
	    [GROUP_BY_PID] = "cc1 (10);main 3\ncc1 (11);main 3\nmake (12);main 8\n",
	    [GROUP_BY_THREAD] = "cc1;main 4\ncc1-io;main 2\nmake;main 8\n",
	};
	uint32_t main = frame("native", "cc1", "main", 1);

	ADD(thread(10, 10, "cc1", "cc1"), 1, main);
	ADD(thread(10, 20, "cc1", "cc1-io"), 2, main);
	ADD(thread(11, 11, "cc1", "cc1"), 3, main);
	ADD(thread(12, 12, "make", "make"), 8, main);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		size_t length;
		options.group_by = (enum group_by)i;
		_cleanup_free_ char *text = render("folded", &length);
		cr_expect_str_eq(text, expected[i]);
	}
}

Test(sinks, html_starts_with_the_grouping_that_was_asked_for)
{
	static const char *const expected[] = {
	    [GROUP_BY_NAME] = "\"group_by\":\"name\"",
	    [GROUP_BY_PID] = "\"group_by\":\"pid\"",
	    [GROUP_BY_THREAD] = "\"group_by\":\"thread\"",
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		size_t length;
		options.group_by = (enum group_by)i;
		_cleanup_free_ char *text = render("html", &length);
		cr_expect_not_null(strstr(text, expected[i]), "%s", expected[i]);
	}
}

/* Replaces the profile by two stacks of one function, at these addresses. */
static void one_function_at(uint64_t first, uint64_t second)
{
	teardown();
	cr_assert_eq(profile_init(&p, 64 << 20), 0);
	uint32_t main = frame("native", "cc1", "main", 1);
	uint32_t a = frame("native", "cc1", "cc1+0xb1f500", first);
	uint32_t b = frame("native", "cc1", "cc1+0xb1f500", second);
	ADD(thread(1, 1, "cc1", "cc1"), 1, a, main);
	ADD(thread(1, 1, "cc1", "cc1"), 1, b, main);
}

/* Frames without a symbol are named by the start of their function. Their locations keep the exact
 * address, so without merging a function would be as many frames as it has call sites. */
Test(sinks, addresses_of_one_function_are_one_frame)
{
	static const char *const names[] = {"tree", "folded", "html"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t same_length, length;
		one_function_at(0xb1f5c1, 0xb1f5c1);
		_cleanup_free_ char *same = render(names[i], &same_length);
		one_function_at(0xb1f5c1, 0xb1f5af);
		_cleanup_free_ char *text = render(names[i], &length);
		cr_expect_str_eq(text, same, "%s", names[i]);
		one_function_at(0xb1f5c1, 0xb1f5af);
	}
	size_t length, frames = 0;
	_cleanup_free_ char *text = render("speedscope", &length);
	for (const char *at = text; (at = strstr(at, "cc1+0xb1f500")); at++)
		frames++;
	cr_expect_eq(frames, 1);
}

Test(sinks, pprof_and_otlp_keep_the_address_of_each_location)
{
	struct profile back;
	size_t length;
	uint64_t addresses = 0;

	one_function_at(0xb1f5c1, 0xb1f5af);
	Perftools__Profiles__Profile *m = read_pprof();
	for (size_t i = 0; i < m->n_location; i++)
		addresses +=
		    m->location[i]->address == 0xb1f5c1 || m->location[i]->address == 0xb1f5af;
	cr_expect_eq(addresses, 2);
	perftools__profiles__profile__free_unpacked(m, NULL);

	_cleanup_free_ char *otlp = render("otlp", &length);
	cr_assert_eq(profile_init(&back, 64 << 20), 0);
	cr_assert_eq(otlp_read((const uint8_t *)otlp, length, &back), 0);
	addresses = 0;
	for (uint32_t i = 0; i < back.locations_count; i++)
		addresses +=
		    back.locations[i].address == 0xb1f5c1 || back.locations[i].address == 0xb1f5af;
	cr_expect_eq(addresses, 2);
	profile_fini(&back);
}

Test(sinks, pprof_has_the_labels_of_a_program)
{
	uint32_t value, label, set, stack;
	unsigned int found = 0;

	one_function_at(0x10, 0x20);
	cr_assert_eq(profile_string(&p, "checkout", 8, &value), 0);
	cr_assert_eq(profile_label(&p, "request", 7, value, &label), 0);
	cr_assert_eq(profile_label_set(&p, &label, 1, &set), 0);
	cr_assert_eq(profile_labelled_stack(&p, p.samples[0].stack, set, &stack), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 9), 0);
	Perftools__Profiles__Profile *m = read_pprof();

	for (size_t i = 0; i < m->n_sample; i++) {
		for (size_t j = 0; j < m->sample[i]->n_label; j++) {
			const Perftools__Profiles__Label *l = m->sample[i]->label[j];

			if (strcmp(m->string_table[l->key], "request") != 0)
				continue;
			cr_expect_str_eq(m->string_table[l->str], "checkout");
			cr_expect_eq(m->sample[i]->value[0], 9);
			found++;
		}
	}
	cr_expect_eq(found, 1);
	perftools__profiles__profile__free_unpacked(m, NULL);
}

Test(sinks, folded_writes_a_stack_without_frames)
{
	size_t length;

	cr_assert_eq(profile_add(&p, 0, 0, 4), 0);
	_cleanup_free_ char *text = render("folded", &length);
	cr_expect_str_eq(text, "[unknown] 4\n");
}

Test(sinks, folded_keeps_the_kernel_suffix_of_long_names)
{
	static char name[5000];
	size_t length;

	memset(name, 'n', sizeof(name) - 1);
	ADD(0, 1, frame("kernel", "vmlinux", name, 1));
	_cleanup_free_ char *text = render("folded", &length);
	cr_expect_gt(length, 4000u);
	cr_expect_str_eq(text + length - 7, "_[k] 1\n");
}

Test(sinks, speedscope_escapes)
{
	size_t length;

	p.period_ns = 10;
	ADD(thread(5, 6, "a\"b", "t\\"), 3, frame("native", "m", "x\xff\"\n\x01", 0));
	_cleanup_free_ char *text = render("speedscope", &length);
	cr_expect_not_null(
	    strstr(text, "{\"name\":\"x\\\\xff\\\"\\\\x0a\\\\x01\",\"file\":\"m\"}"));
	cr_expect_not_null(strstr(text, "\"name\":\"a\\\"b (5) / t\\\\ (6)\""));
	cr_expect_not_null(strstr(text, "\"endValue\":30"));
	cr_expect_not_null(strstr(text, "\"weights\":[30]"));
}

Test(sinks, speedscope_groups_many_threads_by_process)
{
	size_t length, profiles = 0;

	for (uint32_t i = 0; i < 600; i++)
		ADD(thread(1 + i % 3, i, "app", "t"), 1, frame("native", "m", "f", 0));
	_cleanup_free_ char *text = render("speedscope", &length);
	for (const char *at = text; (at = strstr(at, "\"type\":\"sampled\"")); at++)
		profiles++;
	cr_expect_eq(profiles, 4);
}

Test(sinks, tree_prunes_and_escapes)
{
	size_t length;
	uint32_t main = frame("native", "app", "main", 1),
		 a = frame("native", "app", "a\x1b[2J", 2);
	uint32_t b = frame("kernel", "vmlinux", "b", 3), c = frame("native", "app", "c", 4);
	uint32_t app = thread(10, 10, "app", "x"), other = thread(11, 11, "other", "y");

	ADD(app, 600, a, main);
	ADD(app, 396, b, main);
	ADD(app, 2, c, main);
	ADD(other, 2, main);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "1000 samples\n"));
	cr_expect_not_null(strstr(text, " 99.80%        998  app (10)\n"
					" 99.80%        998    main\n"
					" 60.00%        600    ├ a\\x1b[2J\n"
					" 39.60%        396    ├ b_[k]\n"
					"  0.20%          2    └ ... 1 more\n"));
	cr_expect_not_null(strstr(text, "  0.20%          2  ... 1 more\n"));
	cr_expect_not_null(strstr(text, " 60.00%          600   60.00%  a\\x1b[2J\n"));
	cr_expect_not_null(strstr(text, "  0.20%            2  100.00%  main\n"));
	cr_expect_null(strchr(text, 0x1b));
}

Test(sinks, tree_counts_recursion_once)
{
	size_t length;
	uint32_t f = frame("native", "app", "f", 1);

	ADD(0, 7, f, f, f);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "100.00%            7  100.00%  f\n"));
}

Test(sinks, tree_shows_consecutive_calls_as_one_line_with_their_number)
{
	size_t length;
	uint32_t main = frame("native", "app", "main", 1), leaf = frame("native", "app", "leaf", 2);
	uint32_t rec = frame("native", "app", "rec", 3), rec2 = frame("native", "app", "rec", 4);

	ADD(thread(10, 10, "app", "app"), 4, leaf, rec, rec2, rec, main);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "100.00%          4  app (10)\n"
					"100.00%          4    main\n"
					"100.00%          4    rec x3\n"
					"100.00%          4    leaf\n\n"),
			   "%s", text);
}

Test(sinks, tree_shows_the_range_if_the_number_of_consecutive_calls_differs)
{
	size_t length;
	uint32_t main = frame("native", "app", "main", 1), leaf = frame("native", "app", "leaf", 2);
	uint32_t rec = frame("native", "app", "rec", 3), app = thread(10, 10, "app", "app");

	ADD(app, 1, leaf, rec, main);
	ADD(app, 2, leaf, rec, rec, main);
	ADD(app, 4, rec, rec, rec, rec, rec, main);
	/* These calls do not follow each other. */
	ADD(app, 1, rec, leaf, rec, rec, main);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "100.00%          8    main\n"
					"100.00%          8    rec x1-5\n"
					" 50.00%          4    └ leaf\n"
					" 12.50%          1      └ rec\n\n"),
			   "%s", text);
}

Test(sinks, tree_shows_several_recursive_functions_of_one_stack)
{
	size_t length;
	uint32_t a = frame("native", "app", "a", 1), b = frame("native", "app", "b", 2);
	uint32_t c = frame("native", "app", "c", 3), app = thread(10, 10, "app", "app");

	ADD(app, 1, c, c, b, a, a, a);
	ADD(app, 2, c, c, b, a, a, a, a);
	ADD(app, 4, c, b, a);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "100.00%          7    a x1-4\n"
					"100.00%          7    b\n"
					"100.00%          7    c x1-2\n\n"),
			   "%s", text);
}

Test(sinks, tree_groups_by_process_name_unless_pid_is_asked_for)
{
	size_t length;
	uint32_t main = frame("native", "cc1", "main", 1);

	ADD(thread(10, 10, "cc1", "cc1"), 1, main);
	ADD(thread(11, 11, "cc1", "cc1"), 3, main);
	_cleanup_free_ char *by_name = render("tree", &length);
	cr_expect_not_null(strstr(by_name, "100.00%          4  cc1 (2 processes)\n"), "%s",
			   by_name);
	options.group_by = GROUP_BY_PID;
	_cleanup_free_ char *by_pid = render("tree", &length);
	cr_expect_not_null(strstr(by_pid, " 75.00%          3  cc1 (11)\n"), "%s", by_pid);
	cr_expect_not_null(strstr(by_pid, " 25.00%          1  cc1 (10)\n"), "%s", by_pid);
}

Test(sinks, tree_survives_deep_branching)
{
	static uint32_t frames[3000];
	size_t length;

	for (uint32_t i = 0; i < 3000; i++)
		frames[i] = frame("native", "app", i % 2 ? "f" : "g", i);
	for (uint32_t depth = 1; depth < 3000; depth += 10)
		add(0, depth == 2991 ? 100000 : 1000, frames + 3000 - depth, depth);
	_cleanup_free_ char *text = render("tree", &length);
	cr_expect_not_null(strstr(text, "deeper"));
	cr_expect_lt(length, 1u << 20);
}

static uint64_t folded_sum(void)
{
	size_t length;
	uint64_t sum = 0;
	_cleanup_free_ char *text = render("folded", &length);

	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		cr_assert_not_null(strrchr(line, ' '));
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	}
	cr_assert_eq(strlen(text) > length, 0);
	return sum;
}

static uint64_t pprof_sum(uint64_t *nanoseconds)
{
	Perftools__Profiles__Profile *m = read_pprof();
	uint64_t sum = 0;

	cr_expect_str_eq(m->string_table[0], "");
	for (size_t i = 0; i < m->n_sample; i++) {
		sum += m->sample[i]->value[0];
		*nanoseconds += m->sample[i]->value[1];
	}
	perftools__profiles__profile__free_unpacked(m, NULL);
	return sum;
}

static uint64_t speedscope_sum(void)
{
	size_t length;
	uint64_t sum = 0;
	_cleanup_free_ char *text = render("speedscope", &length);
	char *at = strstr(text, "\"weights\":[");

	cr_assert_not_null(at);
	for (at += strlen("\"weights\":["); *at != ']'; at += *at == ',')
		sum += strtoull(at, &at, 10);
	return sum;
}

Test(sinks, all_formats_have_the_same_sum)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		const struct random_size size = {50, 200, 40, 2000, seed & 1, false};
		uint64_t nanoseconds = 0;
		size_t length;

		teardown();
		setup();
		cr_assert_eq(random_profile(&p, seed, &size), 0);
		cr_expect_eq(folded_sum(), p.sample_count);
		cr_expect_eq(pprof_sum(&nanoseconds), p.sample_count);
		cr_expect_eq(nanoseconds, p.sample_count * p.period_ns);
		cr_expect_eq(speedscope_sum(), p.sample_count * p.period_ns);
		free(render("tree", &length));
	}
}

/* Entries that differ only in what a format does not contain are merged in it. */
Test(sinks, formats_without_cpus_and_times_merge_them)
{
	static const char *const names[] = {"html", "folded", "pprof", "speedscope", "tree"};
	const struct random_size size = {50, 200, 600, 800, true, false};
	char *before[5];
	size_t lengths[5];

	cr_assert_eq(random_profile(&p, 1, &size), 0);
	for (size_t i = 0; i < 5; i++)
		before[i] = render(names[i], &lengths[i]);
	uint32_t count = p.samples_count;
	_cleanup_free_ struct profile_sample *samples = calloc(count, sizeof(*samples));
	memcpy(samples, p.samples, count * sizeof(*samples));
	profile_clear_samples(&p);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < count; i++) {
			const struct profile_sample *s = &samples[i];
			if (round < s->count)
				cr_assert_eq(profile_add_at(&p, s->thread, s->stack, round % 3, i),
					     0);
		}
	}
	cr_assert_gt(p.samples_count, 2 * count);
	for (size_t i = 0; i < 5; i++) {
		size_t length;
		_cleanup_free_ char *text = render(names[i], &length);
		cr_expect(length == lengths[i] && !memcmp(text, before[i], length), "%s", names[i]);
		free(before[i]);
	}
}

/* This holds with few threads, and with enough threads that they are grouped by process. */
Test(sinks, speedscope_merges_within_a_group)
{
	size_t length;
	uint32_t main = frame("native", "m", "main", 0);

	for (uint32_t i = 0; i < 600; i++) {
		ADD(thread(1, i, "app", "t"), 1, main);
		if (i != 0 && i != 599)
			continue;
		_cleanup_free_ char *text = render("speedscope", &length);
		cr_expect_not_null(strstr(text, i ? "\"weights\":[600]" : "\"weights\":[1]"));
		cr_expect_null(strstr(text, "1,1"));
	}
}

Test(sinks, the_same_profile_gives_the_same_bytes)
{
	static const char *const names[] = {"folded", "pprof", "speedscope", "otlp", "tree"};
	const struct random_size size = {50, 200, 40, 500, true, false};

	cr_assert_eq(random_profile(&p, 1, &size), 0);
	for (size_t i = 0; i < 5; i++) {
		size_t a_length, b_length;
		_cleanup_free_ char *a = render(names[i], &a_length);
		_cleanup_free_ char *b = render(names[i], &b_length);
		cr_expect(a_length == b_length && !memcmp(a, b, a_length), "%s", names[i]);
	}
}

Test(sinks, empty_profiles_are_written_and_full_disks_reported)
{
	static const char *const names[] = {"folded", "pprof", "speedscope", "otlp", "tree"};
	const struct random_size size = {50, 200, 40, 3000, false, false};
	size_t length;

	for (size_t i = 0; i < 5; i++)
		free(render(names[i], &length));
	cr_assert_eq(random_profile(&p, 1, &size), 0);
	for (size_t i = 0; i < 5; i++) {
		_cleanup_fclose_ FILE *full = fopen("/dev/full", "w");
		cr_assert_not_null(full);
		cr_expect_eq(sink_find(names[i])->write(&p, &options, full), -ENOSPC, "%s",
			     names[i]);
	}
}

Test(sinks, products_that_overflow_are_the_maximum)
{
	cr_expect_eq(sink_multiply(3, 7, UINT64_MAX), 21);
	cr_expect_eq(sink_multiply(3, 7, 20), 20);
	cr_expect_eq(sink_multiply(UINT64_MAX, 2, INT64_MAX), INT64_MAX);
}

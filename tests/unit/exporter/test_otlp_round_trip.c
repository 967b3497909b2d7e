/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that a profile which is written as a file and read again is the same. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_names.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/sinks/sink.h"
#include "describe.h"
#include "random_profile.h"

static uint8_t *encode(const struct profile *p, size_t *length)
{
	char *data = NULL;
	FILE *out = open_memstream(&data, length);

	cr_assert_eq(sink_otlp_write(p, &(struct sink_options){0}, out), 0);
	fclose(out);
	return (uint8_t *)data;
}

static void expect_round_trip(const struct profile *p)
{
	struct profile back;
	size_t length;
	_cleanup_free_ uint8_t *data = encode(p, &length);

	cr_assert_eq(profile_init(&back, SIZE_MAX), 0);
	cr_assert_eq(otlp_read(data, length, &back), 0);
	_cleanup_free_ char *a = describe(p, false), *b = describe(&back, false);
	cr_expect(!strcmp(a, b));
	/* And writing what was read gives as many bytes: the same tables, in another order at
	 * most. */
	size_t again_length;
	free(encode(&back, &again_length));
	cr_expect_eq(again_length > length ? again_length - length : length - again_length < 64, 1);
	profile_fini(&back);
}

Test(otlp_round_trip, random_profiles)
{
	for (uint64_t seed = 0; seed < 12; seed++) {
		const struct random_size size = {50, 200, 40, 2000, seed % 4 > 1, seed % 2};
		struct profile p;

		cr_assert_eq(profile_init(&p, SIZE_MAX), 0);
		cr_assert_eq(random_profile(&p, seed, &size), 0);
		expect_round_trip(&p);
		profile_fini(&p);
	}
}

Test(otlp_round_trip, corner_cases)
{
	static const char *const words[] = {"samples", "thread.name", "count",
					    "process.executable.build_id.htlhash"};
	struct profile_process one = {.tgid = 7, .start = 1},
			       two = {.tgid = 7, .start = UINT64_MAX}, three = {.tgid = 8},
			       four = {.tgid = 9};
	struct profile_thread t = {0};
	struct profile p;
	uint32_t thread, stack, frame, n;

	cr_assert_eq(profile_init(&p, SIZE_MAX), 0);
	p.period_ns = 1;
	expect_round_trip(&p);
	cr_assert_eq(profile_add(&p, 0, 0, 1), 0);
	frame = 0;
	cr_assert_eq(profile_stack(&p, &frame, 1, &stack), 0);
	cr_assert_eq(profile_add(&p, 0, stack, 2), 0);
	/* Functions named like the dictionary's own strings. */
	for (size_t i = 0; i < 4; i++) {
		struct profile_function f = {0};
		struct profile_location l = {.address = UINT64_MAX - i, .line = UINT32_MAX};
		cr_assert_eq(profile_string(&p, i ? words[i - 1] : "native",
					    i ? strlen(words[i - 1]) : 6, &l.kind),
			     0);
		cr_assert_eq(profile_string(&p, words[i], strlen(words[i]), &f.name), 0);
		cr_assert_eq(profile_function(&p, &f, &l.function), 0);
		cr_assert_eq(profile_location(&p, &l, &frame), 0);
		cr_assert_eq(profile_stack(&p, &frame, 1, &stack), 0);
		cr_assert_eq(profile_add(&p, 0, stack, 1000000000000ULL), 0);
	}
	cr_assert_eq(profile_process(&p, &one, &t.process), 0);
	cr_assert_eq(profile_thread(&p, &t, &thread), 0);
	cr_assert_eq(profile_add(&p, thread, stack, 5), 0);
	cr_assert_eq(profile_process(&p, &two, &t.process), 0);
	t.tid = UINT32_MAX;
	cr_assert_eq(profile_thread(&p, &t, &thread), 0);
	cr_assert_eq(profile_add(&p, thread, stack, 6), 0);
	/* Names: the kernel's own, the executable's, and one of them without the other. */
	cr_assert_eq(profile_string(&p, "comm", 4, &three.name), 0);
	cr_assert_eq(profile_string(&p, "/a/path", 7, &three.path), 0);
	four.path = three.path;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(profile_process(&p, i ? &four : &three, &t.process), 0);
		cr_assert_eq(profile_thread(&p, &t, &thread), 0);
		cr_assert_eq(profile_add_at(&p, thread, stack, 0, i ? UINT64_MAX : 0), 0);
		cr_assert_eq(profile_add_on(&p, thread, stack, 0, 3), 0);
	}
	/* The two times are in the time of the whole, which is taken from the parts. */
	p.start_unix_ns = 0;
	p.duration_ns = UINT64_MAX;
	/* Entries that no sample uses must not be written. */
	cr_assert_eq(profile_string(&p, "nobody uses this", 16, &n), 0);
	size_t length;
	_cleanup_free_ uint8_t *data = encode(&p, &length);
	cr_expect_null(memmem(data, length, "nobody", 6));
	expect_round_trip(&p);
	profile_fini(&p);
}

Test(otlp_round_trip, several_files_add_up)
{
	const struct random_size size = {20, 50, 8, 100, false, false};
	struct profile p, sum;
	size_t length;

	cr_assert_eq(profile_init(&p, SIZE_MAX), 0);
	cr_assert_eq(profile_init(&sum, SIZE_MAX), 0);
	cr_assert_eq(random_profile(&p, 1, &size), 0);
	p.start_unix_ns = 1000;
	p.duration_ns = 10;
	_cleanup_free_ uint8_t *a = encode(&p, &length);
	cr_assert_eq(otlp_read(a, length, &sum), 0);
	p.start_unix_ns = 995;
	p.duration_ns = 7;
	_cleanup_free_ uint8_t *b = encode(&p, &length);
	cr_assert_eq(otlp_read(b, length, &sum), 0);
	cr_expect_eq(sum.sample_count, 2 * p.sample_count);
	cr_expect_eq(sum.samples_count, p.samples_count);
	cr_expect_eq(sum.start_unix_ns, 995);
	cr_expect_eq(sum.duration_ns, 15);
	profile_fini(&p);
	profile_fini(&sum);
}

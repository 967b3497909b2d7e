/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a backend. check_outputs.py checks the dictionary of each. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "common/cleanup.h"
#include "describe.h"
#include "exporter/otlp/otlp_encode.h"
#include "exporter/otlp/otlp_names.h"
#include "exporter/otlp/otlp_read.h"
#include "random_profile.h"

typedef OTLP_TYPE(ProfilesData) message_data;
typedef OTLP_TYPE(Profile) message_profile;
typedef OTLP_TYPE(Sample) message_sample;
typedef OTLP_RESOURCE_TYPE(Resource) message_resource;
typedef OTLP_COMMON_TYPE(AnyValue) message_value;

enum {
	REQUESTS_MAX = 4096
};

static struct profile p;

/* The requests that were emitted. */
static struct {
	struct request {
		uint8_t *data;
		size_t length;
		uint64_t samples;
		bool last;
		message_data *message;
	} list[REQUESTS_MAX];
	size_t count, stop_after;
	uint64_t too_large, samples;
} got;

static void drop_requests(void)
{
	for (size_t i = 0; i < got.count; i++) {
		free(got.list[i].data);
		OTLP_CALL(profiles_data, free_unpacked)(got.list[i].message, NULL);
	}
	memset(&got, 0, sizeof(got));
}

static void setup(void)
{
	cr_assert_eq(profile_init(&p, SIZE_MAX), 0);
	p.period_ns = 50000000;
	p.start_unix_ns = 1000;
	p.duration_ns = 100;
}

static void teardown(void)
{
	drop_requests();
	profile_fini(&p);
}

TestSuite(otlp_encode, .init = setup, .fini = teardown);

static int take(void *context, const struct otlp_request *request)
{
	struct request *to = &got.list[got.count];

	cr_assert_lt(got.count, REQUESTS_MAX);
	cr_assert_eq(context, &got);
	to->data = memcpy(malloc(request->length), request->data, request->length);
	to->length = request->length;
	to->samples = request->samples;
	to->last = request->last;
	to->message = OTLP_CALL(profiles_data, unpack)(NULL, to->length, to->data);
	cr_assert_not_null(to->message);
	got.samples += request->samples;
	got.count++;
	return got.count == got.stop_after ? -EPIPE : 0;
}

/* Encodes p and checks what holds for any requests. */
static void encode_with(const struct otlp_encode_options *options)
{
	size_t stop_after = got.stop_after;

	drop_requests();
	got.stop_after = stop_after;
	cr_assert_eq(otlp_encode(&p, options, take, &got, &got.too_large), 0);
	cr_expect_eq(got.samples + got.too_large, p.sample_count);
	for (size_t i = 0; i < got.count; i++) {
		cr_expect_leq(got.list[i].length, options->request_bytes_max);
		cr_expect_eq(got.list[i].last, i + 1 == got.count, "request %zu of %zu", i,
			     got.count);
		cr_expect_gt(got.list[i].samples, 0u);
	}
}

static void encode(size_t request_bytes_max)
{
	encode_with(&(struct otlp_encode_options){.request_bytes_max = request_bytes_max});
}

/* Checks that all requests, read into one profile, contain what p contains. */
static void expect_all_is_there(void)
{
	struct profile back;

	cr_assert_eq(profile_init(&back, SIZE_MAX), 0);
	for (size_t i = 0; i < got.count; i++)
		cr_assert_eq(otlp_read(got.list[i].data, got.list[i].length, &back), 0);
	_cleanup_free_ char *a = describe(&p, true), *b = describe(&back, true);
	cr_expect(!strcmp(a, b));
	profile_fini(&back);
}

Test(otlp_encode, every_sample_is_in_one_request)
{
	static const size_t sizes[] = {SIZE_MAX, 3500000, 200000, 65536, 20000, 8192};

	for (uint64_t seed = 0; seed < 6; seed++) {
		const struct random_size size = {50, 200, 40, 600, seed % 3 == 2, seed % 2};
		teardown();
		cr_assert_eq(profile_init(&p, SIZE_MAX), 0);
		cr_assert_eq(random_profile(&p, seed, &size), 0);
		/* Requests leave generated names out, see the test of those. */
		for (uint32_t i = 0; i < p.functions_count; i++)
			p.functions[i].name_is_generated = 0;
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			encode(sizes[i]);
			cr_expect_eq(got.too_large, 0);
			cr_expect(sizes[i] < 3500000 || got.count == 1);
			cr_expect(sizes[i] > 20000 || got.count > 1);
			expect_all_is_there();
			/* Each request but the last is full: there is no room for another sample, which
			 * takes at most 7 KiB with all its definitions. */
			for (size_t j = 0; j + 1 < got.count; j++)
				cr_expect_gt(got.list[j].length + 7168, sizes[i]);
		}
	}
}

Test(otlp_encode, the_same_profile_gives_the_same_requests)
{
	const struct random_size size = {50, 200, 40, 600, true, true};
	struct request first[REQUESTS_MAX];

	cr_assert_eq(random_profile(&p, 1, &size), 0);
	encode(10000);
	size_t count = got.count;
	memcpy(first, got.list, sizeof(first));
	got.count = 0;
	encode(10000);
	cr_assert_eq(got.count, count);
	for (size_t i = 0; i < count; i++) {
		cr_expect(got.list[i].length == first[i].length &&
			  !memcmp(got.list[i].data, first[i].data, first[i].length));
		free(first[i].data);
		OTLP_CALL(profiles_data, free_unpacked)(first[i].message, NULL);
	}
}

Test(otlp_encode, a_profile_without_samples_gives_no_request)
{
	encode(SIZE_MAX);
	cr_expect_eq(got.count, 0);
	cr_assert_eq(profile_add(&p, 0, 0, 1), 0);
	encode(SIZE_MAX);
	cr_expect_eq(got.count, 1);
	profile_clear_samples(&p);
	encode(SIZE_MAX);
	cr_expect_eq(got.count, 0);
}

Test(otlp_encode, a_failure_of_emit_ends_the_encoding)
{
	const struct random_size size = {50, 200, 40, 600, false, true};
	const struct otlp_encode_options options = {.request_bytes_max = 10000};
	uint64_t too_large = 77;

	cr_assert_eq(random_profile(&p, 1, &size), 0);
	got.stop_after = 3;
	cr_expect_eq(otlp_encode(&p, &options, take, &got, &too_large), -EPIPE);
	cr_expect_eq(got.count, 3);
	cr_expect_eq(too_large, 77);
}

/* --- made by hand --- */

static uint32_t string(const char *text)
{
	uint32_t n;

	cr_assert_eq(profile_string(&p, text, strlen(text), &n), 0);
	return n;
}

static uint32_t stack(uint32_t depth, uint64_t first_address)
{
	uint32_t frames[4096], n;
	struct profile_location l = {.kind = string("native")};

	for (uint32_t i = 0; i < depth; i++) {
		l.address = first_address + i;
		cr_assert_eq(profile_location(&p, &l, &frames[i]), 0);
	}
	cr_assert_eq(profile_stack(&p, frames, depth, &n), 0);
	return n;
}

static uint32_t thread_of(const struct profile_process *process, uint32_t tid, const char *name)
{
	struct profile_thread t = {.tid = tid, .name = string(name)};
	uint32_t n;

	cr_assert_eq(profile_process(&p, process, &t.process), 0);
	cr_assert_eq(profile_thread(&p, &t, &n), 0);
	return n;
}

static const message_profile *profile_at(size_t resource, size_t profile)
{
	const message_data *m = got.list[0].message;

	cr_assert_lt(resource, m->n_resource_profiles);
	cr_assert_eq(m->resource_profiles[resource]->n_scope_profiles, 1);
	cr_assert_lt(profile, m->resource_profiles[resource]->scope_profiles[0]->n_profiles);
	return m->resource_profiles[resource]->scope_profiles[0]->profiles[profile];
}

Test(otlp_encode, samples_that_fit_no_request_are_counted)
{
	/* In the order of threads, which is that of processes: at the ends and between. */
	static const uint32_t depths[] = {3000, 1, 3000, 3000, 2, 3000};

	for (uint32_t i = 0; i < 6; i++) {
		uint32_t t = thread_of(&(struct profile_process){.tgid = i + 1}, 1, "t");
		cr_assert_eq(profile_add(&p, t, stack(depths[i], 10000 * i), 1 + i), 0);
		cr_assert_eq(profile_add_at(&p, t, stack(depths[i], 10000 * i), 0, i), 0);
	}
	encode(2000);
	cr_expect_eq(got.count, 2);
	cr_expect_eq(got.samples, 2 + 1 + 5 + 1);
	encode(700);
	cr_expect_eq(got.count, 2);
	cr_expect_eq(got.samples, 2 + 1 + 5 + 1);
	encode(SIZE_MAX);
	cr_expect_eq(got.too_large, 0);
	encode(100);
	cr_expect_eq(got.count, 0);
	encode(0);
	cr_expect_eq(got.count, 0);
}

Test(otlp_encode, a_sample_with_many_times_is_split)
{
	enum {
		TIMES = 10000
	};
	uint32_t t = thread_of(&(struct profile_process){.tgid = 1}, 1, "t"), n = stack(3, 1);
	static uint8_t seen[TIMES];

	p.duration_ns = TIMES;
	cr_assert_eq(profile_add_at(&p, t, n, 1, 1000), 0);
	for (uint32_t i = 0; i < TIMES; i++)
		cr_assert_eq(profile_add_at(&p, t, n, 0, 1000 + i), 0);
	cr_assert_eq(profile_add_at(&p, t, n, 2, 1000), 0);
	/* Sizes at which lengths take one byte more, too. */
	for (size_t max = 700; max < 20000; max += max < 1500 ? 5 : 1777) {
		encode(max);
		cr_assert_eq(got.too_large, 0);
		cr_assert_leq(got.count, 2 + (TIMES + 2) * 8 / (max - 500));
		expect_all_is_there();
	}
	encode(4000);
	for (size_t i = 0; i < got.count; i++) {
		const message_data *m = got.list[i].message;
		const message_profile *q = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
		for (size_t j = 0; j < q->n_samples; j++) {
			const message_sample *s = q->samples[j];
			for (size_t k = 0;
			     s->n_attribute_indices == 3 && k < s->n_timestamps_unix_nano; k++)
				seen[s->timestamps_unix_nano[k] - 1000]++;
		}
	}
	cr_expect_eq(seen[0], 3);
	for (int i = 1; i < TIMES; i++)
		cr_assert_eq(seen[i], 1);
	/* No room for even one. */
	encode(300);
	cr_expect_eq(got.count, 0);
	cr_expect_eq(got.too_large, TIMES + 2);
}

/* The time of a profile contains all its times; its end is exclusive. */
Test(otlp_encode, the_time_of_a_profile_contains_its_samples)
{
	static const struct {
		uint64_t times[3], start, duration;
	} cases[] = {
	    {{1000, 1050, 1099}, 1000, 100},
	    {{1100}, 1000, 101},
	    {{999}, 999, 101},
	    {{5000, 1000, 20}, 20, 4981},
	    {{0}, 0, 1100},
	    {{UINT64_MAX - 1}, 1000, UINT64_MAX - 1000},
	    {{UINT64_MAX}, 1000, UINT64_MAX - 1000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		profile_clear_samples(&p);
		for (size_t j = 0; j < 3; j++) {
			if (!j || cases[i].times[j])
				cr_assert_eq(profile_add_at(&p, 0, 0, 0, cases[i].times[j]), 0);
		}
		encode(SIZE_MAX);
		cr_expect_eq(profile_at(0, 0)->time_unix_nano, cases[i].start, "case %zu", i);
		cr_expect_eq(profile_at(0, 0)->duration_nano, cases[i].duration, "case %zu", i);
	}
	/* The times of other processes do not count. */
	uint32_t t = thread_of(&(struct profile_process){.tgid = 1}, 1, "t");
	cr_assert_eq(profile_add_at(&p, t, 0, 0, 1001), 0);
	encode(SIZE_MAX);
	cr_expect_eq(profile_at(1, 0)->time_unix_nano, 1000);
	cr_expect_eq(profile_at(1, 0)->duration_nano, 100);
}

/* Samples with times and samples without are in different profiles. */
Test(otlp_encode, a_profile_has_samples_of_one_shape)
{
	uint32_t t = thread_of(&(struct profile_process){.tgid = 1}, 1, "t");

	cr_assert_eq(profile_add_at(&p, t, stack(1, 1), 0, 1001), 0);
	cr_assert_eq(profile_add(&p, t, stack(1, 1), 9), 0);
	cr_assert_eq(profile_add_at(&p, t, stack(1, 1), 0, 1000), 0);
	cr_assert_eq(profile_add_at(&p, t, stack(1, 2), 1, 1002), 0);
	encode(SIZE_MAX);
	cr_assert_eq(got.list[0].message->n_resource_profiles, 1);
	cr_assert_eq(got.list[0].message->resource_profiles[0]->scope_profiles[0]->n_profiles, 2);
	const message_profile *values = profile_at(0, 0), *times = profile_at(0, 1);
	cr_assert_eq(values->n_samples, 1);
	cr_expect_eq(values->samples[0]->n_timestamps_unix_nano, 0);
	cr_assert_eq(values->samples[0]->n_values, 1);
	cr_expect_eq(values->samples[0]->values[0], 9);
	cr_assert_eq(times->n_samples, 2);
	cr_expect_eq(times->samples[0]->n_values + times->samples[1]->n_values, 0);
	cr_assert_eq(times->samples[0]->n_timestamps_unix_nano, 2);
	cr_expect_eq(times->samples[0]->timestamps_unix_nano[0], 1001);
	cr_expect_eq(times->samples[0]->timestamps_unix_nano[1], 1000);
	for (int i = 0; i < 2; i++) {
		const OTLP_TYPE(ProfilesDictionary) *d = got.list[0].message->dictionary;
		const message_profile *q = profile_at(0, i);
		cr_expect_str_eq(d->string_table[q->sample_type->type_strindex], "samples");
		cr_expect_str_eq(d->string_table[q->sample_type->unit_strindex], "count");
		cr_expect_str_eq(d->string_table[q->period_type->type_strindex], "cpu");
		cr_expect_str_eq(d->string_table[q->period_type->unit_strindex], "nanoseconds");
		cr_expect_eq(q->period, 50000000);
	}
}

static const message_value *attribute(const int32_t *indices, size_t count, const char *key)
{
	const OTLP_TYPE(ProfilesDictionary) *d = got.list[0].message->dictionary;

	for (size_t i = 0; i < count; i++) {
		const OTLP_TYPE(KeyValueAndUnit) *a = d->attribute_table[indices[i]];
		if (!strcmp(d->string_table[a->key_strindex], key))
			return a->value;
	}
	return NULL;
}

#define ATTRIBUTE(m, key) attribute((m)->attribute_indices, (m)->n_attribute_indices, key)

Test(otlp_encode, samples_have_thread_and_cpu_attributes)
{
	uint32_t t = thread_of(&(struct profile_process){.tgid = 1}, 0, "name");
	const message_value *value;

	cr_assert_eq(profile_add_at(&p, t, 0, 0, 1001), 0);
	cr_assert_eq(profile_add_at(&p, t, 0, PROFILE_CPU_UNKNOWN, 1001), 0);
	encode(SIZE_MAX);
	const message_sample *known = profile_at(0, 0)->samples[0],
			     *unknown = profile_at(0, 0)->samples[1];
	cr_expect_eq(known->n_attribute_indices, 3);
	value = ATTRIBUTE(known, "thread.name");
	cr_assert(value && value->value_case == OTLP_VALUE_CASE(STRING_VALUE));
	cr_expect_str_eq(value->string_value, "name");
	/* A value is written even if it is 0. */
	value = ATTRIBUTE(known, "thread.id");
	cr_assert(value && value->value_case == OTLP_VALUE_CASE(INT_VALUE));
	cr_expect_eq(value->int_value, 0);
	value = ATTRIBUTE(known, "cpu.logical_number");
	cr_assert(value && value->value_case == OTLP_VALUE_CASE(INT_VALUE));
	cr_expect_eq(value->int_value, 0);
	cr_expect_eq(unknown->n_attribute_indices, 2);
	cr_expect_null(ATTRIBUTE(unknown, "cpu.logical_number"));
}

/* Build ids are only written together with the one that all backends know. */
Test(otlp_encode, mappings_have_build_ids_only_with_htlhash)
{
	const struct profile_mapping mappings[] = {
	    {string("vmlinux"), string("aa"), 0, 0},
	    {string("/bin/a"), string("bb"), string("cc"), string("d/d")},
	    {string("/bin/b"), 0, string("ee"), 0},
	};
	struct profile_location l = {.kind = string("native")};
	uint32_t frames[3], n;

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(profile_mapping(&p, &mappings[i], &l.mapping), 0);
		cr_assert_eq(profile_location(&p, &l, &frames[i]), 0);
	}
	cr_assert_eq(profile_stack(&p, frames, 3, &n), 0);
	cr_assert_eq(profile_add(&p, 0, n, 1), 0);
	encode(SIZE_MAX);
	const OTLP_TYPE(ProfilesDictionary) *d = got.list[0].message->dictionary;
	cr_assert_eq(d->n_mapping_table, 4);
	cr_expect_eq(d->mapping_table[1]->n_attribute_indices, 0);
	cr_expect_eq(d->mapping_table[2]->n_attribute_indices, 3);
	cr_expect_str_eq(
	    ATTRIBUTE(d->mapping_table[2], "process.executable.build_id.gnu")->string_value, "bb");
	cr_expect_str_eq(
	    ATTRIBUTE(d->mapping_table[2], "process.executable.build_id.htlhash")->string_value,
	    "cc");
	cr_expect_str_eq(
	    ATTRIBUTE(d->mapping_table[2], "process.executable.build_id.go")->string_value, "d/d");
	cr_expect_eq(d->mapping_table[3]->n_attribute_indices, 1);
}

/* Names of a process that are also strings of the format. */
Test(otlp_encode, each_string_occurs_once)
{
	static const char *const names[] = {"samples",
					    "count",
					    "cpu",
					    "nanoseconds",
					    "thread.name",
					    "thread.id",
					    "cpu.logical_number",
					    "profile.frame.type"};
	struct profile_location l = {.kind = string("native")};
	uint32_t frames[8], n;

	for (int i = 0; i < 8; i++) {
		const struct profile_function f = {.name = string(names[i])};
		cr_assert_eq(profile_function(&p, &f, &l.function), 0);
		cr_assert_eq(profile_location(&p, &l, &frames[i]), 0);
	}
	cr_assert_eq(profile_stack(&p, frames, 8, &n), 0);
	uint32_t t = thread_of(&(struct profile_process){.tgid = 1}, 1, "samples");
	cr_assert_eq(profile_add_at(&p, t, n, 1, 1), 0);
	encode(SIZE_MAX);
	const OTLP_TYPE(ProfilesDictionary) *d = got.list[0].message->dictionary;
	cr_expect_eq(d->n_string_table, 9);
	for (size_t i = 0; i < d->n_string_table; i++) {
		for (size_t j = 0; j < i; j++)
			cr_expect_str_neq(d->string_table[i], d->string_table[j]);
	}
}

/* Returns the attributes of a resource as "key=value ...", in the order of the message. */
static const char *resource_text(size_t resource)
{
	static char text[1024];
	const message_resource *m = got.list[0].message->resource_profiles[resource]->resource;
	size_t used = 0;

	for (size_t i = 0; i < m->n_attributes; i++) {
		const message_value *value = m->attributes[i]->value;
		cr_assert_eq(m->attributes[i]->key_strindex, 0);
		if (value->value_case == OTLP_VALUE_CASE(INT_VALUE))
			used += snprintf(text + used, sizeof(text) - used, "%s=%ld ",
					 m->attributes[i]->key, value->int_value);
		else
			used += snprintf(text + used, sizeof(text) - used, "%s=\"%s\" ",
					 m->attributes[i]->key, value->string_value);
	}
	return text;
}

Test(otlp_encode, resources_have_the_attributes_of_their_process)
{
	static const struct otlp_resource_attribute attributes[] = {
	    {"host.name", "h"},
	    {"service.name", "all"},
	    {"process.pid", "forged"},
	    {"host.name", "again"},
	    {"process.environment_variable.A", "x"},
	    {"process.environment_variable.AB", "y"},
	    {"empty", ""},
	};
	const struct otlp_encode_options options = {attributes, 7, SIZE_MAX};
	struct profile_process q = {.tgid = 5, .start = 17, .name = string("comm")};

	cr_assert_eq(profile_add(&p, thread_of(&q, 5, "t"), 0, 1), 0);
	q.path = string("/usr/bin/prog");
	q.container_id = string("c0ffee");
	q.service_name = string("mine");
	q.variables[0].name = string("A");
	q.variables[0].value = string("1");
	q.variables[1].name = string("B");
	q.variables[2] = q.variables[0];
	cr_assert_eq(profile_add(&p, thread_of(&q, 5, "t"), 0, 1), 0);
	encode_with(&options);
	cr_expect_str_eq(resource_text(0),
			 "process.pid=5 process.executable.name=\"comm\" host.name=\"h\" "
			 "service.name=\"all\" process.environment_variable.A=\"x\" "
			 "process.environment_variable.AB=\"y\" empty=\"\" ");
	cr_expect_str_eq(
	    resource_text(1),
	    "service.name=\"mine\" container.id=\"c0ffee\" process.pid=5 "
	    "process.executable.name=\"prog\" process.executable.path=\"/usr/bin/prog\" "
	    "process.environment_variable.A=\"1\" process.environment_variable.B=\"\" "
	    "host.name=\"h\" process.environment_variable.AB=\"y\" empty=\"\" ");
}

/* Processes that differ only in what a request omits stay apart. */
Test(otlp_encode, processes_of_one_pid_stay_apart)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t t = thread_of(&(struct profile_process){.tgid = 1, .start = i}, 1, "t");
		cr_assert_eq(profile_add(&p, t, 0, 1), 0);
	}
	encode(SIZE_MAX);
	cr_expect_eq(got.list[0].message->n_resource_profiles, 3);
}

static size_t bytes_in_use;

static int note_memory(void *context, const struct otlp_request *request)
{
	const struct mallinfo2 info = mallinfo2();

	(void)context;
	(void)request;
	bytes_in_use = info.uordblks + info.hblkhd;
	return 0;
}

/* An agent's profile keeps the definitions of earlier intervals. The cost of an interval must only depend on its own samples. */
Test(otlp_encode, memory_depends_on_what_is_used)
{
	const struct otlp_encode_options options = {.request_bytes_max = SIZE_MAX};
	uint64_t too_large;

	for (uint32_t i = 0; i < 100; i++)
		stack(2000, 2000 * i);
	cr_assert_eq(p.locations_count, 200001);
	cr_assert_eq(profile_add(&p, 0, stack(10, 1000), 1), 0);
	const struct mallinfo2 before = mallinfo2();
	cr_assert_eq(otlp_encode(&p, &options, note_memory, NULL, &too_large), 0);
	cr_expect_lt(bytes_in_use, before.uordblks + before.hblkhd + 20000);
}

/* A backend looks for the symbol of an address if the location has no function. A file keeps the
 * generated name, so that `report` groups frames as the recording did. */
Test(otlp_encode, generated_names_are_only_in_files)
{
	const struct profile_function f = {.name = string("app+0x100"), .name_is_generated = 1};
	struct profile_location l = {.kind = string("native"), .address = 0x123};
	uint32_t frame, stack_number;

	cr_assert_eq(profile_function(&p, &f, &l.function), 0);
	cr_assert_eq(profile_location(&p, &l, &frame), 0);
	cr_assert_eq(profile_stack(&p, &frame, 1, &stack_number), 0);
	cr_assert_eq(profile_add(&p, 0, stack_number, 1), 0);
	encode(SIZE_MAX);
	cr_assert_eq(got.count, 1);
	const OTLP_TYPE(ProfilesDictionary) *d = got.list[0].message->dictionary;
	cr_assert_eq(d->n_location_table, 2);
	cr_expect_eq(d->location_table[1]->address, 0x123);
	cr_expect_eq(d->location_table[1]->n_lines, 0);
	cr_expect_eq(d->n_function_table, 1, "only the entry that stands for none");
	cr_expect_null(memmem(got.list[0].data, got.list[0].length, "app+0x100", 9));
}

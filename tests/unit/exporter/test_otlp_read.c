/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other writers, and forged ones: each test changes parts of a small valid file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_names.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/sinks/sink.h"
#include "tests/support/failing_memory.h"
#include "describe.h"
#include "random_profile.h"

#define LOCATIONS 64

FAILING_MEMORY;

struct file {
	OTLP_TYPE(ValueType) sample_type;
	OTLP_TYPE(Sample) sample;
	int32_t sample_attributes[2];
	int64_t values[2];
	uint64_t timestamps[3];
	OTLP_TYPE(Profile) profile;
	OTLP_TYPE(ScopeProfiles) scope;
	OTLP_COMMON_TYPE(KeyValue) pid;
	OTLP_COMMON_TYPE(AnyValue) pid_value, thread_name, frame_type;
	OTLP_RESOURCE_TYPE(Resource) resource;
	OTLP_TYPE(ResourceProfiles) resource_profiles[2];
	OTLP_TYPE(Mapping) mappings[2];
	OTLP_TYPE(Function) functions[3];
	OTLP_TYPE(Line) lines[2];
	OTLP_TYPE(Location) locations[2], *location_table[LOCATIONS];
	int32_t location_attribute;
	OTLP_TYPE(Link) link;
	OTLP_TYPE(KeyValueAndUnit) attributes[3];
	OTLP_TYPE(Stack) stacks[2];
	int32_t stack_locations[1];
	OTLP_TYPE(ProfilesDictionary) dictionary;
	OTLP_TYPE(ProfilesData) data;
	void *pointers[64];
	size_t pointers_count;
};

static struct file f;

static void *pointers(void *first, size_t count, size_t size)
{
	void **list = f.pointers + f.pointers_count;

	for (size_t i = 0; i < count; i++)
		list[i] = (char *)first + i * size;
	f.pointers_count += count;
	return list;
}

#define LIST(array, n) pointers(array, n, sizeof((array)[0]))

static char *texts[] = {(char *)"",
			(char *)"samples",
			(char *)"count",
			(char *)"main",
			(char *)"inlined",
			(char *)"/bin/x",
			(char *)"thread.name",
			(char *)"profile.frame.type",
			(char *)"process.pid",
			(char *)"native",
			(char *)"cpu"};

static void build_dictionary(void)
{
	for (int i = 0; i < 2; i++) {
		OTLP_CALL(mapping, init)(&f.mappings[i]);
		OTLP_CALL(location, init)(&f.locations[i]);
		OTLP_CALL(line, init)(&f.lines[i]);
		OTLP_CALL(stack, init)(&f.stacks[i]);
	}
	for (int i = 0; i < 3; i++) {
		OTLP_CALL(function, init)(&f.functions[i]);
		OTLP_CALL(key_value_and_unit, init)(&f.attributes[i]);
	}
	OTLP_CALL(link, init)(&f.link);
	OTLP_COMMON_CALL(any_value, init)(&f.thread_name);
	OTLP_COMMON_CALL(any_value, init)(&f.frame_type);
	f.mappings[1].filename_strindex = 5;
	f.functions[1].name_strindex = 4;
	f.functions[2].name_strindex = 3;
	f.lines[0].function_index = 1;
	f.lines[1].function_index = 2;
	f.location_attribute = 2;
	f.locations[1] = (OTLP_TYPE(Location)){.base = f.locations[1].base,
					       .mapping_index = 1,
					       .address = 0x10,
					       .n_lines = 2,
					       .lines = LIST(f.lines, 2),
					       .n_attribute_indices = 1,
					       .attribute_indices = &f.location_attribute};
	f.thread_name.value_case = OTLP_VALUE_CASE(STRING_VALUE);
	f.thread_name.string_value = (char *)"worker";
	f.frame_type.value_case = OTLP_VALUE_CASE(STRING_VALUE_STRINDEX);
	f.frame_type.string_value_strindex = 9;
	f.attributes[1].key_strindex = 6;
	f.attributes[1].value = &f.thread_name;
	f.attributes[2].key_strindex = 7;
	f.attributes[2].value = &f.frame_type;
	f.stack_locations[0] = 1;
	f.stacks[1].n_location_indices = 1;
	f.stacks[1].location_indices = f.stack_locations;
	OTLP_CALL(profiles_dictionary, init)(&f.dictionary);
	f.dictionary.n_mapping_table = f.dictionary.n_location_table = f.dictionary.n_stack_table =
	    2;
	f.dictionary.mapping_table = LIST(f.mappings, 2);
	/* As many as the reader has room for at first, so that one past the end is past its
	 * memory. */
	for (int i = 0; i < LOCATIONS; i++)
		f.location_table[i] = &f.locations[i > 0];
	f.dictionary.n_location_table = LOCATIONS;
	f.dictionary.location_table = f.location_table;
	f.dictionary.n_function_table = f.dictionary.n_attribute_table = 3;
	f.dictionary.function_table = LIST(f.functions, 3);
	f.dictionary.n_link_table = 1;
	f.dictionary.link_table = LIST(&f.link, 1);
	f.dictionary.n_string_table = sizeof(texts) / sizeof(texts[0]);
	f.dictionary.string_table = texts;
	f.dictionary.attribute_table = LIST(f.attributes, 3);
	f.dictionary.stack_table = LIST(f.stacks, 2);
}

static void build(void)
{
	memset(&f, 0, sizeof(f));
	build_dictionary();
	OTLP_CALL(value_type, init)(&f.sample_type);
	OTLP_CALL(sample, init)(&f.sample);
	OTLP_CALL(profile, init)(&f.profile);
	OTLP_CALL(scope_profiles, init)(&f.scope);
	OTLP_COMMON_CALL(key_value, init)(&f.pid);
	OTLP_COMMON_CALL(any_value, init)(&f.pid_value);
	OTLP_RESOURCE_CALL(resource, init)(&f.resource);
	OTLP_CALL(profiles_data, init)(&f.data);
	f.sample_type.type_strindex = 1;
	f.sample_type.unit_strindex = 2;
	f.values[0] = 4;
	f.values[1] = 3;
	f.sample_attributes[0] = 1;
	f.sample.stack_index = 1;
	f.sample.n_values = 2;
	f.sample.values = f.values;
	f.sample.n_attribute_indices = 1;
	f.sample.attribute_indices = f.sample_attributes;
	f.sample.timestamps_unix_nano = f.timestamps;
	f.profile.sample_type = &f.sample_type;
	f.profile.n_samples = 1;
	f.profile.samples = LIST(&f.sample, 1);
	f.scope.n_profiles = 1;
	f.scope.profiles = LIST(&f.profile, 1);
	f.pid_value.value_case = OTLP_VALUE_CASE(INT_VALUE);
	f.pid_value.int_value = 42;
	f.pid.key_strindex = 8;
	f.pid.value = &f.pid_value;
	f.resource.n_attributes = 1;
	f.resource.attributes = LIST(&f.pid, 1);
	for (int i = 0; i < 2; i++) {
		OTLP_CALL(resource_profiles, init)(&f.resource_profiles[i]);
		f.resource_profiles[i].resource = i ? NULL : &f.resource;
		f.resource_profiles[i].n_scope_profiles = 1;
		f.resource_profiles[i].scope_profiles = LIST(&f.scope, 1);
	}
	f.data.n_resource_profiles = 2;
	f.data.resource_profiles = LIST(f.resource_profiles, 2);
	f.data.dictionary = &f.dictionary;
}

static struct profile got;

/* Reads the file that f is now. If `failing`, memory runs out after `spared` allocations. */
static int read_file_with(bool failing, unsigned int spared)
{
	uint8_t buffer[8192];
	size_t length = OTLP_CALL(profiles_data, get_packed_size)(&f.data);

	cr_assert_leq(length, sizeof(buffer));
	OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	_cleanup_free_ uint8_t *exact = malloc(length);
	memcpy(exact, buffer, length);
	profile_fini(&got);
	cr_assert_eq(profile_init(&got, 1 << 20), 0);
	failing_memory =
	    (struct failing_memory){.malloc = failing, .calloc = failing, .spared = spared};
	int r = otlp_read(exact, length, &got);
	failing_memory = (struct failing_memory){0};
	return r;
}

static int read_file(void)
{
	return read_file_with(false, 0);
}

static void fini(void)
{
	profile_fini(&got);
}

TestSuite(otlp_read, .init = build, .fini = fini);

Test(otlp_read, a_file_of_another_writer_is_read)
{
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 14);
	cr_expect_eq(got.samples_count, 2);
	const struct profile_thread *t = &got.threads[got.samples[0].thread];
	cr_expect_str_eq(got.strings[t->name], "worker");
	cr_expect_eq(got.processes[t->process].tgid, 42);
	const struct profile_stack *k = &got.stacks[got.samples[0].stack];
	cr_assert_eq(k->count, 2);
	const struct profile_location *l = &got.locations[got.stack_locations[k->first]];
	cr_expect_str_eq(got.strings[got.functions[l->function].name], "inlined");
	cr_expect_str_eq(got.strings[l->kind], "native");
	l = &got.locations[got.stack_locations[k->first + 1]];
	cr_expect_str_eq(got.strings[got.functions[l->function].name], "main");
}

Test(otlp_read, timestamps_count_one_each)
{
	f.sample.n_values = 0;
	f.sample.n_timestamps_unix_nano = 3;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 6);
	f.sample.n_values = 2;
	cr_expect_eq(read_file(), -EBADMSG);
	f.sample.n_timestamps_unix_nano = 2;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 14);
	f.sample.n_values = f.sample.n_timestamps_unix_nano = 0;
	cr_expect_eq(read_file(), -EBADMSG);
}

Test(otlp_read, times_are_kept_where_each_is_one_sample)
{
	f.sample.n_values = 0;
	f.sample.n_timestamps_unix_nano = 2;
	f.timestamps[0] = 77;
	f.timestamps[1] = 66;
	f.data.n_resource_profiles = 1;
	cr_assert_eq(read_file(), 0);
	cr_assert_eq(got.times_count, 2);
	cr_expect_eq(got.times[0].time_ns, 77);
	cr_expect_eq(got.times[1].time_ns, 66);
	f.sample.n_values = 2;
	f.values[0] = f.values[1] = 1;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.times_count, 2);
	cr_expect_eq(got.samples[0].count, 2);
	f.values[0] = 2;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.times_count, 0);
	cr_expect_eq(got.samples[0].count, 3);
}

/* A user who is told that the recording is damaged would record again, in vain. */
Test(otlp_read, lack_of_memory_is_not_reported_as_damage)
{
	unsigned int spared = 0;
	int r;

	while ((r = read_file_with(true, spared)) < 0) {
		cr_assert_eq(r, -ENOMEM, "%d after %u allocations", r, spared);
		cr_assert_lt(++spared, 10000u);
	}
	cr_expect_gt(spared, 20u);
	cr_expect_eq(got.sample_count, 14);
}

/* A file may hold more times than a profile may. */
Test(otlp_read, more_times_than_the_cap_are_refused)
{
	static uint64_t times[100000];
	static uint8_t buffer[2 << 20]; /* two resources have them */
	struct profile small;

	f.sample.n_values = 0;
	f.sample.timestamps_unix_nano = times;
	f.sample.n_timestamps_unix_nano = 100000;
	size_t length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	cr_assert_eq(profile_init(&small, 500000), 0);
	cr_expect_eq(otlp_read(buffer, length, &small), -ENOSPC);
	cr_expect_leq(small.bytes, 500000u);
	profile_fini(&small);
}

Test(otlp_read, a_frame_without_a_type_is_native)
{
	f.locations[1].n_attribute_indices = 0;
	cr_assert_eq(read_file(), 0);
	const struct profile_stack *k = &got.stacks[got.samples[0].stack];
	cr_assert_eq(k->count, 2);
	for (uint32_t i = 0; i < 2; i++)
		cr_expect_str_eq(got.strings[got.locations[got.stack_locations[k->first + i]].kind],
				 "native");
	/* Location 0 with contents. */
	f.locations[0].address = 5;
	f.stack_locations[0] = 0;
	cr_assert_eq(read_file(), 0);
}

Test(otlp_read, variables_beyond_the_maximum_are_ignored)
{
	OTLP_COMMON_TYPE(KeyValue) variables[PROFILE_VARIABLES_MAX + 2];
	OTLP_COMMON_TYPE(KeyValue) * list[PROFILE_VARIABLES_MAX + 2];
	char keys[PROFILE_VARIABLES_MAX + 2][40];

	for (int i = 0; i < PROFILE_VARIABLES_MAX + 2; i++) {
		snprintf(keys[i], sizeof(keys[i]), "process.environment_variable.V%d", i);
		OTLP_COMMON_CALL(key_value, init)(&variables[i]);
		variables[i].key = keys[i];
		variables[i].value = &f.thread_name;
		list[i] = &variables[i];
	}
	f.resource.attributes = list;
	f.resource.n_attributes = PROFILE_VARIABLES_MAX + 2;
	cr_assert_eq(read_file(), 0);
	const struct profile_process *q =
	    &got.processes[got.threads[got.samples[0].thread].process];
	cr_expect_str_eq(got.strings[q->variables[0].name], "V0");
	cr_expect_str_eq(got.strings[q->variables[0].value], "worker");
	cr_expect_str_eq(got.strings[q->variables[7].name], "V7");
}

Test(otlp_read, other_sample_types_are_skipped)
{
	f.sample_type.type_strindex = 10;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 0);
	f.profile.sample_type = NULL;
	cr_assert_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 0);
}

/* Each reference in turn is out of range, below and above. */
Test(otlp_read, indexes_out_of_range_are_refused)
{
	/* And how long the table is that it points into. */
	const struct {
		int32_t *number;
		int32_t count;
	} references[] = {
	    {&f.sample.stack_index, 2},
	    {&f.sample_attributes[0], 3},
	    {&f.sample.link_index, 1},
	    {&f.stack_locations[0], LOCATIONS},
	    {&f.locations[1].mapping_index, 2},
	    {&f.location_attribute, 3},
	    {&f.lines[0].function_index, 3},
	    {&f.lines[1].function_index, 3},
	    {&f.functions[1].name_strindex, 11},
	    {&f.functions[1].system_name_strindex, 11},
	    {&f.functions[1].filename_strindex, 11},
	    {&f.mappings[1].filename_strindex, 11},
	    {&f.attributes[1].key_strindex, 11},
	    {&f.frame_type.string_value_strindex, 11},
	    {&f.pid.key_strindex, 11},
	};

	for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
		int32_t *number = references[i].number, right = *number;
		const int32_t forged[] = {-1, references[i].count, 1000000, INT32_MAX, INT32_MIN};
		for (size_t j = 0; j < sizeof(forged) / sizeof(forged[0]); j++) {
			*number = forged[j];
			cr_expect_eq(read_file(), -EBADMSG, "reference %zu, %d", i, forged[j]);
			cr_expect_eq(got.sample_count, 0);
		}
		*number = references[i].count - 1;
		cr_expect_eq(read_file(), 0, "reference %zu, its last", i);
		*number = right;
	}
}

Test(otlp_read, forged_counts_are_refused)
{
	f.values[0] = -1;
	cr_expect_eq(read_file(), -EBADMSG);
	f.values[0] = INT64_MAX;
	cr_expect_eq(read_file(), -EBADMSG);
	f.values[0] = INT64_MAX / 2;
	cr_assert_eq(read_file(), -EBADMSG); /* two resources: the sum of both is too much */
	f.values[0] = INT64_MAX / 2 - 3;
	cr_assert_eq(read_file(), 0);
}

Test(otlp_read, a_file_without_a_dictionary_has_no_samples)
{
	f.data.dictionary = NULL;
	f.sample.stack_index = f.sample.link_index = 0;
	f.sample.n_attribute_indices = 0;
	f.pid.key_strindex = 0;
	f.pid.key = (char *)"process.pid";
	/* Without strings it has no sample type that could be (samples, count). */
	cr_expect_eq(read_file(), 0);
	cr_expect_eq(got.sample_count, 0);
}

Test(otlp_read, the_cap_of_the_profile_holds)
{
	uint8_t buffer[8192];
	struct profile small;
	size_t length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);

	cr_assert_eq(profile_init(&small, 0), 0);
	cr_expect_eq(otlp_read(buffer, length, &small), -ENOSPC);
	cr_expect_eq(small.sample_count, 0);
	profile_fini(&small);
}

Test(otlp_read, cut_anywhere_and_every_byte_changed)
{
	uint8_t buffer[8192];
	size_t length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	size_t whole = 0, resources[2];

	/* The ends of top level fields are whole files. */
	for (size_t i = 0; i < 2; i++)
		resources[i] = whole +=
		    2 + OTLP_CALL(resource_profiles, get_packed_size)(&f.resource_profiles[i]);
	for (size_t cut = 0; cut < length; cut++) {
		_cleanup_free_ uint8_t *exact = malloc(cut + 1);
		memcpy(exact, buffer, cut);
		cr_assert_eq(profile_init(&got, 1 << 20), 0);
		int r = otlp_read(exact, cut, &got);
		/* An empty file is an empty profile. Resources alone refer to a dictionary that is
		 * not there. */
		cr_expect_eq(r, cut ? -EBADMSG : 0, "cut at %zu of %zu, %zu: %d", cut, resources[0],
			     resources[1], r);
		profile_fini(&got);
	}
	for (size_t i = 0; i < length; i++) {
		for (int bit = 0; bit < 8; bit++) {
			_cleanup_free_ uint8_t *exact = malloc(length);
			memcpy(exact, buffer, length);
			exact[i] ^= (uint8_t)(1 << bit);
			cr_assert_eq(profile_init(&got, 1 << 20), 0);
			int r = otlp_read(exact, length, &got);
			cr_expect(r == 0 || (r == -EBADMSG && !got.sample_count));
			profile_fini(&got);
		}
	}
}

static int read_bytes(const void *bytes, size_t length)
{
	_cleanup_free_ uint8_t *exact = malloc(length);

	memcpy(exact, bytes, length);
	profile_fini(&got);
	cr_assert_eq(profile_init(&got, 1 << 20), 0);
	return otlp_read(exact, length, &got);
}

#define READ(bytes) read_bytes(bytes, sizeof(bytes) - 1)

Test(otlp_read, malformed_messages_are_refused)
{
	cr_expect_eq(READ("\x0a\xff\xff\xff\xff\x0f"), -EBADMSG);		      /* 4 GiB */
	cr_expect_eq(READ("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), -EBADMSG); /* 2^64 - 1 */
	cr_expect_eq(READ("\x12\x05\x12\xff\xff\xff\x0f"), -EBADMSG); /* within a table */
	cr_expect_eq(READ("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		     -EBADMSG);			  /* 11 bytes */
	cr_expect_eq(READ("\x0b"), -EBADMSG);	  /* a group */
	cr_expect_eq(READ("\x02\x00"), -EBADMSG); /* field 0 */
	cr_expect_eq(READ("\x08\x00"), -EBADMSG); /* not a message */
	cr_expect_eq(READ("\x10\x00"), -EBADMSG);
	cr_expect_eq(READ("\x1a\x02zz"), 0); /* an unknown field */
	cr_expect_eq(READ("\x18\x05\x21"
			  "12345678"
			  "\x2d"
			  "1234"),
		     0);
}

/* AnyValue could nest without end; a decoder that recursed would run out of stack. */
Test(otlp_read, deeply_nested_values_are_refused)
{
	enum {
		DEPTH = 100000,
		SIZE = 1 << 20
	};
	_cleanup_free_ uint8_t *buffer = malloc(SIZE);
	size_t at = SIZE, length = 0;

	/* array_value{values{array_value{...: from the inside out, each length in 3 bytes. */
	for (int i = 0; i < DEPTH; i++) {
		at -= 4;
		buffer[at] = i % 2 ? 0x2a : 0x0a;
		buffer[at + 1] = (uint8_t)(length | 0x80);
		buffer[at + 2] = (uint8_t)(length >> 7 | 0x80);
		buffer[at + 3] = (uint8_t)(length >> 14 & 0x7f);
		length = SIZE - at;
	}
	static const uint8_t tags[] = {0x12, 0x32, 0x12}; /* value, attribute table, dictionary */
	for (int i = 0; i < 3; i++) {
		/* A string first, for the key, in the dictionary. */
		if (i == 2) {
			at -= 2;
			memcpy(buffer + at, "\x2a\x00", 2);
			length = SIZE - at;
		}
		at -= 4;
		buffer[at] = tags[i];
		buffer[at + 1] = (uint8_t)(length | 0x80);
		buffer[at + 2] = (uint8_t)(length >> 7 | 0x80);
		buffer[at + 3] = (uint8_t)(length >> 14 & 0x7f);
		length = SIZE - at;
	}
	cr_expect_eq(read_bytes(buffer + at, length), 0);
}

/* A few bytes of the file would stand for very many frames. */
Test(otlp_read, inlined_functions_cannot_multiply_memory)
{
	enum {
		LINES = 256,
		FRAMES = 1000
	};
	static uint8_t buffer[1 << 20];
	OTLP_TYPE(Line) line, *lines[LINES + 1];
	int32_t frames[FRAMES];

	OTLP_CALL(line, init)(&line);
	for (int i = 0; i <= LINES; i++)
		lines[i] = &line;
	for (int i = 0; i < FRAMES; i++)
		frames[i] = 1;
	f.locations[1].lines = lines;
	f.locations[1].n_lines = LINES;
	size_t length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	cr_expect_eq(read_bytes(buffer, length), 0);
	f.stacks[1].location_indices = frames;
	f.stacks[1].n_location_indices = FRAMES;
	length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	cr_expect_eq(read_bytes(buffer, length), -EBADMSG);
	f.stacks[1].n_location_indices = 1;
	f.locations[1].n_lines = LINES + 1;
	length = OTLP_CALL(profiles_data, pack)(&f.data, buffer);
	cr_expect_eq(read_bytes(buffer, length), -EBADMSG);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP 1.10 ProfilesData: one ResourceProfiles a process, then the dictionary. The dictionary's
 * rules (entry 0 in every table, nothing twice, nothing that no sample leads to) are kept by
 * numbering what is used first; after that everything is packed entry by entry, see proto_out.h.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/otlp_names.h"
#include "exporter/profile_clean.h"
#include "exporter/proto_out.h"
#include "exporter/sink.h"
#include "exporter/text.h"

#define MESSAGE_BYTES_MAX INT_MAX /* that of protobuf */

/* Strings of the dictionary that are ours; they come first in the table, after "". */
enum word {
	WORD_SAMPLES,
	WORD_COUNT,
	WORD_CPU,
	WORD_NANOSECONDS,
	WORD_KEYS, /* the keys of attributes: WORD_KEYS + enum key */
	WORDS = WORD_KEYS + 5,
};

enum key {
	KEY_FRAME_TYPE,
	KEY_GNU_BUILD_ID,
	KEY_HTLHASH,
	KEY_THREAD_NAME,
	KEY_THREAD_ID
};

static const char *const words[WORDS] = {
    [WORD_SAMPLES] = "samples",
    [WORD_COUNT] = "count",
    [WORD_CPU] = "cpu",
    [WORD_NANOSECONDS] = "nanoseconds",
    [WORD_KEYS + KEY_FRAME_TYPE] = OTLP_FRAME_TYPE,
    [WORD_KEYS + KEY_GNU_BUILD_ID] = OTLP_GNU_BUILD_ID,
    [WORD_KEYS + KEY_HTLHASH] = OTLP_HTLHASH,
    [WORD_KEYS + KEY_THREAD_NAME] = OTLP_THREAD_NAME,
    [WORD_KEYS + KEY_THREAD_ID] = OTLP_THREAD_ID,
};

/* A dictionary attribute: the value is a string of the profile, for KEY_THREAD_ID the id itself. */
struct attribute {
	uint32_t key;
	uint32_t value;
};

/* By number in the profile: 0 if unused, else the number in the dictionary. */
struct numbering {
	uint32_t *numbers;
	uint32_t count; /* used entries, that of "none" included */
};

struct otlp {
	const struct profile *profile;
	struct numbering strings, mappings, functions, locations, stacks;
	uint32_t word_numbers[WORDS];
	uint8_t
	    *value_keys; /* by string: bit `key` is set if it is the value of such an attribute */
	struct attribute *attributes; /* sorted; the first has number 1 */
	uint32_t attributes_count, attributes_capacity;
	uint32_t *order;	    /* samples by process */
	uint32_t *location_indices; /* room for the deepest stack */
};

static void otlp_fini(struct otlp *o)
{
	free(o->strings.numbers);
	free(o->mappings.numbers);
	free(o->functions.numbers);
	free(o->locations.numbers);
	free(o->stacks.numbers);
	free(o->value_keys);
	free(o->attributes);
	free(o->order);
	free(o->location_indices);
}

/* --- numbering --- */

static void use_value(struct otlp *o, enum key key, uint32_t string)
{
	if (string)
		o->value_keys[string] |= (uint8_t)(1U << key);
}

/* Marks are 1 in `numbers`; entry 0 needs none. */
static void mark_location(struct otlp *o, uint32_t number)
{
	const struct profile *p = o->profile;
	const struct profile_location *l = &p->locations[number];
	const struct profile_function *f = &p->functions[l->function];
	const struct profile_mapping *m = &p->mappings[l->mapping];

	if (o->locations.numbers[number])
		return;
	o->locations.numbers[number] = 1;
	o->functions.numbers[l->function] = 1;
	o->mappings.numbers[l->mapping] = 1;
	o->strings.numbers[f->name] = 1;
	o->strings.numbers[f->system_name] = 1;
	o->strings.numbers[f->filename] = 1;
	o->strings.numbers[m->filename] = 1;
	use_value(o, KEY_FRAME_TYPE, l->kind);
	use_value(o, KEY_GNU_BUILD_ID, m->gnu_build_id);
	use_value(o, KEY_HTLHASH, m->htlhash);
}

static void mark_used(struct otlp *o)
{
	const struct profile *p = o->profile;

	for (uint32_t i = 0; i < p->samples_count; i++) {
		const struct profile_stack *stack = &p->stacks[p->samples[i].stack];
		o->stacks.numbers[p->samples[i].stack] = 1;
		for (uint32_t j = 0; j < stack->count; j++)
			mark_location(o, p->stack_locations[stack->first + j]);
		use_value(o, KEY_THREAD_NAME, p->threads[p->samples[i].thread].name);
	}
}

static void number_marked(struct numbering *n, uint32_t entries)
{
	n->numbers[0] = 0;
	n->count = 1;
	for (uint32_t i = 1; i < entries; i++) {
		if (n->numbers[i])
			n->numbers[i] = n->count++;
	}
}

static int find_word(const char *text)
{
	for (int i = 0; i < WORDS; i++) {
		if (!strcmp(words[i], text))
			return i;
	}
	return -1;
}

/* Our words first, those that are needed; a string of the profile that is such a word gets its
 * number. */
static void number_strings(struct otlp *o)
{
	const struct profile *p = o->profile;
	struct numbering *n = &o->strings;

	n->numbers[0] = 0;
	n->count = 1;
	for (uint32_t i = 0; i < WORD_KEYS; i++)
		o->word_numbers[i] = n->count++;
	for (uint32_t i = 0; i < o->attributes_count; i++) {
		uint32_t *number = &o->word_numbers[WORD_KEYS + o->attributes[i].key];
		if (!*number)
			*number = n->count++;
	}
	for (uint32_t i = 1; i < p->strings_count; i++) {
		if (!n->numbers[i])
			continue;
		int word = find_word(p->strings[i]);
		if (word >= 0 && !o->word_numbers[word])
			o->word_numbers[word] = n->count++;
		n->numbers[i] = word >= 0 ? o->word_numbers[word] : n->count++;
	}
}

static int compare_attributes(const void *a, const void *b)
{
	const struct attribute *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->value > y->value) - (x->value < y->value);
}

static int add_attribute(struct otlp *o, uint32_t key, uint32_t value)
{
	if (o->attributes_count == o->attributes_capacity) {
		uint32_t capacity = o->attributes_capacity ? o->attributes_capacity * 2 : 64;
		void *grown = reallocarray(o->attributes, capacity, sizeof(*o->attributes));
		if (!grown)
			return -ENOMEM;
		o->attributes = grown;
		o->attributes_capacity = capacity;
	}
	o->attributes[o->attributes_count++] = (struct attribute){key, value};
	return 0;
}

static int collect_attributes(struct otlp *o)
{
	const struct profile *p = o->profile;
	uint32_t kept = 0;
	int r = 0;

	for (uint32_t i = 0; i < p->strings_count && r == 0; i++) {
		for (uint32_t key = 0; key < KEY_THREAD_ID && r == 0; key++) {
			if (o->value_keys[i] & 1U << key)
				r = add_attribute(o, key, i);
		}
	}
	/* A thread may have several entries (it changed its name), a thread id several threads. */
	_cleanup_free_ uint8_t *used = calloc(p->threads_count, 1);
	if (!used)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++)
		used[p->samples[i].thread] = 1;
	for (uint32_t i = 1; i < p->threads_count && r == 0; i++) {
		if (used[i])
			r = add_attribute(o, KEY_THREAD_ID, p->threads[i].tid);
	}
	if (r < 0 || !o->attributes_count)
		return r;
	qsort(o->attributes, o->attributes_count, sizeof(*o->attributes), compare_attributes);
	for (uint32_t i = 0; i < o->attributes_count; i++) {
		if (!i || compare_attributes(&o->attributes[kept - 1], &o->attributes[i]))
			o->attributes[kept++] = o->attributes[i];
	}
	o->attributes_count = kept;
	return 0;
}

/* The number of an attribute that collect_attributes() has met. */
static int32_t attribute_number(const struct otlp *o, enum key key, uint32_t value)
{
	const struct attribute wanted = {key, value};
	const struct attribute *found = bsearch(&wanted, o->attributes, o->attributes_count,
						sizeof(wanted), compare_attributes);

	return (int32_t)(found - o->attributes) + 1;
}

static int compare_processes(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t process_x = p->threads[p->samples[x].thread].process;
	uint32_t process_y = p->threads[p->samples[y].thread].process;

	if (process_x != process_y)
		return process_x < process_y ? -1 : 1;
	return (x > y) - (x < y);
}

static int number_all(struct otlp *o)
{
	const struct profile *p = o->profile;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < p->stacks_count; i++)
		depth = p->stacks[i].count > depth ? p->stacks[i].count : depth;
	o->strings.numbers = calloc(p->strings_count, sizeof(uint32_t));
	o->mappings.numbers = calloc(p->mappings_count, sizeof(uint32_t));
	o->functions.numbers = calloc(p->functions_count, sizeof(uint32_t));
	o->locations.numbers = calloc(p->locations_count, sizeof(uint32_t));
	o->stacks.numbers = calloc(p->stacks_count, sizeof(uint32_t));
	o->value_keys = calloc(p->strings_count, 1);
	o->order = calloc(p->samples_count + 1ULL, sizeof(*o->order));
	o->location_indices = calloc(depth + 1ULL, sizeof(*o->location_indices));
	if (!o->strings.numbers || !o->mappings.numbers || !o->functions.numbers ||
	    !o->locations.numbers || !o->stacks.numbers || !o->value_keys || !o->order ||
	    !o->location_indices)
		return -ENOMEM;
	mark_used(o);
	number_marked(&o->mappings, p->mappings_count);
	number_marked(&o->functions, p->functions_count);
	number_marked(&o->locations, p->locations_count);
	number_marked(&o->stacks, p->stacks_count);
	int r = collect_attributes(o);
	if (r < 0)
		return r;
	number_strings(o);
	for (uint32_t i = 0; i < p->samples_count; i++)
		o->order[i] = i;
	qsort_r(o->order, p->samples_count, sizeof(*o->order), compare_processes, (void *)p);
	return 0;
}

/* --- the dictionary --- */

static void put_mappings(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;

	for (uint32_t i = 0; i < p->mappings_count; i++) {
		const struct profile_mapping *from = &p->mappings[i];
		OTLP_TYPE(Mapping) mapping;
		int32_t attributes[2];

		if (i && !o->mappings.numbers[i])
			continue;
		OTLP_CALL(mapping, init)(&mapping);
		mapping.filename_strindex = (int32_t)o->strings.numbers[from->filename];
		mapping.attribute_indices = attributes;
		if (from->gnu_build_id)
			attributes[mapping.n_attribute_indices++] =
			    attribute_number(o, KEY_GNU_BUILD_ID, from->gnu_build_id);
		if (from->htlhash)
			attributes[mapping.n_attribute_indices++] =
			    attribute_number(o, KEY_HTLHASH, from->htlhash);
		proto_out_message(out, OTLP_TABLE_MAPPINGS, &mapping);
	}
}

static void put_locations(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;

	for (uint32_t i = 0; i < p->locations_count; i++) {
		const struct profile_location *from = &p->locations[i];
		OTLP_TYPE(Location) location;
		OTLP_TYPE(Line) line, *lines[] = {&line};
		int32_t attribute;

		if (i && !o->locations.numbers[i])
			continue;
		OTLP_CALL(location, init)(&location);
		OTLP_CALL(line, init)(&line);
		location.mapping_index = (int32_t)o->mappings.numbers[from->mapping];
		location.address = from->address;
		line.function_index = (int32_t)o->functions.numbers[from->function];
		line.line = from->line;
		location.lines = lines;
		location.n_lines = from->function || from->line;
		if (from->kind) {
			attribute = attribute_number(o, KEY_FRAME_TYPE, from->kind);
			location.attribute_indices = &attribute;
			location.n_attribute_indices = 1;
		}
		proto_out_message(out, OTLP_TABLE_LOCATIONS, &location);
	}
}

static void put_functions(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;

	for (uint32_t i = 0; i < p->functions_count; i++) {
		OTLP_TYPE(Function) function;

		if (i && !o->functions.numbers[i])
			continue;
		OTLP_CALL(function, init)(&function);
		function.name_strindex = (int32_t)o->strings.numbers[p->functions[i].name];
		function.system_name_strindex =
		    (int32_t)o->strings.numbers[p->functions[i].system_name];
		function.filename_strindex = (int32_t)o->strings.numbers[p->functions[i].filename];
		proto_out_message(out, OTLP_TABLE_FUNCTIONS, &function);
	}
}

static void put_links(struct proto_out *out)
{
	uint8_t trace_id[16] = {0}, span_id[8] = {0};
	OTLP_TYPE(Link) link;

	OTLP_CALL(link, init)(&link);
	link.trace_id = (ProtobufCBinaryData){sizeof(trace_id), trace_id};
	link.span_id = (ProtobufCBinaryData){sizeof(span_id), span_id};
	proto_out_message(out, OTLP_TABLE_LINKS, &link);
}

/* In the order in which number_strings() has counted. */
static void put_strings(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;
	uint32_t next = 1;

	proto_out_bytes(out, OTLP_TABLE_STRINGS, "", 0);
	for (uint32_t words_left = WORDS; words_left--;) {
		for (uint32_t i = 0; i < WORDS; i++) {
			if (o->word_numbers[i] != next)
				continue;
			proto_out_bytes(out, OTLP_TABLE_STRINGS, words[i], strlen(words[i]));
			next++;
		}
	}
	for (uint32_t i = 1; i < p->strings_count; i++) {
		if (o->strings.numbers[i] == next) {
			proto_out_bytes(out, OTLP_TABLE_STRINGS, p->strings[i],
					profile_string_length(p, i));
			next++;
		}
	}
}

static void put_attributes(const struct otlp *o, struct proto_out *out)
{
	OTLP_TYPE(KeyValueAndUnit) attribute;
	OTLP_COMMON_TYPE(AnyValue) value;

	OTLP_CALL(key_value_and_unit, init)(&attribute);
	proto_out_message(out, OTLP_TABLE_ATTRIBUTES, &attribute);
	attribute.value = &value;
	for (uint32_t i = 0; i < o->attributes_count; i++) {
		const struct attribute *from = &o->attributes[i];
		OTLP_COMMON_CALL(any_value, init)(&value);
		if (from->key == KEY_THREAD_ID) {
			value.value_case = OTLP_VALUE_CASE(INT_VALUE);
			value.int_value = from->value;
		} else {
			value.value_case = OTLP_VALUE_CASE(STRING_VALUE);
			value.string_value = o->profile->strings[from->value];
		}
		attribute.key_strindex = (int32_t)o->word_numbers[WORD_KEYS + from->key];
		proto_out_message(out, OTLP_TABLE_ATTRIBUTES, &attribute);
	}
}

static void put_stacks(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;

	for (uint32_t i = 0; i < p->stacks_count; i++) {
		const struct profile_stack *from = &p->stacks[i];
		OTLP_TYPE(Stack) stack;

		if (i && !o->stacks.numbers[i])
			continue;
		OTLP_CALL(stack, init)(&stack);
		for (uint32_t j = 0; j < from->count; j++)
			o->location_indices[j] =
			    o->locations.numbers[p->stack_locations[from->first + j]];
		stack.n_location_indices = from->count;
		stack.location_indices = (int32_t *)o->location_indices;
		proto_out_message(out, OTLP_TABLE_STACKS, &stack);
	}
}

static void put_dictionary(const struct otlp *o, struct proto_out *out)
{
	put_mappings(o, out);
	put_locations(o, out);
	put_functions(o, out);
	put_links(out);
	put_strings(o, out);
	put_attributes(o, out);
	put_stacks(o, out);
}

/* --- the processes --- */

static void put_sample(const struct otlp *o, const struct profile_sample *from,
		       struct proto_out *out)
{
	const struct profile_thread *thread = &o->profile->threads[from->thread];
	OTLP_TYPE(Sample) sample;
	int32_t attributes[2];
	int64_t value = (int64_t)from->count; /* profile_add() keeps the sum below INT64_MAX */

	OTLP_CALL(sample, init)(&sample);
	sample.stack_index = (int32_t)o->stacks.numbers[from->stack];
	sample.attribute_indices = attributes;
	if (thread->name)
		attributes[sample.n_attribute_indices++] =
		    attribute_number(o, KEY_THREAD_NAME, thread->name);
	if (from->thread)
		attributes[sample.n_attribute_indices++] =
		    attribute_number(o, KEY_THREAD_ID, thread->tid);
	sample.n_values = 1;
	sample.values = &value;
	proto_out_message(out, OTLP_PROFILE_SAMPLES, &sample);
}

/* The fields of the Profile of order[first] to order[end]. */
static void put_profile(const struct otlp *o, uint32_t first, uint32_t end, struct proto_out *out)
{
	OTLP_TYPE(ValueType) sample_type, period_type;
	OTLP_TYPE(Profile) profile;

	OTLP_CALL(value_type, init)(&sample_type);
	OTLP_CALL(value_type, init)(&period_type);
	OTLP_CALL(profile, init)(&profile);
	sample_type.type_strindex = (int32_t)o->word_numbers[WORD_SAMPLES];
	sample_type.unit_strindex = (int32_t)o->word_numbers[WORD_COUNT];
	period_type.type_strindex = (int32_t)o->word_numbers[WORD_CPU];
	period_type.unit_strindex = (int32_t)o->word_numbers[WORD_NANOSECONDS];
	profile.sample_type = &sample_type;
	profile.period_type = &period_type;
	profile.period =
	    o->profile->period_ns > INT64_MAX ? INT64_MAX : (int64_t)o->profile->period_ns;
	profile.time_unix_nano = o->profile->start_unix_ns;
	profile.duration_nano = o->profile->duration_ns;
	proto_out_fields(out, &profile);
	for (uint32_t i = first; i < end; i++)
		put_sample(o, &o->profile->samples[o->order[i]], out);
}

static void set_attribute(OTLP_COMMON_TYPE(KeyValue) * attribute,
			  OTLP_COMMON_TYPE(AnyValue) * value, const char *key, const char *text,
			  int64_t number)
{
	OTLP_COMMON_CALL(key_value, init)(attribute);
	OTLP_COMMON_CALL(any_value, init)(value);
	attribute->key = (char *)key;
	attribute->value = value;
	if (text) {
		value->value_case = OTLP_VALUE_CASE(STRING_VALUE);
		value->string_value = (char *)text;
	} else {
		value->value_case = OTLP_VALUE_CASE(INT_VALUE);
		value->int_value = number;
	}
}

/* Keys and values inline, not by number: several receivers resolve no references in a resource. */
static void put_resource(const struct otlp *o, uint32_t number, struct proto_out *out)
{
	const struct profile_process *process = &o->profile->processes[number];
	char *const *strings = o->profile->strings;
	OTLP_COMMON_TYPE(KeyValue) attributes[4], *pointers[4];
	OTLP_COMMON_TYPE(AnyValue) values[4];
	OTLP_RESOURCE_TYPE(Resource) resource;
	OTLP_TYPE(ResourceProfiles) head;
	size_t n = 0;

	if (number) {
		set_attribute(&attributes[n], &values[n], OTLP_PROCESS_PID, NULL, process->tgid);
		n++;
	}
	if (process->name) {
		set_attribute(&attributes[n], &values[n], OTLP_PROCESS_NAME, strings[process->name],
			      0);
		n++;
	}
	if (process->path) {
		set_attribute(&attributes[n], &values[n], OTLP_PROCESS_PATH, strings[process->path],
			      0);
		n++;
	}
	if (number) {
		set_attribute(&attributes[n], &values[n], OTLP_PROCESS_START, NULL,
			      (int64_t)process->start);
		n++;
	}
	for (size_t i = 0; i < n; i++)
		pointers[i] = &attributes[i];
	OTLP_RESOURCE_CALL(resource, init)(&resource);
	resource.n_attributes = n;
	resource.attributes = pointers;
	OTLP_CALL(resource_profiles, init)(&head);
	head.resource = &resource;
	head.schema_url = (char *)OTLP_SCHEMA_URL;
	proto_out_fields(out, &head);
}

static void put_scope(struct proto_out *out)
{
	OTLP_COMMON_TYPE(InstrumentationScope) scope;
	OTLP_TYPE(ScopeProfiles) head;

	OTLP_COMMON_CALL(instrumentation_scope, init)(&scope);
	scope.name = (char *)"bulkhead";
	scope.version = (char *)BULKHEAD_VERSION;
	OTLP_CALL(scope_profiles, init)(&head);
	head.scope = &scope;
	head.schema_url = (char *)OTLP_SCHEMA_URL;
	proto_out_fields(out, &head);
}

/* ResourceProfiles{resource, ScopeProfiles{scope, Profile}} around the samples order[first] to
 * order[end]. */
static void put_process(const struct otlp *o, uint32_t process, uint32_t first, uint32_t end,
			struct proto_out *out)
{
	struct proto_out profile = proto_out_init(NULL, NULL);
	struct proto_out scope = proto_out_init(NULL, NULL);
	struct proto_out resource = proto_out_init(NULL, NULL);

	put_profile(o, first, end, &profile);
	put_scope(&scope);
	proto_out_head(&scope, OTLP_SCOPE_PROFILES, profile.bytes);
	scope.bytes += profile.bytes;
	put_resource(o, process, &resource);
	proto_out_head(&resource, OTLP_RESOURCE_SCOPE_PROFILES, scope.bytes);
	resource.bytes += scope.bytes;

	proto_out_head(out, OTLP_DATA_RESOURCE_PROFILES, resource.bytes);
	put_resource(o, process, out);
	proto_out_head(out, OTLP_RESOURCE_SCOPE_PROFILES, scope.bytes);
	put_scope(out);
	proto_out_head(out, OTLP_SCOPE_PROFILES, profile.bytes);
	if (out->put)
		put_profile(o, first, end, out);
	else
		out->bytes += profile.bytes;
}

static void put_processes(const struct otlp *o, struct proto_out *out)
{
	const struct profile *p = o->profile;

	for (uint32_t first = 0, end; first < p->samples_count; first = end) {
		uint32_t process = p->threads[p->samples[o->order[first]].thread].process;
		for (end = first + 1; end < p->samples_count; end++) {
			if (p->threads[p->samples[o->order[end]].thread].process != process)
				break;
		}
		put_process(o, process, first, end, out);
	}
	/* Times and period are in profiles, so that there is one even when there is nothing to say.
	 */
	if (!p->samples_count)
		put_process(o, 0, 0, 0, out);
}

static void put_file(void *context, const uint8_t *data, size_t length)
{
	fwrite(data, 1, length, context);
}

static int write_clean(const struct profile *profile, FILE *out)
{
	_cleanup_(otlp_fini) struct otlp o = {.profile = profile};
	struct proto_out dictionary = proto_out_init(NULL, NULL);
	struct proto_out file = proto_out_init(put_file, out);

	int r = number_all(&o);
	if (r < 0)
		return r;
	put_dictionary(&o, &dictionary);
	struct proto_out all = proto_out_init(NULL, NULL);
	put_processes(&o, &all);
	if (all.bytes + dictionary.bytes > MESSAGE_BYTES_MAX - 16)
		return -EFBIG;
	put_processes(&o, &file);
	proto_out_head(&file, OTLP_DATA_DICTIONARY, dictionary.bytes);
	put_dictionary(&o, &file);
	return text_stream_result(out);
}

/* Cleaned strings may be equal, and then whatever is made of them: profile_clean() interns the
 * profile anew. */
static int write_cleaned(const struct profile *profile, FILE *out)
{
	_cleanup_(profile_fini) struct profile clean = {0};

	int r = profile_clean(profile, &clean);
	return r < 0 ? r : write_clean(&clean, out);
}

int sink_otlp_write(const struct profile *profile, FILE *out)
{
	for (uint32_t i = 0; i < profile->strings_count; i++) {
		if (!text_is_clean(profile->strings[i], profile_string_length(profile, i)))
			return write_cleaned(profile, out);
	}
	return write_clean(profile, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is hostile. Messages that hold many others are walked with the cursor, only their
 * smallest parts are unpacked, one at a time, with a cap on the memory that this may take: a file
 * costs what it says, not a multiple. Every number is checked against the table that it points into
 * when the entry is read. Samples are read twice, first to find faults.
 *
 * protobuf merges a submessage that comes several times and takes fields in any order; so the file
 * is walked once for each table, in the order in which tables refer to each other.
 */
#include "exporter/otlp/otlp_read.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "exporter/otlp/otlp_names.h"
#include "exporter/otlp/proto_in.h"

#define UNPACK_BYTES_MAX (64U << 20) /* for one entry of a table, or one sample */
#define LINES_MAX 256		     /* functions inlined into one location */
#define FRAMES_MAX 16384	     /* of a stack, inlined ones included */

enum key {
	KEY_OTHER,
	KEY_FRAME_TYPE,
	KEY_GENERATED_NAME,
	KEY_GNU_BUILD_ID,
	KEY_GO_BUILD_ID,
	KEY_HTLHASH,
	KEY_THREAD_NAME,
	KEY_THREAD_ID,
	KEY_CPU,
	KEY_SERVICE_NAME,
	KEY_CONTAINER_ID,
	KEY_PROCESS_PID,
	KEY_PROCESS_NAME,
	KEY_PROCESS_COMM,
	KEY_PROCESS_PATH,
	KEY_PROCESS_START,
	KEY_PROCESS_VARIABLE,
};

struct text {
	const char *at;
	size_t length;
};

/* An attribute that was understood: a string of the profile, or a number. */
struct attribute {
	enum key key;
	bool is_string;
	struct text variable; /* name of KEY_PROCESS_VARIABLE */
	uint32_t string;
	uint64_t number;
};

/* A location of the file is one of the profile for each function inlined there: numbers[first] on.
 */
struct span {
	uint32_t first, count;
};

#define READ_TABLE(type, name)                                                                     \
	type *name;                                                                                \
	uint32_t name##_count, name##_capacity

struct reader {
	struct profile *profile;
	struct cursor file;
	ProtobufCAllocator allocator;
	size_t unpack_bytes_left;
	/* By number in the file. */
	READ_TABLE(struct text, strings);
	READ_TABLE(struct attribute, attributes);
	READ_TABLE(uint32_t, functions);
	READ_TABLE(uint32_t, mappings);
	READ_TABLE(struct span, locations);
	READ_TABLE(uint32_t, numbers); /* what `locations` are spans of */
	READ_TABLE(uint32_t, stacks);
	uint32_t links_count;
	uint32_t frames[FRAMES_MAX];
	bool adding;	       /* the second time: samples are added */
	uint64_t sample_count; /* found the first time */
};

static void reader_free(struct reader **reader)
{
	struct reader *r = *reader;

	if (!r)
		return;
	free(r->strings);
	free(r->attributes);
	free(r->functions);
	free(r->mappings);
	free(r->locations);
	free(r->numbers);
	free(r->stacks);
	free(r);
}

static int append(void **items, uint32_t *count, uint32_t *capacity, const void *item, size_t size)
{
	if (*count == *capacity) {
		if (*capacity > INT32_MAX / 2)
			return -EBADMSG;
		uint32_t wanted = *capacity ? *capacity * 2 : 64;
		void *grown = reallocarray(*items, wanted, size);
		if (!grown)
			return -ENOMEM;
		*items = grown;
		*capacity = wanted;
	}
	memcpy((uint8_t *)*items + *count * size, item, size);
	++*count;
	return 0;
}

#define APPEND(reader, name, item)                                                                 \
	append((void **)&(reader)->name, &(reader)->name##_count, &(reader)->name##_capacity,      \
	       item, sizeof(*(reader)->name))

/* --- walking --- */

/* Call for each length-delimited field `number`; the same field with another wire type is a fault.
 */
static int for_each(struct cursor message, uint32_t number,
		    int (*call)(struct reader *, struct cursor, void *), struct reader *r,
		    void *context)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&message, &field)) > 0) {
		if (field.number != number)
			continue;
		if (field.wire_type != PROTO_BYTES)
			return -EBADMSG;
		int result = call(r, field.bytes, context);
		if (result < 0)
			return result;
	}
	return got;
}

/* --- unpacking --- */

static void *allocate(void *context, size_t size)
{
	struct reader *r = context;

	if (size > r->unpack_bytes_left)
		return NULL;
	r->unpack_bytes_left -= size;
	return malloc(size ? size : 1);
}

static void release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

static void *unpack(struct reader *r, const ProtobufCMessageDescriptor *descriptor,
		    struct cursor bytes)
{
	r->unpack_bytes_left = UNPACK_BYTES_MAX;
	return protobuf_c_message_unpack(descriptor, &r->allocator, cursor_left(&bytes), bytes.at);
}

static void free_message(void *message)
{
	/* The allocator's free() needs no context, so that of the system will do. */
	ProtobufCMessage **m = message;

	if (*m)
		protobuf_c_message_free_unpacked(*m, NULL);
}

#define _cleanup_message_ _cleanup_(free_message)

/* --- tables --- */

static int intern_text(struct reader *r, int32_t strindex, uint32_t *number)
{
	if (strindex < 0 || (uint32_t)strindex >= r->strings_count)
		return -EBADMSG;
	const struct text *text = &r->strings[strindex];
	return profile_string(r->profile, text->at, text->length, number);
}

static bool begins_with(struct text text, const char *start)
{
	return text.length > strlen(start) && !memcmp(text.at, start, strlen(start));
}

static enum key find_key(struct text key, struct text *variable)
{
	static const struct {
		const char *text;
		enum key key;
	} keys[] = {
	    {OTLP_FRAME_TYPE, KEY_FRAME_TYPE},
	    {OTLP_GENERATED_NAME, KEY_GENERATED_NAME},
	    {OTLP_GNU_BUILD_ID, KEY_GNU_BUILD_ID},
	    {OTLP_GO_BUILD_ID, KEY_GO_BUILD_ID},
	    {OTLP_HTLHASH, KEY_HTLHASH},
	    {OTLP_THREAD_NAME, KEY_THREAD_NAME},
	    {OTLP_THREAD_ID, KEY_THREAD_ID},
	    {OTLP_CPU, KEY_CPU},
	    {OTLP_SERVICE_NAME, KEY_SERVICE_NAME},
	    {OTLP_CONTAINER_ID, KEY_CONTAINER_ID},
	    {OTLP_PROCESS_PID, KEY_PROCESS_PID},
	    {OTLP_PROCESS_NAME, KEY_PROCESS_NAME},
	    {OTLP_PROCESS_COMM, KEY_PROCESS_COMM},
	    {OTLP_PROCESS_PATH, KEY_PROCESS_PATH},
	    {OTLP_PROCESS_START, KEY_PROCESS_START},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strlen(keys[i].text) == key.length && !memcmp(keys[i].text, key.at, key.length))
			return keys[i].key;
	}
	if (!begins_with(key, OTLP_PROCESS_VARIABLE))
		return KEY_OTHER;
	variable->at = key.at + strlen(OTLP_PROCESS_VARIABLE);
	variable->length = key.length - strlen(OTLP_PROCESS_VARIABLE);
	return KEY_PROCESS_VARIABLE;
}

/* A key by number or, where `inline_key` is not empty, as it is. Values of other kinds than needed
 * are left at 0. The name of a variable is part of the key. */
static int read_attribute(struct reader *r, const char *inline_key, int32_t key_strindex,
			  const OTLP_COMMON_TYPE(AnyValue) * value, struct attribute *attribute)
{
	struct attribute found = {0};
	int result = 0;

	if (key_strindex < 0 || (uint32_t)key_strindex >= r->strings_count) {
		/* Resources may come without any dictionary. */
		if (key_strindex || !inline_key || !*inline_key)
			return -EBADMSG;
	}
	struct text key = inline_key && *inline_key ? (struct text){inline_key, strlen(inline_key)}
						    : r->strings[key_strindex];
	found.key = find_key(key, &found.variable);
	switch (value ? value->value_case : OTLP_VALUE_CASE(_NOT_SET)) {
	case OTLP_VALUE_CASE(STRING_VALUE):
		found.is_string = true;
		if (found.key != KEY_OTHER)
			result = profile_string(r->profile, value->string_value,
						strlen(value->string_value), &found.string);
		break;
	case OTLP_VALUE_CASE(STRING_VALUE_STRINDEX):
		found.is_string = true;
		result = intern_text(r, value->string_value_strindex, &found.string);
		break;
	case OTLP_VALUE_CASE(INT_VALUE):
		found.number = (uint64_t)value->int_value;
		break;
	default:
		break;
	}
	if (result == 0)
		*attribute = found;
	return result;
}

static const struct attribute *find_attribute(const struct reader *r, int32_t index)
{
	return index < 0 || (uint32_t)index >= r->attributes_count ? NULL : &r->attributes[index];
}

static int read_string(struct reader *r, struct cursor bytes, void *context)
{
	struct text text = {(const char *)bytes.at, cursor_left(&bytes)};

	(void)context;
	return APPEND(r, strings, &text);
}

static int read_dictionary_attribute(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(KeyValueAndUnit) *m =
	    unpack(r, &OTLP_CALL(key_value_and_unit, descriptor), bytes);
	struct attribute attribute;

	(void)context;
	if (!m)
		return -EBADMSG;
	int result = read_attribute(r, NULL, m->key_strindex, m->value, &attribute);
	return result < 0 ? result : APPEND(r, attributes, &attribute);
}

static int read_link(struct reader *r, struct cursor bytes, void *context)
{
	(void)bytes;
	(void)context;
	r->links_count++;
	return 0;
}

static int read_function(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Function) *m =
	    unpack(r, &OTLP_CALL(function, descriptor), bytes);
	struct profile_function function = {0};
	uint32_t number;

	(void)context;
	if (!m)
		return -EBADMSG;
	/* A line that is none is not worth a file. */
	if (m->start_line > 0 && m->start_line <= PROFILE_LINE_MAX)
		function.start_line = (uint32_t)m->start_line & PROFILE_LINE_MAX;
	int result = intern_text(r, m->name_strindex, &function.name);
	if (result == 0)
		result = intern_text(r, m->system_name_strindex, &function.system_name);
	if (result == 0)
		result = intern_text(r, m->filename_strindex, &function.filename);
	if (result == 0)
		result = profile_function(r->profile, &function, &number);
	return result < 0 ? result : APPEND(r, functions, &number);
}

static int read_mapping(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Mapping) *m = unpack(r, &OTLP_CALL(mapping, descriptor), bytes);
	struct profile_mapping mapping = {0};
	uint32_t number;

	(void)context;
	if (!m)
		return -EBADMSG;
	int result = intern_text(r, m->filename_strindex, &mapping.filename);
	if (result < 0)
		return result;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute = find_attribute(r, m->attribute_indices[i]);
		if (!attribute)
			return -EBADMSG;
		if (attribute->key == KEY_GNU_BUILD_ID)
			mapping.gnu_build_id = attribute->string;
		else if (attribute->key == KEY_GO_BUILD_ID)
			mapping.go_build_id = attribute->string;
		else if (attribute->key == KEY_HTLHASH)
			mapping.htlhash = attribute->string;
	}
	result = profile_mapping(r->profile, &mapping, &number);
	return result < 0 ? result : APPEND(r, mappings, &number);
}

/* A frame without a type is native. One of which nothing is said is "none". */
static int intern_location(struct reader *r, struct profile_location location, uint32_t *number)
{
	if (!location.kind &&
	    (location.mapping || location.function || location.line || location.address)) {
		int result =
		    profile_string(r->profile, OTLP_NATIVE, strlen(OTLP_NATIVE), &location.kind);
		if (result < 0)
			return result;
	}
	return profile_location(r->profile, &location, number);
}

/* Without lines there is still one frame. */
static int read_lines(struct reader *r, const OTLP_TYPE(Location) * m,
		      struct profile_location *location, struct span *span)
{
	size_t count = m->n_lines ? m->n_lines : 1;

	if (count > LINES_MAX)
		return -EBADMSG;
	span->first = r->numbers_count;
	span->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		uint32_t number;
		if (m->n_lines) {
			const OTLP_TYPE(Line) *line = m->lines[i];
			if (line->function_index < 0 ||
			    (uint32_t)line->function_index >= r->functions_count)
				return -EBADMSG;
			location->function = r->functions[line->function_index];
			location->line =
			    line->line > 0 && line->line <= UINT32_MAX ? (uint32_t)line->line : 0;
		}
		int result = intern_location(r, *location, &number);
		if (result == 0)
			result = APPEND(r, numbers, &number);
		if (result < 0)
			return result;
	}
	return 0;
}

static int read_location(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Location) *m =
	    unpack(r, &OTLP_CALL(location, descriptor), bytes);
	struct profile_function generated = {.name_is_generated = 1};
	struct profile_location location = {0};
	struct span span;

	(void)context;
	if (!m || m->mapping_index < 0 || (uint32_t)m->mapping_index >= r->mappings_count)
		return -EBADMSG;
	location.mapping = r->mappings[m->mapping_index];
	location.address = m->address;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute = find_attribute(r, m->attribute_indices[i]);
		if (!attribute)
			return -EBADMSG;
		if (attribute->key == KEY_FRAME_TYPE)
			location.kind = attribute->string;
		else if (attribute->key == KEY_GENERATED_NAME)
			generated.name = attribute->string;
	}
	int result =
	    generated.name ? profile_function(r->profile, &generated, &location.function) : 0;
	if (result == 0)
		result = read_lines(r, m, &location, &span);
	return result < 0 ? result : APPEND(r, locations, &span);
}

static int read_stack(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Stack) *m = unpack(r, &OTLP_CALL(stack, descriptor), bytes);
	uint32_t count = 0, number;

	(void)context;
	if (!m)
		return -EBADMSG;
	for (size_t i = 0; i < m->n_location_indices; i++) {
		int32_t index = m->location_indices[i];
		if (index < 0 || (uint32_t)index >= r->locations_count)
			return -EBADMSG;
		const struct span *span = &r->locations[index];
		if (span->count > FRAMES_MAX - count)
			return -EBADMSG;
		memcpy(r->frames + count, r->numbers + span->first,
		       span->count * sizeof(*r->frames));
		count += span->count;
	}
	int result = profile_stack(r->profile, r->frames, count, &number);
	return result < 0 ? result : APPEND(r, stacks, &number);
}

struct table {
	uint32_t field;
	int (*read)(struct reader *, struct cursor, void *);
};

static int read_table(struct reader *r, struct cursor dictionary, void *context)
{
	const struct table *table = context;

	return for_each(dictionary, table->field, table->read, r, NULL);
}

static int read_dictionary(struct reader *r)
{
	static const struct table tables[] = {
	    {OTLP_TABLE_STRINGS, read_string},	 {OTLP_TABLE_ATTRIBUTES, read_dictionary_attribute},
	    {OTLP_TABLE_LINKS, read_link},	 {OTLP_TABLE_FUNCTIONS, read_function},
	    {OTLP_TABLE_MAPPINGS, read_mapping}, {OTLP_TABLE_LOCATIONS, read_location},
	    {OTLP_TABLE_STACKS, read_stack},
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct table table = tables[i];
		int result = for_each(r->file, OTLP_DATA_DICTIONARY, read_table, r, &table);
		if (result < 0)
			return result;
	}
	return 0;
}

/* --- samples --- */

struct profile_head {
	uint32_t process;
	bool is_samples_count;
	uint64_t time_ns, duration_ns, period;
};

struct process_facts {
	struct profile_process process;
	uint32_t executable; /* its name */
	bool has_comm;
};

static bool text_is(const struct reader *r, int32_t strindex, const char *wanted)
{
	return strindex >= 0 && (uint32_t)strindex < r->strings_count &&
	       r->strings[strindex].length == strlen(wanted) &&
	       !memcmp(r->strings[strindex].at, wanted, strlen(wanted));
}

/* How many samples a Sample stands for, and whether each has a time of its own. */
static int count_sample(const OTLP_TYPE(Sample) * m, uint64_t *count, bool *timed)
{
	uint64_t sum = 0;

	*timed = m->n_timestamps_unix_nano != 0;

	if (!m->n_values && !m->n_timestamps_unix_nano)
		return -EBADMSG;
	if (m->n_values && m->n_timestamps_unix_nano && m->n_values != m->n_timestamps_unix_nano)
		return -EBADMSG;
	for (size_t i = 0; i < m->n_values; i++) {
		if (m->values[i] < 0 || (uint64_t)m->values[i] > INT64_MAX - sum)
			return -EBADMSG;
		sum += (uint64_t)m->values[i];
		*timed &= m->values[i] == 1;
	}
	*count = m->n_values ? sum : m->n_timestamps_unix_nano;
	return 0;
}

static int add_sample(struct reader *r, const OTLP_TYPE(Sample) * m, uint32_t thread, uint32_t cpu,
		      uint64_t count, bool timed)
{
	const uint32_t stack = r->stacks[m->stack_index];
	int result = 0;

	if (!timed)
		return profile_add_on(r->profile, thread, stack, cpu, count);
	for (size_t i = 0; i < m->n_timestamps_unix_nano && result == 0; i++)
		result = profile_add_at(r->profile, thread, stack, cpu, m->timestamps_unix_nano[i]);
	return result;
}

static int read_sample(struct reader *r, struct cursor bytes, void *context)
{
	const struct profile_head *head = context;
	_cleanup_message_ OTLP_TYPE(Sample) *m = unpack(r, &OTLP_CALL(sample, descriptor), bytes);
	struct profile_thread thread = {.process = head->process};
	uint32_t number, cpu = PROFILE_CPU_UNKNOWN;
	uint64_t count;
	bool timed;

	if (!m || m->stack_index < 0 || (uint32_t)m->stack_index >= r->stacks_count)
		return -EBADMSG;
	/* Link 0 is "none", and is there even if the table is not. */
	if (m->link_index < 0 || (m->link_index && (uint32_t)m->link_index >= r->links_count))
		return -EBADMSG;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute = find_attribute(r, m->attribute_indices[i]);
		if (!attribute)
			return -EBADMSG;
		if (attribute->key == KEY_THREAD_NAME)
			thread.name = attribute->string;
		else if (attribute->key == KEY_THREAD_ID)
			thread.tid = (uint32_t)attribute->number;
		else if (attribute->key == KEY_CPU && !attribute->is_string &&
			 attribute->number < PROFILE_CPU_UNKNOWN)
			cpu = (uint32_t)attribute->number;
	}
	int result = count_sample(m, &count, &timed);
	if (result < 0)
		return result;
	if (!r->adding) {
		if (count > INT64_MAX - r->sample_count)
			return -EBADMSG;
		r->sample_count += count;
		return 0;
	}
	result = profile_thread(r->profile, &thread, &number);
	return result < 0 ? result : add_sample(r, m, number, cpu, count, timed);
}

static int read_sample_type(struct reader *r, struct cursor bytes, void *context)
{
	struct profile_head *head = context;
	_cleanup_message_ OTLP_TYPE(ValueType) *m =
	    unpack(r, &OTLP_CALL(value_type, descriptor), bytes);

	if (!m)
		return -EBADMSG;
	head->is_samples_count =
	    text_is(r, m->type_strindex, "samples") && text_is(r, m->unit_strindex, "count");
	return 0;
}

static int read_profile_numbers(struct cursor bytes, struct profile_head *head)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&bytes, &field)) > 0) {
		bool varint = field.wire_type == PROTO_VARINT;
		if (field.number == OTLP_PROFILE_TIME && field.wire_type == PROTO_FIXED64)
			head->time_ns = field.value;
		else if (field.number == OTLP_PROFILE_DURATION && varint)
			head->duration_ns = field.value;
		else if (field.number == OTLP_PROFILE_PERIOD && varint)
			head->period = field.value > INT64_MAX ? 0 : field.value;
	}
	return got;
}

/* Widen the profile's time by that of a part. */
static void add_times(struct profile *profile, const struct profile_head *head)
{
	uint64_t start = profile->start_unix_ns, end;

	if (!profile->period_ns)
		profile->period_ns = head->period;
	if (!start) {
		profile->start_unix_ns = head->time_ns;
		profile->duration_ns = head->duration_ns;
		return;
	}
	if (!head->time_ns)
		return;
	end = start + profile->duration_ns;
	if (head->time_ns < start)
		start = head->time_ns;
	if (head->duration_ns <= UINT64_MAX - head->time_ns &&
	    head->time_ns + head->duration_ns > end)
		end = head->time_ns + head->duration_ns;
	profile->start_unix_ns = start;
	profile->duration_ns = end - start;
}

static int read_profile(struct reader *r, struct cursor bytes, void *context)
{
	struct profile_head head = {.process = *(const uint32_t *)context};

	int result = for_each(bytes, OTLP_PROFILE_SAMPLE_TYPE, read_sample_type, r, &head);
	if (result == 0)
		result = read_profile_numbers(bytes, &head);
	if (result < 0 || !head.is_samples_count)
		return result;
	if (r->adding)
		add_times(r->profile, &head);
	return for_each(bytes, OTLP_PROFILE_SAMPLES, read_sample, r, &head);
}

static int read_scope(struct reader *r, struct cursor bytes, void *context)
{
	return for_each(bytes, OTLP_SCOPE_PROFILES, read_profile, r, context);
}

/* As many as there is room for. */
static int add_variable(struct reader *r, struct profile_process *process,
			const struct attribute *attribute)
{
	for (size_t i = 0; i < PROFILE_VARIABLES_MAX; i++) {
		struct profile_variable *variable = &process->variables[i];
		if (variable->name)
			continue;
		variable->value = attribute->string;
		return profile_string(r->profile, attribute->variable.at,
				      attribute->variable.length, &variable->name);
	}
	return 0;
}

static int take_attribute(struct reader *r, const struct attribute *attribute,
			  struct process_facts *facts)
{
	struct profile_process *process = &facts->process;

	switch (attribute->key) {
	case KEY_SERVICE_NAME:
		process->service_name = attribute->string;
		return 0;
	case KEY_CONTAINER_ID:
		process->container_id = attribute->string;
		return 0;
	case KEY_PROCESS_PID:
		process->tgid = (uint32_t)attribute->number;
		return 0;
	case KEY_PROCESS_NAME:
		facts->executable = attribute->string;
		return 0;
	case KEY_PROCESS_COMM:
		process->name = attribute->string;
		facts->has_comm = true;
		return 0;
	case KEY_PROCESS_PATH:
		process->path = attribute->string;
		return 0;
	case KEY_PROCESS_START:
		process->start = attribute->number;
		return 0;
	case KEY_PROCESS_VARIABLE:
		return add_variable(r, process, attribute);
	default:
		return 0;
	}
}

static int read_resource(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_RESOURCE_TYPE(Resource) *m =
	    unpack(r, &OTLP_RESOURCE_CALL(resource, descriptor), bytes);
	int result = m ? 0 : -EBADMSG;

	for (size_t i = 0; result == 0 && i < m->n_attributes; i++) {
		const OTLP_COMMON_TYPE(KeyValue) *from = m->attributes[i];
		struct attribute attribute;
		result = read_attribute(r, from->key, from->key_strindex, from->value, &attribute);
		if (result == 0)
			result = take_attribute(r, &attribute, context);
	}
	return result;
}

static int read_resource_profiles(struct reader *r, struct cursor bytes, void *context)
{
	struct process_facts facts = {.has_comm = false};
	uint32_t number;

	(void)context;
	int result = for_each(bytes, OTLP_RESOURCE_RESOURCE, read_resource, r, &facts);
	if (result < 0)
		return result;
	/* The kernel's name is that of the executable unless the file says otherwise. */
	if (!facts.has_comm)
		facts.process.name = facts.executable;
	result = profile_process(r->profile, &facts.process, &number);
	if (result < 0)
		return result;
	return for_each(bytes, OTLP_RESOURCE_SCOPE_PROFILES, read_scope, r, &number);
}

int otlp_read(const uint8_t *data, size_t length, struct profile *profile)
{
	_cleanup_(reader_free) struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->profile = profile;
	r->file = cursor_init(data, length);
	r->allocator = (ProtobufCAllocator){allocate, release, r};
	r->sample_count = profile->sample_count;
	int result = read_dictionary(r);
	if (result == 0)
		result =
		    for_each(r->file, OTLP_DATA_RESOURCE_PROFILES, read_resource_profiles, r, NULL);
	if (result < 0)
		return result;
	r->adding = true;
	return for_each(r->file, OTLP_DATA_RESOURCE_PROFILES, read_resource_profiles, r, NULL);
}

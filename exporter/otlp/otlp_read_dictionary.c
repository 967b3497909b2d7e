/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of otlp_read: the tables of the dictionary. */
#include "exporter/otlp/otlp_read_dictionary.h"

#include <limits.h>
#include <string.h>

#include "exporter/model/inlined.h"

static int intern_text(struct reader *r, int32_t strindex, uint32_t *id)
{
	if (!reader_has(strindex, r->strings_count))
		return -EBADMSG;
	const struct text *text = &r->strings[strindex];
	return profile_string(r->profile, text->at, text->length, id);
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
	const bool is_variable = begins_with(key, OTLP_PROCESS_VARIABLE);
	if (!is_variable && !begins_with(key, PROFILE_LABEL_PREFIX))
		return KEY_OTHER;
	const size_t prefix = strlen(is_variable ? OTLP_PROCESS_VARIABLE : PROFILE_LABEL_PREFIX);
	*variable = (struct text){key.at + prefix, key.length - prefix};
	return is_variable ? KEY_PROCESS_VARIABLE : KEY_LABEL;
}

int reader_read_attribute(struct reader *r, const char *inline_key, int32_t key_strindex,
			  const OTLP_COMMON_TYPE(AnyValue) * value, struct attribute *attribute)
{
	struct attribute found = {0};
	int result = 0;

	if (!reader_has(key_strindex, r->strings_count)) {
		/* Resources with inline keys need no dictionary. */
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

const struct attribute *reader_find_attribute(const struct reader *r, int32_t index)
{
	return !reader_has(index, r->attributes_count) ? NULL : &r->attributes[index];
}

static int read_string(struct reader *r, struct cursor bytes, void *context)
{
	struct text text = {(const char *)bytes.at, cursor_left(&bytes)};

	(void)context;
	return READER_APPEND(r, strings, text);
}

static int read_dictionary_attribute(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(KeyValueAndUnit) *m =
	    reader_unpack(r, &OTLP_CALL(key_value_and_unit, descriptor), bytes);
	struct attribute attribute;

	(void)context;
	if (!m)
		return r->unpack_error;
	int result = reader_read_attribute(r, NULL, m->key_strindex, m->value, &attribute);
	return result < 0 ? result : READER_APPEND(r, attributes, attribute);
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
	    reader_unpack(r, &OTLP_CALL(function, descriptor), bytes);
	struct profile_function function = {0};
	uint32_t id;

	(void)context;
	if (!m)
		return r->unpack_error;
	/* A line number that is out of range is ignored. */
	if (m->start_line > 0 && m->start_line <= PROFILE_LINE_MAX)
		function.start_line = (uint32_t)m->start_line & PROFILE_LINE_MAX;
	int result = intern_text(r, m->name_strindex, &function.name);
	if (result == 0)
		result = intern_text(r, m->system_name_strindex, &function.system_name);
	if (result == 0)
		result = intern_text(r, m->filename_strindex, &function.filename);
	if (result == 0)
		result = profile_function(r->profile, &function, &id);
	return result < 0 ? result : READER_APPEND(r, functions, id);
}

static int read_mapping(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Mapping) *m =
	    reader_unpack(r, &OTLP_CALL(mapping, descriptor), bytes);
	struct profile_mapping mapping = {0};
	uint32_t id;

	(void)context;
	if (!m)
		return r->unpack_error;
	int result = intern_text(r, m->filename_strindex, &mapping.filename);
	if (result < 0)
		return result;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute =
		    reader_find_attribute(r, m->attribute_indices[i]);
		if (!attribute)
			return -EBADMSG;
		if (attribute->key == KEY_GNU_BUILD_ID)
			mapping.gnu_build_id = attribute->string;
		else if (attribute->key == KEY_GO_BUILD_ID)
			mapping.go_build_id = attribute->string;
		else if (attribute->key == KEY_HTLHASH)
			mapping.htlhash = attribute->string;
	}
	result = profile_mapping(r->profile, &mapping, &id);
	return result < 0 ? result : READER_APPEND(r, mappings, id);
}

/* Interns a location. A frame without a type is native, and a location without any contents is
 * "none". */
static int intern_location(struct reader *r, struct profile_location location, uint32_t *id)
{
	if (!location.kind && (location.mapping || location.function || location.line ||
			       location.address || location.caller)) {
		int result =
		    profile_string(r->profile, OTLP_NATIVE, strlen(OTLP_NATIVE), &location.kind);
		if (result < 0)
			return result;
	}
	return profile_location(r->profile, &location, id);
}

/* Reads the lines of a location. Without lines the location is still one frame. */
static int read_lines(struct reader *r, const OTLP_TYPE(Location) * m,
		      struct profile_location *location, struct span *span)
{
	size_t count = m->n_lines ? m->n_lines : 1;
	uint32_t ids[PROFILE_INLINED_MAX];

	if (count > PROFILE_INLINED_MAX)
		return -EBADMSG;
	span->first = (uint32_t)r->location_ids_count; /* at most INT32_MAX */
	span->count = (uint32_t)count;
	/* The innermost function is the first one. A function is made after its caller. */
	for (size_t i = count; i-- > 0;) {
		if (m->n_lines) {
			const OTLP_TYPE(Line) *line = m->lines[i];
			if (!reader_has(line->function_index, r->functions_count))
				return -EBADMSG;
			location->function = r->functions[line->function_index];
			location->line =
			    line->line > 0 && line->line <= UINT32_MAX ? (uint32_t)line->line : 0;
		}
		int result = intern_location(r, *location, &ids[i]);
		if (result < 0)
			return result;
		location->caller = ids[i];
	}
	for (size_t i = 0; i < count; i++) {
		int result = READER_APPEND(r, location_ids, ids[i]);
		if (result < 0)
			return result;
	}
	return 0;
}

static int read_location(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Location) *m =
	    reader_unpack(r, &OTLP_CALL(location, descriptor), bytes);
	struct profile_function generated = {.name_is_generated = 1};
	struct profile_location location = {0};
	struct span span;

	(void)context;
	if (!m)
		return r->unpack_error;
	if (!reader_has(m->mapping_index, r->mappings_count))
		return -EBADMSG;
	location.mapping = r->mappings[m->mapping_index];
	location.address = m->address;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute =
		    reader_find_attribute(r, m->attribute_indices[i]);
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
	return result < 0 ? result : READER_APPEND(r, locations, span);
}

static int read_stack(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_TYPE(Stack) *m =
	    reader_unpack(r, &OTLP_CALL(stack, descriptor), bytes);
	uint32_t count = 0, id;

	(void)context;
	if (!m)
		return r->unpack_error;
	for (size_t i = 0; i < m->n_location_indices; i++) {
		int32_t index = m->location_indices[i];
		if (!reader_has(index, r->locations_count))
			return -EBADMSG;
		const struct span *span = &r->locations[index];
		if (span->count > OTLP_READ_FRAMES_MAX - count)
			return -EBADMSG;
		memcpy(r->frames + count, r->location_ids + span->first,
		       span->count * sizeof(*r->frames));
		count += span->count;
	}
	count = inlined_remove(r->profile, r->frames, count);
	int result = profile_stack(r->profile, r->frames, count, &id);
	return result < 0 ? result : READER_APPEND(r, stacks, id);
}

struct table {
	uint32_t field;
	reader_fn *read;
};

static int read_table(struct reader *r, struct cursor dictionary, void *context)
{
	const struct table *table = context;

	return reader_for_each(r, dictionary, table->field, table->read, NULL);
}

int reader_read_dictionary(struct reader *r)
{
	static const struct table tables[] = {
	    {OTLP_TABLE_STRINGS, read_string},	 {OTLP_TABLE_ATTRIBUTES, read_dictionary_attribute},
	    {OTLP_TABLE_LINKS, read_link},	 {OTLP_TABLE_FUNCTIONS, read_function},
	    {OTLP_TABLE_MAPPINGS, read_mapping}, {OTLP_TABLE_LOCATIONS, read_location},
	    {OTLP_TABLE_STACKS, read_stack},
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct table table = tables[i];
		int result = reader_for_each(r, r->file, OTLP_DATA_DICTIONARY, read_table, &table);
		if (result < 0)
			return result;
	}
	return 0;
}

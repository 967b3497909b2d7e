/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_dictionary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/hash.h"
#include "exporter/model/inlined.h"
#include "exporter/otlp/otlp_names.h"

enum {
	ENTRIES_MIN = 64,
	SLOTS_PER_ENTRY = 2, /* so that at most half of the slots are occupied */
	ENTRIES_MAX = INT32_MAX / SLOTS_PER_ENTRY,
};

static const char *const words[OTLP_WORDS] = {
    [OTLP_WORD_SAMPLES] = "samples",
    [OTLP_WORD_COUNT] = "count",
    [OTLP_WORD_CPU] = "cpu",
    [OTLP_WORD_NANOSECONDS] = "nanoseconds",
    [OTLP_WORD_FRAME_TYPE] = OTLP_FRAME_TYPE,
    [OTLP_WORD_GENERATED_NAME] = OTLP_GENERATED_NAME,
    [OTLP_WORD_GNU_BUILD_ID] = OTLP_GNU_BUILD_ID,
    [OTLP_WORD_GO_BUILD_ID] = OTLP_GO_BUILD_ID,
    [OTLP_WORD_HTLHASH] = OTLP_HTLHASH,
    [OTLP_WORD_THREAD_NAME] = OTLP_THREAD_NAME,
    [OTLP_WORD_THREAD_ID] = OTLP_THREAD_ID,
    [OTLP_WORD_LOGICAL_CPU] = OTLP_CPU,
};

static const uint32_t table_fields[OTLP_TABLES] = {
    [OTLP_MAPPINGS] = OTLP_TABLE_MAPPINGS,     [OTLP_LOCATIONS] = OTLP_TABLE_LOCATIONS,
    [OTLP_FUNCTIONS] = OTLP_TABLE_FUNCTIONS,   [OTLP_STRINGS] = OTLP_TABLE_STRINGS,
    [OTLP_ATTRIBUTES] = OTLP_TABLE_ATTRIBUTES, [OTLP_STACKS] = OTLP_TABLE_STACKS,
};

static uint32_t use(struct otlp_dictionary *d, enum otlp_table table, struct otlp_entry entry);

/* --- a table: entries in order, and a hash to find them --- */

/* Returns the slot of an entry, or the free slot where it would be. Values may come from a file
 * (thread ids), so the hash depends on a number that the author of the file cannot know. It is
 * mixed before that number multiplies it, because some numbers spread neighbouring values badly. */
static uint32_t *find_slot(const struct otlp_entries *t, struct otlp_entry entry)
{
	const uint64_t key = (uint64_t)entry.word << 32 | entry.value;
	const uint64_t hash = hash_combine(t->multiplier, key) * t->multiplier;
	uint32_t mask = t->slots_count - 1, at = (uint32_t)(hash >> 32);

	for (;; at++) {
		uint32_t id = t->slots[at & mask];
		if (!id || (t->entries[id - 1].word == entry.word &&
			    t->entries[id - 1].value == entry.value))
			return &t->slots[at & mask];
	}
}

/* Fills the slots in the order in which the entries were created. take_back() relies on this: it
 * removes the last entries by freeing their slots. */
static void fill_slots(struct otlp_entries *t)
{
	memset(t->slots, 0, t->slots_count * sizeof(*t->slots));
	for (uint32_t i = 0; i < t->count; i++)
		*find_slot(t, t->entries[i]) = i + 1;
}

static int grow(struct otlp_entries *t)
{
	uint32_t capacity = t->capacity ? t->capacity * 2 : ENTRIES_MIN;

	if (t->capacity > ENTRIES_MAX / 2)
		return -ENOSPC;
	struct otlp_entry *entries = reallocarray(t->entries, capacity, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	t->entries = entries;
	uint32_t *slots = calloc((size_t)capacity * SLOTS_PER_ENTRY, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(t->slots);
	t->slots = slots;
	t->slots_count = capacity * SLOTS_PER_ENTRY;
	t->multiplier = XXH3_64bits(&slots, sizeof(slots)) | 1;
	t->capacity = capacity;
	fill_slots(t);
	return 0;
}

static void take_back(struct otlp_entries *t, uint32_t count, uint64_t bytes)
{
	while (t->count > count) {
		*find_slot(t, t->entries[t->count - 1]) = 0;
		t->count--;
	}
	t->bytes = bytes;
}

/* --- the entries --- */

static uint32_t use_id(struct otlp_dictionary *d, enum otlp_table table, uint32_t id)
{
	return id ? use(d, table, (struct otlp_entry){OTLP_WORD_NONE, id}) : 0;
}

static uint32_t use_string(struct otlp_dictionary *d, uint32_t string)
{
	return use_id(d, OTLP_STRINGS, string);
}

uint32_t otlp_use_word(struct otlp_dictionary *d, enum otlp_word word)
{
	return use(d, OTLP_STRINGS, d->words[word]);
}

uint32_t otlp_use_attribute(struct otlp_dictionary *d, enum otlp_word key, uint32_t value)
{
	return use(d, OTLP_ATTRIBUTES, (struct otlp_entry){key, value});
}

uint32_t otlp_use_stack(struct otlp_dictionary *d, uint32_t stack)
{
	return use_id(d, OTLP_STACKS, stack);
}

static void put_mapping(struct otlp_dictionary *d, uint32_t id, struct proto_out *out)
{
	const struct profile_mapping *from = &d->profile->mappings[id];
	struct proto_small mapping = {.length = 0};
	uint64_t ids[3];
	size_t count = 0;

	proto_small_number(&mapping, OTLP_MAPPING_FILENAME, use_string(d, from->filename));
	if (from->htlhash || !d->for_backend) {
		if (from->gnu_build_id)
			ids[count++] =
			    otlp_use_attribute(d, OTLP_WORD_GNU_BUILD_ID, from->gnu_build_id);
		if (from->go_build_id)
			ids[count++] =
			    otlp_use_attribute(d, OTLP_WORD_GO_BUILD_ID, from->go_build_id);
		if (from->htlhash)
			ids[count++] = otlp_use_attribute(d, OTLP_WORD_HTLHASH, from->htlhash);
	}
	proto_small_packed(&mapping, OTLP_MAPPING_ATTRIBUTES, ids, count);
	proto_out_small(out, OTLP_TABLE_MAPPINGS, &mapping);
}

/* Makes the line of a function at a location. */
static void make_line(struct otlp_dictionary *d, const struct profile_location *from,
		      struct proto_small *line)
{
	const struct profile_function *function = &d->profile->functions[from->function];

	line->length = 0;
	proto_small_number(line, OTLP_LINE_FUNCTION,
			   function->name_is_generated ? 0
						       : use_id(d, OTLP_FUNCTIONS, from->function));
	proto_small_number(line, OTLP_LINE_LINE, from->line);
}

/* Writes a location to which the lines of all functions that are inlined there are added. */
static void put_inlined(struct otlp_dictionary *d, uint32_t id, const struct proto_small *location,
			struct proto_out *out)
{
	const struct profile_location *locations = d->profile->locations;
	uint64_t bytes = location->length;
	struct proto_small line;

	for (uint32_t i = id; i; i = locations[i].caller) {
		make_line(d, &locations[i], &line);
		bytes += proto_field_bytes(OTLP_LOCATION_LINES, line.length);
	}
	proto_out_head(out, OTLP_TABLE_LOCATIONS, bytes);
	proto_out_raw(out, location->bytes, location->length);
	for (uint32_t i = id; i; i = locations[i].caller) {
		make_line(d, &locations[i], &line);
		proto_out_small(out, OTLP_LOCATION_LINES, &line);
	}
}

static void put_location(struct otlp_dictionary *d, uint32_t id, struct proto_out *out)
{
	const struct profile_location *from = &d->profile->locations[id];
	const struct profile_function *function = &d->profile->functions[from->function];
	struct proto_small location = {.length = 0}, line;
	uint64_t attributes[2];
	size_t count = 0;

	proto_small_number(&location, OTLP_LOCATION_MAPPING,
			   use_id(d, OTLP_MAPPINGS, from->mapping));
	proto_small_number(&location, OTLP_LOCATION_ADDRESS, from->address);
	if (!from->caller) {
		make_line(d, from, &line);
		if (line.length)
			proto_small_message(&location, OTLP_LOCATION_LINES, &line);
	}
	/* Every location except "none" has a kind: see profile_location(). */
	attributes[count++] = otlp_use_attribute(d, OTLP_WORD_FRAME_TYPE, from->kind);
	if (function->name_is_generated && !d->for_backend)
		attributes[count++] =
		    otlp_use_attribute(d, OTLP_WORD_GENERATED_NAME, function->name);
	proto_small_packed(&location, OTLP_LOCATION_ATTRIBUTES, attributes, count);
	if (from->caller)
		put_inlined(d, id, &location, out);
	else
		proto_out_small(out, OTLP_TABLE_LOCATIONS, &location);
}

static void put_function(struct otlp_dictionary *d, uint32_t id, struct proto_out *out)
{
	const struct profile_function *from = &d->profile->functions[id];
	struct proto_small function = {.length = 0};

	proto_small_number(&function, OTLP_FUNCTION_NAME, use_string(d, from->name));
	proto_small_number(&function, OTLP_FUNCTION_SYSTEM_NAME, use_string(d, from->system_name));
	proto_small_number(&function, OTLP_FUNCTION_FILENAME, use_string(d, from->filename));
	proto_small_number(&function, OTLP_FUNCTION_START_LINE, from->start_line);
	proto_out_small(out, OTLP_TABLE_FUNCTIONS, &function);
}

static void put_string(const struct otlp_dictionary *d, struct otlp_entry entry,
		       struct proto_out *out)
{
	if (entry.word)
		proto_out_bytes(out, OTLP_TABLE_STRINGS, words[entry.word],
				strlen(words[entry.word]));
	else
		proto_out_bytes(out, OTLP_TABLE_STRINGS, d->profile->strings[entry.value],
				profile_string_length(d->profile, entry.value));
}

uint64_t otlp_value_bytes(const char *text, size_t length, uint64_t number)
{
	uint64_t bytes =
	    text ? proto_field_bytes(OTLP_VALUE_STRING, length) : 1 + proto_varint_bytes(number);

	return proto_field_bytes(OTLP_KEY_VALUE, bytes);
}

void otlp_put_value(struct proto_out *out, const char *text, size_t length, uint64_t number)
{
	if (text) {
		proto_out_head(out, OTLP_KEY_VALUE, proto_field_bytes(OTLP_VALUE_STRING, length));
		proto_out_bytes(out, OTLP_VALUE_STRING, text, length);
	} else {
		proto_out_head(out, OTLP_KEY_VALUE, 1 + proto_varint_bytes(number));
		proto_out_number(out, OTLP_VALUE_INT, number);
	}
}

static bool key_is_number(enum otlp_word key)
{
	return key == OTLP_WORD_THREAD_ID || key == OTLP_WORD_LOGICAL_CPU;
}

static void put_attribute(struct otlp_dictionary *d, struct otlp_entry entry, struct proto_out *out)
{
	const struct profile_label *label =
	    entry.word == OTLP_WORD_LABEL ? &d->profile->labels[entry.value] : NULL;
	uint32_t key = label ? use_string(d, label->attribute) : otlp_use_word(d, entry.word);
	const uint32_t string = label ? label->value : entry.value;
	const char *text = key_is_number(entry.word) ? NULL : d->profile->strings[string];
	size_t length = text ? profile_string_length(d->profile, string) : 0;

	proto_out_head(out, OTLP_TABLE_ATTRIBUTES,
		       1 + proto_varint_bytes(key) + otlp_value_bytes(text, length, entry.value));
	proto_out_number(out, OTLP_KEY, key);
	otlp_put_value(out, text, length, entry.value);
}

static bool reserve_indices(struct otlp_dictionary *d, uint32_t count)
{
	const int r = ARRAY_RESERVE(d->indices, d->indices_capacity, count, count, ARRAY_UNLIMITED);

	if (r < 0)
		d->error = r;
	return r == 0;
}

static void put_stack(struct otlp_dictionary *d, uint32_t id, struct proto_out *out)
{
	const struct profile_stack *from = &d->profile->stacks[id];
	uint64_t bytes = 0;
	size_t count = 0;

	if (!reserve_indices(d, from->count))
		return;
	for (uint32_t i = 0; i < from->count; i += inlined_count(d->profile, from, i)) {
		const uint32_t location = d->profile->stack_locations[from->first + i];

		d->indices[count] = use_id(d, OTLP_LOCATIONS, location);
		bytes += proto_varint_bytes(d->indices[count++]);
	}
	proto_out_head(out, OTLP_TABLE_STACKS,
		       count ? proto_field_bytes(OTLP_STACK_LOCATIONS, bytes) : 0);
	proto_out_packed(out, OTLP_STACK_LOCATIONS, d->indices, count);
}

/* Writes the entry as a field of the dictionary, and creates the entries that it refers to. */
static void put_entry(struct otlp_dictionary *d, enum otlp_table table, struct otlp_entry entry,
		      struct proto_out *out)
{
	switch (table) {
	case OTLP_MAPPINGS:
		put_mapping(d, entry.value, out);
		break;
	case OTLP_LOCATIONS:
		put_location(d, entry.value, out);
		break;
	case OTLP_FUNCTIONS:
		put_function(d, entry.value, out);
		break;
	case OTLP_STRINGS:
		put_string(d, entry, out);
		break;
	case OTLP_ATTRIBUTES:
		put_attribute(d, entry, out);
		break;
	case OTLP_STACKS:
		put_stack(d, entry.value, out);
		break;
	case OTLP_TABLES:
		break;
	}
}

static uint32_t make(struct otlp_dictionary *d, enum otlp_table table, struct otlp_entry entry)
{
	struct otlp_entries *t = &d->tables[table];
	struct proto_out size = proto_out_init(NULL, NULL);

	put_entry(d, table, entry, &size);
	if (!d->error && t->count == t->capacity)
		d->error = grow(t);
	if (d->error)
		return 0;
	uint32_t *slot = find_slot(t, entry);
	t->entries[t->count++] = entry;
	t->bytes += size.bytes;
	return *slot = t->count;
}

static uint32_t use(struct otlp_dictionary *d, enum otlp_table table, struct otlp_entry entry)
{
	const struct otlp_entries *t = &d->tables[table];

	if (d->error)
		return 0;
	uint32_t id = t->count ? *find_slot(t, entry) : 0;
	return id ? id : make(d, table, entry);
}

/* --- the dictionary --- */

/* Writes entry 0 of a table, an empty message or string that means "none". */
static void put_none(enum otlp_table table, struct proto_out *out)
{
	proto_out_bytes(out, table_fields[table], "", 0);
}

/* Writes the table of links, which only has its entry 0. That contains zeros instead of being
 * empty, as the current text of the specification says. */
static void put_links(struct proto_out *out)
{
	static const uint8_t trace_id[16], span_id[8];

	proto_out_head(out, OTLP_TABLE_LINKS,
		       proto_field_bytes(OTLP_LINK_TRACE_ID, sizeof(trace_id)) +
			   proto_field_bytes(OTLP_LINK_SPAN_ID, sizeof(span_id)));
	proto_out_bytes(out, OTLP_LINK_TRACE_ID, trace_id, sizeof(trace_id));
	proto_out_bytes(out, OTLP_LINK_SPAN_ID, span_id, sizeof(span_id));
}

static uint64_t none_bytes(enum otlp_table table)
{
	struct proto_out none = proto_out_init(NULL, NULL);

	put_none(table, &none);
	return none.bytes;
}

void otlp_dictionary_init(struct otlp_dictionary *d, const struct profile *profile,
			  bool for_backend)
{
	*d = (struct otlp_dictionary){.profile = profile, .for_backend = for_backend};
	for (uint32_t i = 1; i < OTLP_WORDS; i++) {
		uint32_t string = profile_find_string(profile, words[i]);
		d->words[i] = string ? (struct otlp_entry){OTLP_WORD_NONE, string}
				     : (struct otlp_entry){i, 0};
	}
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++)
		d->tables[i].bytes = none_bytes(i);
}

void otlp_dictionary_fini(struct otlp_dictionary *d)
{
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++) {
		free(d->tables[i].entries);
		free(d->tables[i].slots);
	}
	free(d->indices);
}

struct otlp_mark otlp_dictionary_mark(const struct otlp_dictionary *d)
{
	struct otlp_mark mark;

	for (enum otlp_table i = 0; i < OTLP_TABLES; i++) {
		mark.tables[i].count = d->tables[i].count;
		mark.tables[i].bytes = d->tables[i].bytes;
	}
	return mark;
}

void otlp_dictionary_return(struct otlp_dictionary *d, const struct otlp_mark *mark)
{
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++)
		take_back(&d->tables[i], mark->tables[i].count, mark->tables[i].bytes);
}

void otlp_dictionary_clear(struct otlp_dictionary *d)
{
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++) {
		struct otlp_entries *t = &d->tables[i];
		t->count = 0;
		t->bytes = none_bytes(i);
		if (t->slots)
			memset(t->slots, 0, t->slots_count * sizeof(*t->slots));
	}
}

void otlp_dictionary_put(struct otlp_dictionary *d, struct proto_out *out)
{
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++) {
		put_none(i, out);
		for (uint32_t j = 0; j < d->tables[i].count; j++)
			put_entry(d, i, d->tables[i].entries[j], out);
	}
	put_links(out);
}

uint64_t otlp_dictionary_bytes(const struct otlp_dictionary *d)
{
	struct proto_out links = proto_out_init(NULL, NULL);
	uint64_t bytes = 0;

	put_links(&links);
	for (enum otlp_table i = 0; i < OTLP_TABLES; i++)
		bytes += d->tables[i].bytes;
	return bytes + links.bytes;
}

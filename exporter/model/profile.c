/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. Equal entries are stored once: they are interned. For this, each table has an
 * open-addressing hash index. A slot contains an id plus one and the hash of the entry, so growing
 * an index never touches the entries. An insertion has two steps: prepare() looks the contents up
 * and reserves room for one more entry; commit(), which cannot fail, makes the entry visible. In
 * between the caller fills the entry in at the end of its table.
 *
 * Example: profile_string("main"). prepare() hashes the bytes to 0x...2a and looks at slot 0x2a &
 * mask. The slot contains the id of another string with the same hash, so its bytes are compared,
 * and the next slot is looked at: it is free. The caller appends a copy of "main", commit() writes
 * its id plus one to the free slot. The next profile_string("main") ends at that slot and returns
 * the id.
 */
#include "exporter/model/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/escape.h"
#include "common/utf8.h"

#define STRING_BYTES_MAX 4096
#define INDEX_SLOTS_MIN 64
#define TABLE_ENTRIES_MIN 16
/* Indexes are int32 in OTLP. */
#define TABLE_ENTRIES_MAX INT32_MAX
/* The part of a sample that identifies its entry: see struct profile_sample. */
#define SAMPLE_KEY_BYTES offsetof(struct profile_sample, first_time)
/* What malloc() needs for each string in addition, so that many short strings are accounted for. */
#define ALLOCATION_BYTES 16

enum table {
	TABLE_STRINGS,
	TABLE_MAPPINGS,
	TABLE_FUNCTIONS,
	TABLE_LOCATIONS,
	TABLE_STACKS,
	TABLE_PROCESSES,
	TABLE_THREADS,
	TABLE_SAMPLES,
	TABLES,
};

struct slot {
	uint32_t hash;
	uint32_t id_plus_one; /* 0: free */
};

struct profile_index {
	uint64_t seed;
	uint32_t slots_count; /* a power of two */
	uint32_t used;
	struct slot slots[];
};

_Static_assert(sizeof(((struct profile *)0)->indexes) / sizeof(struct profile_index *) == TABLES,
	       "an index for each table");
_Static_assert(sizeof(struct profile_location) == 32 && sizeof(struct profile_process) == 96 &&
		   SAMPLE_KEY_BYTES == 16,
	       "compared as bytes: no padding");

/* The bytes that identify an entry. */
struct contents {
	const void *data;
	size_t length;
};

static size_t string_length(const char *text)
{
	uint32_t length;

	memcpy(&length, text - sizeof(length), sizeof(length));
	return length;
}

size_t profile_string_length(const struct profile *profile, uint32_t string)
{
	return string_length(profile->strings[string]);
}

static struct contents entry_contents(const struct profile *p, enum table table, uint32_t n)
{
	switch (table) {
	case TABLE_STRINGS:
		return (struct contents){p->strings[n], string_length(p->strings[n])};
	case TABLE_MAPPINGS:
		return (struct contents){&p->mappings[n], sizeof(p->mappings[n])};
	case TABLE_FUNCTIONS:
		return (struct contents){&p->functions[n], sizeof(p->functions[n])};
	case TABLE_LOCATIONS:
		return (struct contents){&p->locations[n], sizeof(p->locations[n])};
	case TABLE_STACKS:
		return (struct contents){
		    p->stack_locations ? p->stack_locations + p->stacks[n].first : NULL,
		    p->stacks[n].count * sizeof(uint32_t)};
	case TABLE_PROCESSES:
		return (struct contents){&p->processes[n], sizeof(p->processes[n])};
	case TABLE_THREADS:
		return (struct contents){&p->threads[n], sizeof(p->threads[n])};
	case TABLE_SAMPLES: /* without the count */
		return (struct contents){&p->samples[n], SAMPLE_KEY_BYTES};
	case TABLES:
		break;
	}
	return (struct contents){NULL, 0};
}

static bool bytes_fit(const struct profile *profile, size_t bytes)
{
	return profile->bytes <= profile->bytes_max && bytes <= profile->bytes_max - profile->bytes;
}

/* Reserves room for `extra` more entries in a table; *items and *capacity change only on success.
 * common/array.h is not used, because the growth counts against the cap of the profile. */
static int table_reserve(struct profile *profile, void **items, uint32_t count, uint32_t *capacity,
			 uint32_t extra, size_t entry_bytes)
{
	if (extra <= *capacity - count)
		return 0;
	if (extra > TABLE_ENTRIES_MAX - count)
		return -ENOSPC;

	uint64_t wanted = *capacity < TABLE_ENTRIES_MIN / 2 ? TABLE_ENTRIES_MIN : *capacity * 2ULL;
	if (wanted < count + extra)
		wanted = count + extra;
	if (wanted > TABLE_ENTRIES_MAX)
		wanted = TABLE_ENTRIES_MAX;
	size_t more_bytes = (size_t)(wanted - *capacity) * entry_bytes;
	if (!bytes_fit(profile, more_bytes))
		return -ENOSPC;
	void *grown = reallocarray(*items, (size_t)wanted, entry_bytes);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	*capacity = (uint32_t)wanted;
	profile->bytes += more_bytes;
	return 0;
}

#define RESERVE(profile, name, extra)                                                              \
	table_reserve(profile, (void **)&(profile)->name, (profile)->name##_count,                 \
		      &(profile)->name##_capacity, extra, sizeof(*(profile)->name))

static int reserve_entry(struct profile *profile, enum table table)
{
	switch (table) {
	case TABLE_STRINGS:
		return RESERVE(profile, strings, 1);
	case TABLE_MAPPINGS:
		return RESERVE(profile, mappings, 1);
	case TABLE_FUNCTIONS:
		return RESERVE(profile, functions, 1);
	case TABLE_LOCATIONS:
		return RESERVE(profile, locations, 1);
	case TABLE_STACKS:
		return RESERVE(profile, stacks, 1);
	case TABLE_PROCESSES:
		return RESERVE(profile, processes, 1);
	case TABLE_THREADS:
		return RESERVE(profile, threads, 1);
	case TABLE_SAMPLES:
		return RESERVE(profile, samples, 1);
	case TABLES:
		break;
	}
	return -EINVAL;
}

static void index_insert(struct profile_index *index, uint32_t hash, uint32_t id)
{
	uint32_t mask = index->slots_count - 1;
	uint32_t at = hash & mask;

	while (index->slots[at].id_plus_one)
		at = (at + 1) & mask;
	index->slots[at] = (struct slot){hash, id + 1};
	index->used++;
}

static size_t index_bytes(uint32_t slots_count)
{
	return sizeof(struct profile_index) + slots_count * sizeof(struct slot);
}

/* Reserves one more slot. A quarter of the slots stays free, so that the runs of occupied slots
 * stay short. */
static int index_reserve(struct profile *profile, struct profile_index **slot)
{
	struct profile_index *old = *slot;

	if (old && (old->used + 1ULL) * 4 <= old->slots_count * 3ULL)
		return 0;
	if (old && old->slots_count > UINT32_MAX / 2)
		return -ENOSPC;

	uint32_t slots_count = old ? old->slots_count * 2 : INDEX_SLOTS_MIN;
	size_t more_bytes = index_bytes(slots_count) - (old ? index_bytes(old->slots_count) : 0);
	if (!bytes_fit(profile, more_bytes))
		return -ENOSPC;
	struct profile_index *index = calloc(1, index_bytes(slots_count));
	if (!index)
		return -ENOMEM;
	index->slots_count = slots_count;
	/* Names come from profiled processes. These cannot know the address of the index, so they
	 * cannot choose names that all fall into one slot. */
	index->seed = old ? old->seed : (uintptr_t)index;
	for (uint32_t i = 0; old && i < old->slots_count; i++) {
		if (old->slots[i].id_plus_one)
			index_insert(index, old->slots[i].hash, old->slots[i].id_plus_one - 1);
	}
	free(old);
	*slot = index;
	profile->bytes += more_bytes;
	return 0;
}

static uint32_t hash_contents(const struct profile_index *index, struct contents contents)
{
	uint64_t hash = XXH3_64bits_withSeed(contents.length ? contents.data : "", contents.length,
					     index->seed);

	return (uint32_t)(hash ^ hash >> 32);
}

/* Finds the entry with these contents. The index must exist. */
static bool find(const struct profile *profile, enum table table, struct contents contents,
		 uint32_t hash, uint32_t *id)
{
	const struct profile_index *index = profile->indexes[table];
	uint32_t mask = index->slots_count - 1;

	for (uint32_t at = hash & mask; index->slots[at].id_plus_one; at = (at + 1) & mask) {
		if (index->slots[at].hash != hash)
			continue;
		uint32_t candidate = index->slots[at].id_plus_one - 1;
		struct contents have = entry_contents(profile, table, candidate);
		if (have.length == contents.length &&
		    (!have.length || !memcmp(have.data, contents.data, have.length))) {
			*id = candidate;
			return true;
		}
	}
	return false;
}

/* Looks the contents up. Returns 1 and sets `id` if there is such an entry. Returns 0 if there is
 * none: then an entry and a slot are reserved, and the caller fills the entry in at the end of its
 * table and calls commit(). Otherwise returns a negative errno. */
static int prepare(struct profile *profile, enum table table, struct contents contents,
		   uint32_t *id, uint32_t *hash)
{
	struct profile_index **slot = &profile->indexes[table];
	int r;

	if (!*slot) {
		r = index_reserve(profile, slot);
		if (r < 0)
			return r;
	}
	uint32_t wanted = hash_contents(*slot, contents);
	if (find(profile, table, contents, wanted, id))
		return 1;
	r = index_reserve(profile, slot);
	if (r < 0)
		return r;
	r = reserve_entry(profile, table);
	if (r < 0)
		return r;
	*hash = wanted;
	return 0;
}

static void commit(struct profile *profile, enum table table, uint32_t hash, uint32_t *count,
		   uint32_t *id)
{
	index_insert(profile->indexes[table], hash, *count);
	*id = (*count)++;
}

#define INTERN(profile, table, name, entry, id)                                                    \
	({                                                                                         \
		uint32_t _hash;                                                                    \
		int _r = prepare(profile, table, (struct contents){entry, sizeof(*(entry))}, id,   \
				 &_hash);                                                          \
		if (_r == 0) {                                                                     \
			(profile)->name[(profile)->name##_count] = *(entry);                       \
			commit(profile, table, _hash, &(profile)->name##_count, id);               \
		}                                                                                  \
		_r < 0 ? _r : 0;                                                                   \
	})

static int intern_clean(struct profile *profile, const char *text, size_t length, uint32_t *id)
{
	uint32_t hash;

	int r = prepare(profile, TABLE_STRINGS, (struct contents){text, length}, id, &hash);
	if (r)
		return r < 0 ? r : 0;

	uint32_t prefix = (uint32_t)length;
	size_t bytes = sizeof(prefix) + length + 1;
	if (!bytes_fit(profile, bytes + ALLOCATION_BYTES))
		return -ENOSPC;
	char *copy = malloc(bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, &prefix, sizeof(prefix));
	if (length)
		memcpy(copy + sizeof(prefix), text, length);
	copy[sizeof(prefix) + length] = '\0';
	profile->bytes += bytes + ALLOCATION_BYTES;
	profile->strings[profile->strings_count] = copy + sizeof(prefix);
	commit(profile, TABLE_STRINGS, hash, &profile->strings_count, id);
	return 0;
}

int profile_string(struct profile *profile, const char *text, size_t length, uint32_t *id)
{
	char clean[STRING_BYTES_MAX + 1];

	if (length <= STRING_BYTES_MAX && utf8_is_valid(text, length, UTF8_PRINTABLE))
		return intern_clean(profile, text, length, id);
	length = escape_text(clean, sizeof(clean), text, length, ESCAPE_KEEP_PRINTABLE, NULL);
	return intern_clean(profile, clean, length, id);
}

uint32_t profile_find_string(const struct profile *profile, const char *text)
{
	struct contents contents = {text, strlen(text)};
	uint32_t hash = hash_contents(profile->indexes[TABLE_STRINGS], contents), id;

	return find(profile, TABLE_STRINGS, contents, hash, &id) ? id : 0;
}

int profile_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *id)
{
	uint32_t strings = profile->strings_count;

	if (mapping->filename >= strings || mapping->gnu_build_id >= strings ||
	    mapping->htlhash >= strings || mapping->go_build_id >= strings)
		return -EINVAL;
	return INTERN(profile, TABLE_MAPPINGS, mappings, mapping, id);
}

int profile_function(struct profile *profile, const struct profile_function *function, uint32_t *id)
{
	uint32_t strings = profile->strings_count;

	if (function->name >= strings || function->system_name >= strings ||
	    function->filename >= strings)
		return -EINVAL;
	return INTERN(profile, TABLE_FUNCTIONS, functions, function, id);
}

/* Returns whether a location may have this caller: a frame of the same kind at the same address,
 * with few enough callers of its own. */
static bool caller_is_valid(const struct profile *profile, const struct profile_location *location)
{
	uint32_t id = location->caller;

	if (id >= profile->locations_count)
		return false;
	const struct profile_location *caller = &profile->locations[id];
	if (caller->mapping != location->mapping || caller->address != location->address ||
	    caller->kind != location->kind)
		return false;
	for (unsigned int count = 2; (id = profile->locations[id].caller); count++) {
		if (count == PROFILE_INLINED_MAX)
			return false;
	}
	return true;
}

int profile_location(struct profile *profile, const struct profile_location *location, uint32_t *id)
{
	static const struct profile_location none;

	if (location->mapping >= profile->mappings_count ||
	    location->function >= profile->functions_count ||
	    location->kind >= profile->strings_count)
		return -EINVAL;
	if (!location->kind && memcmp(location, &none, sizeof(none)) != 0)
		return -EINVAL;
	if (location->caller && !caller_is_valid(profile, location))
		return -EINVAL;
	profile->inlined |= location->caller != 0;
	return INTERN(profile, TABLE_LOCATIONS, locations, location, id);
}

/* Returns whether the caller of each inlined function comes next. */
static bool callers_follow(const struct profile *profile, const uint32_t *locations, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t caller = profile->locations[locations[i]].caller;

		if (caller && (i + 1 == count || locations[i + 1] != caller))
			return false;
	}
	return true;
}

int profile_stack(struct profile *profile, const uint32_t *locations, uint32_t count, uint32_t *id)
{
	uint32_t hash;

	for (uint32_t i = 0; i < count; i++) {
		if (locations[i] >= profile->locations_count)
			return -EINVAL;
	}
	if (profile->inlined && !callers_follow(profile, locations, count))
		return -EINVAL;
	struct contents contents = {locations, count * sizeof(*locations)};
	int r = prepare(profile, TABLE_STACKS, contents, id, &hash);
	if (r)
		return r < 0 ? r : 0;
	r = RESERVE(profile, stack_locations, count);
	if (r < 0)
		return r;
	if (count)
		memcpy(profile->stack_locations + profile->stack_locations_count, locations,
		       contents.length);
	profile->stacks[profile->stacks_count] = (struct profile_stack){
	    .first = profile->stack_locations_count,
	    .count = count,
	};
	profile->stack_locations_count += count;
	commit(profile, TABLE_STACKS, hash, &profile->stacks_count, id);
	return 0;
}

int profile_process(struct profile *profile, const struct profile_process *process, uint32_t *id)
{
	const uint32_t strings = profile->strings_count;

	if (process->name >= strings || process->path >= strings ||
	    process->container_id >= strings || process->service_name >= strings)
		return -EINVAL;
	for (int i = 0; i < PROFILE_VARIABLES_MAX; i++) {
		if (process->variables[i].name >= strings || process->variables[i].value >= strings)
			return -EINVAL;
	}
	return INTERN(profile, TABLE_PROCESSES, processes, process, id);
}

int profile_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *id)
{
	if (thread->process >= profile->processes_count || thread->name >= profile->strings_count)
		return -EINVAL;
	return INTERN(profile, TABLE_THREADS, threads, thread, id);
}

/* Finds or creates the entry of these samples and adds `count` to it. */
static int sample_add(struct profile *profile, struct profile_sample key, uint64_t count,
		      uint32_t *id)
{
	uint32_t hash;

	if (key.thread >= profile->threads_count || key.stack >= profile->stacks_count)
		return -EINVAL;
	if (count > INT64_MAX - profile->sample_count)
		return -EOVERFLOW;
	int r =
	    prepare(profile, TABLE_SAMPLES, (struct contents){&key, SAMPLE_KEY_BYTES}, id, &hash);
	if (r < 0)
		return r;
	if (r == 0) {
		profile->samples[profile->samples_count] = key;
		commit(profile, TABLE_SAMPLES, hash, &profile->samples_count, id);
	}
	profile->samples[*id].count += count;
	profile->sample_count += count;
	return 0;
}

int profile_add(struct profile *profile, uint32_t thread, uint32_t stack, uint64_t count)
{
	return profile_add_on(profile, thread, stack, PROFILE_CPU_UNKNOWN, count);
}

int profile_add_on(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t count)
{
	const struct profile_sample key = {.thread = thread, .stack = stack, .cpu = cpu};
	uint32_t id;

	if (!count)
		return thread < profile->threads_count && stack < profile->stacks_count ? 0
											: -EINVAL;
	return sample_add(profile, key, count, &id);
}

int profile_add_at(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t time_ns)
{
	const struct profile_sample key = {
	    .thread = thread, .stack = stack, .cpu = cpu, .timed = 1};
	uint32_t id;

	int r = RESERVE(profile, times, 1);
	if (!r)
		r = sample_add(profile, key, 1, &id);
	if (r < 0)
		return r;
	struct profile_sample *sample = &profile->samples[id];
	profile->times[profile->times_count++] = (struct profile_time){.time_ns = time_ns};
	if (sample->last_time)
		profile->times[sample->last_time - 1].next = profile->times_count;
	else
		sample->first_time = profile->times_count;
	sample->last_time = profile->times_count;
	return 0;
}

void profile_clear_samples(struct profile *profile)
{
	struct profile_index *index = profile->indexes[TABLE_SAMPLES];

	if (index) {
		memset(index->slots, 0, index->slots_count * sizeof(index->slots[0]));
		index->used = 0;
	}
	profile->samples_count = profile->times_count = 0;
	profile->sample_count = 0;
}

static int intern_nones(struct profile *profile)
{
	uint32_t id;

	int r = profile_string(profile, "", 0, &id);
	if (r == 0)
		r = profile_mapping(profile, &(struct profile_mapping){0}, &id);
	if (r == 0)
		r = profile_function(profile, &(struct profile_function){0}, &id);
	if (r == 0)
		r = profile_location(profile, &(struct profile_location){0}, &id);
	if (r == 0)
		r = profile_stack(profile, NULL, 0, &id);
	if (r == 0)
		r = profile_process(profile, &(struct profile_process){0}, &id);
	if (r == 0)
		r = profile_thread(profile, &(struct profile_thread){0}, &id);
	return r;
}

int profile_init(struct profile *profile, size_t bytes_max)
{
	/* The "none" entries exist whatever the cap is. */
	struct profile fresh = {.bytes_max = SIZE_MAX};

	int r = intern_nones(&fresh);
	if (r < 0) {
		profile_fini(&fresh);
		return -ENOMEM;
	}
	fresh.bytes_max = bytes_max;
	*profile = fresh;
	return 0;
}

void profile_fini(struct profile *profile)
{
	for (uint32_t i = 0; i < profile->strings_count; i++)
		free(profile->strings[i] - sizeof(uint32_t));
	free(profile->strings);
	free(profile->mappings);
	free(profile->functions);
	free(profile->locations);
	free(profile->stack_locations);
	free(profile->stacks);
	free(profile->processes);
	free(profile->threads);
	free(profile->samples);
	free(profile->times);
	for (size_t i = 0; i < TABLES; i++)
		free(profile->indexes[i]);
	memset(profile, 0, sizeof(*profile));
}

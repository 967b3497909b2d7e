/* SPDX-License-Identifier: Apache-2.0 */
/* How the tables work: see profile_tables.h. */
#include "exporter/model/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/escape.h"
#include "common/utf8.h"
#include "exporter/model/profile_tables.h"

#define STRING_BYTES_MAX 4096
/* What malloc() needs for each string in addition, so that many short strings are accounted for. */
#define ALLOCATION_BYTES 16

size_t profile_string_length(const struct profile *profile, uint32_t string)
{
	return profile_text_length(profile->strings[string]);
}

static int intern_clean(struct profile *profile, const char *text, size_t length, uint32_t *id)
{
	uint32_t hash;

	int r = profile_prepare(profile, TABLE_STRINGS, (struct profile_contents){text, length}, id,
				&hash);
	if (r)
		return r < 0 ? r : 0;

	uint32_t prefix = (uint32_t)length;
	size_t bytes = sizeof(prefix) + length + 1;
	if (!profile_bytes_fit(profile, bytes + ALLOCATION_BYTES))
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
	profile_commit(profile, TABLE_STRINGS, hash, &profile->strings_count, id);
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
	uint32_t id;

	return profile_find(profile, TABLE_STRINGS, (struct profile_contents){text, strlen(text)},
			    &id)
		   ? id
		   : 0;
}

int profile_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *id)
{
	uint32_t strings = profile->strings_count;

	if (mapping->filename >= strings || mapping->gnu_build_id >= strings ||
	    mapping->htlhash >= strings || mapping->go_build_id >= strings)
		return -EINVAL;
	return PROFILE_INTERN(profile, TABLE_MAPPINGS, mappings, mapping, id);
}

int profile_function(struct profile *profile, const struct profile_function *function, uint32_t *id)
{
	uint32_t strings = profile->strings_count;

	if (function->name >= strings || function->system_name >= strings ||
	    function->filename >= strings)
		return -EINVAL;
	return PROFILE_INTERN(profile, TABLE_FUNCTIONS, functions, function, id);
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
	return PROFILE_INTERN(profile, TABLE_LOCATIONS, locations, location, id);
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
	struct profile_contents contents = {locations, count * sizeof(*locations)};
	int r = profile_prepare(profile, TABLE_STACKS, contents, id, &hash);
	if (r)
		return r < 0 ? r : 0;
	r = PROFILE_RESERVE(profile, stack_locations, count);
	if (r < 0)
		return r;
	if (count)
		memcpy(profile->stack_locations + profile->stack_locations_count, locations,
		       contents.length);
	profile->stacks[profile->stacks_count] = (struct profile_stack){
	    .first = profile->stack_locations_count,
	    .count = count,
	    .plain = profile->stacks_count,
	};
	profile->stack_locations_count += count;
	profile_commit(profile, TABLE_STACKS, hash, &profile->stacks_count, id);
	return 0;
}

int profile_labelled_stack(struct profile *profile, uint32_t stack, uint32_t labels, uint32_t *id)
{
	uint32_t hash;

	if (stack >= profile->stacks_count || labels >= profile->label_sets_count)
		return -EINVAL;
	struct profile_stack wanted = profile->stacks[profile->stacks[stack].plain];
	if (!labels) {
		*id = wanted.plain;
		return 0;
	}
	wanted.labels = labels;
	int r = profile_prepare(profile, TABLE_LABELLED_STACKS,
				(struct profile_contents){&wanted.plain, LABELLED_KEY_BYTES}, id,
				&hash);
	if (r)
		return r < 0 ? r : 0;
	profile->stacks[profile->stacks_count] = wanted;
	profile_commit(profile, TABLE_LABELLED_STACKS, hash, &profile->stacks_count, id);
	return 0;
}

int profile_label(struct profile *profile, const char *key, size_t key_length, uint32_t value,
		  uint32_t *id)
{
	struct profile_label label = {.value = value};
	char attribute[STRING_BYTES_MAX];

	if (value >= profile->strings_count)
		return -EINVAL;
	if (key_length > STRING_BYTES_MAX - strlen(PROFILE_LABEL_PREFIX))
		key_length = STRING_BYTES_MAX - strlen(PROFILE_LABEL_PREFIX);
	memcpy(attribute, PROFILE_LABEL_PREFIX, strlen(PROFILE_LABEL_PREFIX));
	memcpy(attribute + strlen(PROFILE_LABEL_PREFIX), key, key_length);
	int r = profile_string(profile, key, key_length, &label.key);
	if (!r)
		r = profile_string(profile, attribute, strlen(PROFILE_LABEL_PREFIX) + key_length,
				   &label.attribute);
	return r ? r : PROFILE_INTERN(profile, TABLE_LABELS, labels, &label, id);
}

static bool set_has_key(const struct profile *profile, const struct profile_label_set *set,
			uint32_t key)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (profile->labels[set->labels[i]].key == key)
			return true;
	}
	return false;
}

static int compare_ids(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int profile_label_set(struct profile *profile, const uint32_t *labels, uint32_t count, uint32_t *id)
{
	struct profile_label_set set = {.count = 0};

	for (uint32_t i = 0; i < count; i++) {
		if (labels[i] >= profile->labels_count)
			return -EINVAL;
		if (set.count < PROFILE_LABELS_MAX &&
		    !set_has_key(profile, &set, profile->labels[labels[i]].key))
			set.labels[set.count++] = labels[i];
	}
	qsort(set.labels, set.count, sizeof(set.labels[0]), compare_ids);
	return PROFILE_INTERN(profile, TABLE_LABEL_SETS, label_sets, &set, id);
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
	return PROFILE_INTERN(profile, TABLE_PROCESSES, processes, process, id);
}

int profile_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *id)
{
	if (thread->process >= profile->processes_count || thread->name >= profile->strings_count)
		return -EINVAL;
	return PROFILE_INTERN(profile, TABLE_THREADS, threads, thread, id);
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
	int r = profile_prepare(profile, TABLE_SAMPLES,
				(struct profile_contents){&key, SAMPLE_KEY_BYTES}, id, &hash);
	if (r < 0)
		return r;
	if (r == 0) {
		profile->samples[profile->samples_count] = key;
		profile_commit(profile, TABLE_SAMPLES, hash, &profile->samples_count, id);
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

	int r = PROFILE_RESERVE(profile, times, 1);
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
	profile_index_reset(profile, TABLE_SAMPLES);
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
		r = PROFILE_INTERN(profile, TABLE_LABELS, labels, &(struct profile_label){0}, &id);
	if (r == 0)
		r = profile_label_set(profile, NULL, 0, &id);
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
	free(profile->labels);
	free(profile->label_sets);
	free(profile->processes);
	free(profile->threads);
	free(profile->samples);
	free(profile->times);
	for (size_t i = 0; i < TABLES; i++)
		free(profile->indexes[i]);
	memset(profile, 0, sizeof(*profile));
}

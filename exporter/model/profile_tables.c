/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see profile_tables.h. */
#include "exporter/model/profile_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define INDEX_SLOTS_MIN 64
#define TABLE_ENTRIES_MIN 16
/* Indexes are int32 in OTLP. */
#define TABLE_ENTRIES_MAX INT32_MAX

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
		   SAMPLE_KEY_BYTES == 16 && LABELLED_KEY_BYTES == 8,
	       "compared as bytes: no padding");

static struct profile_contents entry_contents(const struct profile *p, enum profile_table table,
					      uint32_t n)
{
	switch (table) {
	case TABLE_STRINGS:
		return (struct profile_contents){p->strings[n], profile_text_length(p->strings[n])};
	case TABLE_MAPPINGS:
		return (struct profile_contents){&p->mappings[n], sizeof(p->mappings[n])};
	case TABLE_FUNCTIONS:
		return (struct profile_contents){&p->functions[n], sizeof(p->functions[n])};
	case TABLE_LOCATIONS:
		return (struct profile_contents){&p->locations[n], sizeof(p->locations[n])};
	case TABLE_STACKS:
		return (struct profile_contents){
		    p->stack_locations ? p->stack_locations + p->stacks[n].first : NULL,
		    p->stacks[n].count * sizeof(uint32_t)};
	case TABLE_LABELLED_STACKS:
		return (struct profile_contents){&p->stacks[n].plain, LABELLED_KEY_BYTES};
	case TABLE_LABELS:
		return (struct profile_contents){&p->labels[n], sizeof(p->labels[n])};
	case TABLE_LABEL_SETS:
		return (struct profile_contents){&p->label_sets[n], sizeof(p->label_sets[n])};
	case TABLE_PROCESSES:
		return (struct profile_contents){&p->processes[n], sizeof(p->processes[n])};
	case TABLE_THREADS:
		return (struct profile_contents){&p->threads[n], sizeof(p->threads[n])};
	case TABLE_SAMPLES: /* without the count */
		return (struct profile_contents){&p->samples[n], SAMPLE_KEY_BYTES};
	case TABLES:
		break;
	}
	return (struct profile_contents){NULL, 0};
}

/* common/array.h is not used, because the growth counts against the cap of the profile. */
int profile_table_reserve(struct profile *profile, void **items, uint32_t count, uint32_t *capacity,
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
	if (!profile_bytes_fit(profile, more_bytes))
		return -ENOSPC;
	void *grown = reallocarray(*items, (size_t)wanted, entry_bytes);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	*capacity = (uint32_t)wanted;
	profile->bytes += more_bytes;
	return 0;
}

static int reserve_entry(struct profile *profile, enum profile_table table)
{
	switch (table) {
	case TABLE_STRINGS:
		return PROFILE_RESERVE(profile, strings, 1);
	case TABLE_MAPPINGS:
		return PROFILE_RESERVE(profile, mappings, 1);
	case TABLE_FUNCTIONS:
		return PROFILE_RESERVE(profile, functions, 1);
	case TABLE_LOCATIONS:
		return PROFILE_RESERVE(profile, locations, 1);
	case TABLE_STACKS:
	case TABLE_LABELLED_STACKS:
		return PROFILE_RESERVE(profile, stacks, 1);
	case TABLE_LABELS:
		return PROFILE_RESERVE(profile, labels, 1);
	case TABLE_LABEL_SETS:
		return PROFILE_RESERVE(profile, label_sets, 1);
	case TABLE_PROCESSES:
		return PROFILE_RESERVE(profile, processes, 1);
	case TABLE_THREADS:
		return PROFILE_RESERVE(profile, threads, 1);
	case TABLE_SAMPLES:
		return PROFILE_RESERVE(profile, samples, 1);
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
	if (!profile_bytes_fit(profile, more_bytes))
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

static uint32_t hash_contents(const struct profile_index *index, struct profile_contents contents)
{
	uint64_t hash = XXH3_64bits_withSeed(contents.length ? contents.data : "", contents.length,
					     index->seed);

	return (uint32_t)(hash ^ hash >> 32);
}

/* Finds the entry with these contents. The index must exist. */
static bool find_hashed(const struct profile *profile, enum profile_table table,
			struct profile_contents contents, uint32_t hash, uint32_t *id)
{
	const struct profile_index *index = profile->indexes[table];
	uint32_t mask = index->slots_count - 1;

	for (uint32_t at = hash & mask; index->slots[at].id_plus_one; at = (at + 1) & mask) {
		if (index->slots[at].hash != hash)
			continue;
		uint32_t candidate = index->slots[at].id_plus_one - 1;
		struct profile_contents have = entry_contents(profile, table, candidate);
		if (have.length == contents.length &&
		    (!have.length || !memcmp(have.data, contents.data, have.length))) {
			*id = candidate;
			return true;
		}
	}
	return false;
}

int profile_prepare(struct profile *profile, enum profile_table table,
		    struct profile_contents contents, uint32_t *id, uint32_t *hash)
{
	struct profile_index **slot = &profile->indexes[table];
	int r;

	if (!*slot) {
		r = index_reserve(profile, slot);
		if (r < 0)
			return r;
	}
	uint32_t wanted = hash_contents(*slot, contents);
	if (find_hashed(profile, table, contents, wanted, id))
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

void profile_commit(struct profile *profile, enum profile_table table, uint32_t hash,
		    uint32_t *count, uint32_t *id)
{
	index_insert(profile->indexes[table], hash, *count);
	*id = (*count)++;
}

bool profile_find(const struct profile *profile, enum profile_table table,
		  struct profile_contents contents, uint32_t *id)
{
	return find_hashed(profile, table, contents,
			   hash_contents(profile->indexes[table], contents), id);
}

void profile_index_reset(struct profile *profile, enum profile_table table)
{
	struct profile_index *index = profile->indexes[table];

	if (!index)
		return;
	memset(index->slots, 0, index->slots_count * sizeof(index->slots[0]));
	index->used = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a profile. Private to profile.c.
 *
 * How this works. Equal entries are stored once: they are interned. For this, each table has an
 * open-addressing hash index. A slot contains an id plus one and the hash of the entry, so growing
 * an index never touches the entries. An insertion has two steps: profile_prepare() looks the
 * contents up and reserves room for one more entry; profile_commit(), which cannot fail, makes the
 * entry visible. In between the caller fills the entry in at the end of its table.
 *
 * Example: profile_string("main"). profile_prepare() hashes the bytes to 0x...2a and looks at slot
 * 0x2a & mask. The slot contains the id of another string with the same hash, so its bytes are
 * compared, and the next slot is looked at: it is free. The caller appends a copy of "main",
 * profile_commit() writes its id plus one to the free slot. The next profile_string("main") ends at
 * that slot and returns the id.
 */
#ifndef EXPORTER_MODEL_PROFILE_TABLES_H
#define EXPORTER_MODEL_PROFILE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exporter/model/profile_types.h"

/* The part of a sample that identifies its entry: see struct profile_sample. */
#define SAMPLE_KEY_BYTES offsetof(struct profile_sample, first_time)
/* The part of a stack that identifies one with labels, from `plain` on. */
#define LABELLED_KEY_BYTES (sizeof(struct profile_stack) - offsetof(struct profile_stack, plain))

enum profile_table {
	TABLE_STRINGS,
	TABLE_MAPPINGS,
	TABLE_FUNCTIONS,
	TABLE_LOCATIONS,
	TABLE_STACKS,
	TABLE_LABELLED_STACKS, /* of the same entries, those with labels */
	TABLE_LABELS,
	TABLE_LABEL_SETS,
	TABLE_PROCESSES,
	TABLE_THREADS,
	TABLE_SAMPLES,
	TABLES,
};

/* The bytes that identify an entry. */
struct profile_contents {
	const void *data;
	size_t length;
};

/* Returns the length of a string of the profile, which is stored before it. */
static inline size_t profile_text_length(const char *text)
{
	uint32_t length;

	memcpy(&length, text - sizeof(length), sizeof(length));
	return length;
}

/* Returns whether the profile may take this many more bytes. */
static inline bool profile_bytes_fit(const struct profile *profile, size_t bytes)
{
	return profile->bytes <= profile->bytes_max && bytes <= profile->bytes_max - profile->bytes;
}

/* Reserves room for `extra` more entries in a table; *items and *capacity change only on success.
 * Returns 0, -ENOSPC or -ENOMEM. */
int profile_table_reserve(struct profile *profile, void **items, uint32_t count, uint32_t *capacity,
			  uint32_t extra, size_t entry_bytes);

#define PROFILE_RESERVE(profile, name, extra)                                                      \
	profile_table_reserve(profile, (void **)&(profile)->name, (profile)->name##_count,         \
			      &(profile)->name##_capacity, extra, sizeof(*(profile)->name))

/* Finds the entry with these contents. The table must have an entry. */
bool profile_find(const struct profile *profile, enum profile_table table,
		  struct profile_contents contents, uint32_t *id);

/* Looks the contents up. Returns 1 and sets `id` if there is such an entry. Returns 0 if there is
 * none: then an entry and a slot are reserved, and the caller fills the entry in at the end of its
 * table and calls profile_commit(). Otherwise returns a negative errno. */
int profile_prepare(struct profile *profile, enum profile_table table,
		    struct profile_contents contents, uint32_t *id, uint32_t *hash);
void profile_commit(struct profile *profile, enum profile_table table, uint32_t hash,
		    uint32_t *count, uint32_t *id);

/* Empties the index of a table, whose entries the caller removes. */
void profile_index_reset(struct profile *profile, enum profile_table table);

/* Interns a table's entry of fixed size. Returns 0 or a negative errno. */
#define PROFILE_INTERN(profile, table, name, entry, id)                                            \
	({                                                                                         \
		uint32_t _hash;                                                                    \
		int _r = profile_prepare(profile, table,                                           \
					 (struct profile_contents){entry, sizeof(*(entry))}, id,   \
					 &_hash);                                                  \
		if (_r == 0) {                                                                     \
			(profile)->name[(profile)->name##_count] = *(entry);                       \
			profile_commit(profile, table, _hash, &(profile)->name##_count, id);       \
		}                                                                                  \
		_r < 0 ? _r : 0;                                                                   \
	})

#endif

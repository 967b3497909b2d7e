/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see quarantine.h. */
#include "symbolizer/opener/quarantine.h"

#include "common/time_units.h"

bool opening_is_without_disk(const struct opening *opening)
{
	return opening->kind == OPENING_FILE && opening->file.device_major == 0;
}

static uint64_t device_of(const struct opening *opening)
{
	return (uint64_t)opening->file.device_major << 32 | opening->file.device_minor;
}

/* Returns the index of an entry, or -1. */
static int find(const struct quarantine *quarantine, enum quarantine_what what, uint64_t key)
{
	for (int i = 0; i < QUARANTINE_ENTRIES; i++) {
		if (quarantine->entries[i].what == what && quarantine->entries[i].key == key)
			return i;
	}
	return -1;
}

/* Returns the entry of this kind and key, or a new one, in the place of the one that ends first. */
static struct quarantine_entry *find_or_add(struct quarantine *quarantine,
					    enum quarantine_what what, uint64_t key)
{
	struct quarantine_entry *entries = quarantine->entries;
	int found = find(quarantine, what, key);

	if (found < 0) {
		found = 0;
		for (int i = 1; i < QUARANTINE_ENTRIES; i++) {
			if (entries[i].until_ns < entries[found].until_ns)
				found = i;
		}
		entries[found] = (struct quarantine_entry){.what = what, .key = key};
	}
	return &entries[found];
}

static unsigned int add(struct quarantine *quarantine, enum quarantine_what what, uint64_t key,
			uint64_t now_ns)
{
	struct quarantine_entry *entry = find_or_add(quarantine, what, key);
	unsigned int seconds = QUARANTINE_FIRST_S;

	for (unsigned int i = 0; i < entry->times && seconds < QUARANTINE_LONGEST_S; i++)
		seconds *= QUARANTINE_FACTOR;
	if (seconds > QUARANTINE_LONGEST_S)
		seconds = QUARANTINE_LONGEST_S;
	entry->times++;
	entry->until_ns = now_ns + seconds * NS_PER_S;
	return seconds;
}

unsigned int quarantine_add(struct quarantine *quarantine, const struct opening *opening,
			    uint64_t now_ns)
{
	const unsigned int seconds = add(quarantine, QUARANTINE_PROCESS, opening->tgid, now_ns);

	if (opening_is_without_disk(opening))
		add(quarantine, QUARANTINE_DEVICE, device_of(opening), now_ns);
	if (opening->uid && opening->uid != MSG_UID_UNKNOWN)
		add(quarantine, QUARANTINE_USER, opening->uid, now_ns);
	return seconds;
}

/* Returns whether something was the cause at least `times` times, and its time is not over. */
static bool is_active(const struct quarantine *quarantine, enum quarantine_what what, uint64_t key,
		      unsigned int times, uint64_t now_ns)
{
	const int found = find(quarantine, what, key);

	return found >= 0 && quarantine->entries[found].times >= times &&
	       now_ns < quarantine->entries[found].until_ns;
}

bool quarantine_has(const struct quarantine *quarantine, const struct opening *opening,
		    uint64_t now_ns)
{
	const bool without_disk = opening_is_without_disk(opening);

	return is_active(quarantine, QUARANTINE_PROCESS, opening->tgid, 1, now_ns) ||
	       (without_disk &&
		is_active(quarantine, QUARANTINE_DEVICE, device_of(opening), 1, now_ns)) ||
	       is_active(quarantine, QUARANTINE_USER, opening->uid,
			 without_disk ? QUARANTINE_USER_FILES : QUARANTINE_USER_ALL, now_ns);
}

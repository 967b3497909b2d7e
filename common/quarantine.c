/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see quarantine.h. */
#include "common/quarantine.h"

#include <string.h>

#include "common/time_units.h"

/* Returns the index of an entry, or -1. */
static int find(const struct quarantine *quarantine, const struct quarantine_key *key)
{
	for (int i = 0; i < QUARANTINE_ENTRIES; i++) {
		if (!memcmp(&quarantine->entries[i].key, key, sizeof(*key)))
			return i;
	}
	return -1;
}

/* Returns the entry of this key, or a new one, in the place of the one that ends first. */
static struct quarantine_entry *find_or_add(struct quarantine *quarantine,
					    const struct quarantine_key *key)
{
	struct quarantine_entry *entries = quarantine->entries;
	int found = find(quarantine, key);

	if (found < 0) {
		found = 0;
		for (int i = 1; i < QUARANTINE_ENTRIES; i++) {
			if (entries[i].until_ns < entries[found].until_ns)
				found = i;
		}
		entries[found] = (struct quarantine_entry){.key = *key};
	}
	return &entries[found];
}

/* Returns how long something is left alone that was added `times` times, which is not 0. */
static unsigned int seconds_after(uint64_t times)
{
	unsigned int seconds = QUARANTINE_FIRST_S;

	for (uint64_t i = 1; i < times && seconds < QUARANTINE_LONGEST_S; i++)
		seconds *= QUARANTINE_FACTOR;
	return seconds < QUARANTINE_LONGEST_S ? seconds : QUARANTINE_LONGEST_S;
}

/* Returns whether it has caused nothing for a long time. */
static bool is_forgotten(const struct quarantine_entry *entry, uint64_t now_ns)
{
	return now_ns > entry->until_ns &&
	       now_ns - entry->until_ns > QUARANTINE_LONGEST_S * NS_PER_S;
}

unsigned int quarantine_add(struct quarantine *quarantine, const struct quarantine_key *key,
			    uint64_t now_ns)
{
	struct quarantine_entry *entry = find_or_add(quarantine, key);

	entry->times = is_forgotten(entry, now_ns) ? 1 : entry->times + 1;
	const unsigned int seconds = seconds_after(entry->times);
	entry->until_ns = now_ns + seconds * NS_PER_S;
	if (entry->until_ns > quarantine->latest_ns)
		quarantine->latest_ns = entry->until_ns;
	return seconds;
}

void quarantine_shorten(struct quarantine *quarantine, const struct quarantine_key *key,
			uint64_t now_ns)
{
	const int found = find(quarantine, key);

	if (found < 0)
		return;
	struct quarantine_entry *entry = &quarantine->entries[found];
	const uint64_t until_ns =
	    now_ns + seconds_after(entry->times) * NS_PER_S / QUARANTINE_SLOW_PART;
	if (until_ns < entry->until_ns)
		entry->until_ns = until_ns;
}

struct quarantine_key quarantine_tenant(struct tenant tenant)
{
	return (struct quarantine_key){QUARANTINE_TENANT, {tenant.uid, tenant.container}};
}

void quarantine_add_tenant(struct quarantine *quarantine, struct tenant tenant, uint64_t now_ns)
{
	const struct quarantine_key key = quarantine_tenant(tenant);

	if (tenant.uid != TENANT_UID_UNKNOWN && (tenant.uid || tenant.container))
		quarantine_add(quarantine, &key, now_ns);
}

bool quarantine_has(const struct quarantine *quarantine, const struct quarantine_key *key,
		    unsigned int times_least, uint64_t now_ns)
{
	/* Usually there is nothing to search. */
	const int found = now_ns < quarantine->latest_ns ? find(quarantine, key) : -1;

	return found >= 0 && quarantine->entries[found].times >= times_least &&
	       now_ns < quarantine->entries[found].until_ns;
}

void quarantine_repair(struct quarantine *quarantine, uint64_t now_ns)
{
	const uint64_t latest_ns = now_ns + QUARANTINE_LONGEST_S * NS_PER_S;

	quarantine->latest_ns = latest_ns;
	for (int i = 0; i < QUARANTINE_ENTRIES; i++) {
		struct quarantine_entry *entry = &quarantine->entries[i];

		if (entry->key.what >= QUARANTINE_WHAT_COUNT)
			*entry = (struct quarantine_entry){0};
		else if (entry->until_ns > latest_ns)
			entry->until_ns = latest_ns;
	}
}

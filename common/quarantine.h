/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role leaves alone for a time, because a process of Bulkhead hung or died on it.
 *
 * How this works. Whatever a role does for a profiled process may take for ever, or end the role,
 * if the process is hostile enough. Nobody may cause that again and again. So each time it happens,
 * the role adds what it was working on: a process, a file, a device or a tenant
 * (common/tenant.h). An entry lasts ten seconds at first, and four times as long as before each
 * further time, up to an hour. What has caused nothing for an hour after that begins again with ten
 * seconds. If there is no room, the entry that ends first gives way.
 *
 * What was only slow, because the machine is overloaded, is left alone for a tenth of that time.
 *
 * What is added, and what follows from it, is decided by those who use this: opening_quarantine.h
 * for the opener's helpers, and role/work_page.h for roles that hung or died themselves. Root
 * outside of containers is never added: it cannot be kept from anything, and owns too much.
 *
 * Example: a role hangs on process 42, and process 42 is added at 100 s. It is active until 110 s.
 * The role hangs on it again at 200 s, and it is active until 240 s.
 *
 * A quarantine may be in memory that outlives the process, so it has no pointers.
 */
#ifndef COMMON_QUARANTINE_H
#define COMMON_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tenant.h"

enum {
	QUARANTINE_ENTRIES = 128,
	QUARANTINE_FIRST_S = 10,
	QUARANTINE_LONGEST_S = 3600,
	QUARANTINE_FACTOR = 4,
	QUARANTINE_SLOW_PART = 10, /* the part of the time for what was only slow */
};

enum quarantine_what {
	QUARANTINE_NOTHING, /* no entry */
	QUARANTINE_PROCESS, /* id: pid */
	QUARANTINE_FILE,    /* id: device and inode */
	QUARANTINE_DEVICE,  /* id: major and minor number */
	QUARANTINE_TENANT,  /* id: uid and container */
	QUARANTINE_WHAT_COUNT
};

struct quarantine_key {
	uint64_t what; /* enum quarantine_what */
	uint64_t id[2];
};

struct quarantine_entry {
	struct quarantine_key key;
	uint64_t times; /* how often it was added */
	uint64_t until_ns;
};

struct quarantine {
	uint64_t latest_ns; /* when the last entry ends */
	struct quarantine_entry entries[QUARANTINE_ENTRIES];
};

/* Adds `key` at `now_ns`. Returns for how many seconds it is active. */
unsigned int quarantine_add(struct quarantine *quarantine, const struct quarantine_key *key,
			    uint64_t now_ns);

/* Has an entry that is active end earlier, because what was added at `now_ns` or before was only
 * slow. */
void quarantine_shorten(struct quarantine *quarantine, const struct quarantine_key *key,
			uint64_t now_ns);

/* Returns the key of a tenant. */
struct quarantine_key quarantine_tenant(struct tenant tenant);

/* Adds a tenant, unless that is root outside of containers, or not known. */
void quarantine_add_tenant(struct quarantine *quarantine, struct tenant tenant, uint64_t now_ns);

/* Returns whether `key` is active at `now_ns` and was added at least `times_least` times. */
bool quarantine_has(const struct quarantine *quarantine, const struct quarantine_key *key,
		    unsigned int times_least, uint64_t now_ns);

/* Makes a quarantine valid that another process has written: removes entries of an unknown kind,
 * and shortens those that last too long. */
void quarantine_repair(struct quarantine *quarantine, uint64_t now_ns);

#endif

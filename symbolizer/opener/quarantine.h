/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the opener leaves alone for a time, because a helper hung or died on it.
 *
 * How this works. A helper that hangs costs the others in its lane some time (lane.h), so nobody
 * may cause that again and again. After it happened
 *
 * - the process is left alone,
 * - the device of the file is, if it is not a disk, because a file system that a user has mounted
 * has a device number of its own;
 * - from the second time on, the user's files on devices that are no disks are;
 * - from the fourth time on, all processes of the user are.
 *
 * Each lasts ten seconds at first, and four times as long as before each further time, up to an
 * hour. Root is not treated as a user: it cannot be kept from anything, and owns too much.
 *
 * Example: a process of user 1000 maps a file of an overlay over FUSE with the device 0:61. The
 * helper hangs, and is given up. For ten seconds nothing is opened of this process and of 0:61.
 * Then it hangs again: for 40 s nothing is opened of both, and of user 1000 only what is on disks.
 */
#ifndef SYMBOLIZER_OPENER_QUARANTINE_H
#define SYMBOLIZER_OPENER_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/opener/helper.h"

enum {
	QUARANTINE_ENTRIES = 128, /* full: the one that ends first gives way */
	QUARANTINE_FIRST_S = 10,
	QUARANTINE_LONGEST_S = 3600,
	QUARANTINE_FACTOR = 4,
	/* Times after which a user's files on devices that are no disks are left alone, and all of
	 * the user's processes. */
	QUARANTINE_USER_FILES = 2,
	QUARANTINE_USER_ALL = 4,
};

enum quarantine_what {
	QUARANTINE_FREE, /* no entry */
	QUARANTINE_PROCESS,
	QUARANTINE_DEVICE,
	QUARANTINE_USER,
};

struct quarantine_entry {
	enum quarantine_what what;
	uint64_t key;	    /* pid, device or uid */
	unsigned int times; /* how often a helper hung or died */
	uint64_t until_ns;
};

struct quarantine {
	struct quarantine_entry entries[QUARANTINE_ENTRIES];
};

/* Returns whether a file may be on a file system without a disk: one whose device has the major
 * number 0. FUSE, overlays and network file systems are such, and also tmpfs and btrfs. */
bool opening_is_without_disk(const struct opening *opening);

/* Notes that a helper hung or died at `now_ns` while it did this. Returns for how many seconds the
 * process is left alone. */
unsigned int quarantine_add(struct quarantine *quarantine, const struct opening *opening,
			    uint64_t now_ns);

/* Returns whether this is to be left alone at `now_ns`. */
bool quarantine_has(const struct quarantine *quarantine, const struct opening *opening,
		    uint64_t now_ns);

#endif

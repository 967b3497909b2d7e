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
 * A user is one within a container, or outside of all (common/tenant.h). The opener, which reads
 * nothing, takes the container from the request. The manager knows it. A worker that was taken over
 * may name any, so it can have a user left alone whose files make helpers hang in another
 * container.
 *
 * How long each lasts: see common/quarantine.h. Debug files belong to no process and no user. If a
 * helper hangs on one, all of them are left alone (process 0).
 *
 * Example: a process of user 1000 maps a file of an overlay over FUSE with the device 0:61. The
 * helper hangs, and is given up. For ten seconds nothing is opened of this process and of 0:61.
 * Then it hangs again: for 40 s nothing is opened of both, and of user 1000 only what is on disks.
 */
#ifndef SYMBOLIZER_OPENER_OPENING_QUARANTINE_H
#define SYMBOLIZER_OPENER_OPENING_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/quarantine.h"
#include "symbolizer/opener/opening.h"

enum {
	/* Times after which a user's files on devices that are no disks are left alone, and all of
	 * the user's processes. */
	OPENING_USER_FILES_TIMES = 2,
	OPENING_USER_ALL_TIMES = 4,
};

/* Returns whether a file may be on a file system without a disk: one whose device has the major
 * number 0. FUSE, overlays and network file systems are such, and also tmpfs and btrfs. */
bool opening_is_without_disk(const struct opening *opening);

/* Adds what a helper was opening when it hung or died at `now_ns`. Returns for how many seconds the
 * process is left alone. */
unsigned int opening_quarantine(struct quarantine *quarantine, const struct opening *opening,
				uint64_t now_ns);

/* Returns whether this is to be left alone at `now_ns`. */
bool opening_is_quarantined(const struct quarantine *quarantine, const struct opening *opening,
			    uint64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sideband: what the kernel reports of processes and of its own text, through one perf ring per
 * CPU. Format: perf_event_open(2) and linux/perf_event.h.
 *
 * How this works. A process may move between CPUs, so its records lie in several rings. Therefore
 * all rings are emptied into one batch, the batch is sorted by time, and only then is each record
 * acted upon. Records later than the start of such a round wait for the next one, so that no round
 * has a record without those of other CPUs that came before it.
 *
 * A machine may start a thousand processes per second, and the manager should not wake for each of
 * them. The first record after a quiet time wakes it at once. It then stops listening and empties
 * the rings after SIDEBAND_PAUSE_MS. If one of the new processes is sampled in the meantime, its
 * stack is deferred, and that wakes the manager as well.
 *
 * Example: pid 101 is forked on CPU 0 and moves to CPU 1.
 *
 *	ring 0: {t=10 fork 101}                 batch, sorted: fork 101, exec 101, mmap 101
 *	ring 1: {t=12 exec 101} {t=13 mmap 101}
 */
#ifndef UNWINDER_MGR_SIDEBAND_H
#define UNWINDER_MGR_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/loop.h"

struct manager;

enum {
	/* Pages of one ring: 256 KiB, some 2,000 records. Full: the kernel counts the records that
	 * it drops, and all of /proc is scanned again. */
	SIDEBAND_PAGES = 64,
	SIDEBAND_PAUSE_MS = 5,
	SIDEBAND_CPUS_MAX = 1024
};

/* Where a record is in the batch. */
struct sideband_entry {
	uint64_t time_ns;
	size_t offset;
};

struct sideband {
	int epoll_fd; /* all rings, as one source of the role's loop */
	bool listening;
	uint8_t *rings[SIDEBAND_CPUS_MAX]; /* by CPU */
	int fds[SIDEBAND_CPUS_MAX];
	uint8_t *batch;
	size_t batch_bytes, batch_capacity;
	struct sideband_entry *entries;
	size_t entry_count, entry_capacity;
	uint64_t lost;	    /* how often records were lost */
	uint64_t lost_ns;   /* when that was noticed last; 0: never */
	uint64_t logged_ns; /* when that was last written to the log; 0: never */
};

/* Prepares the sideband, before the sandbox. Returns 0 or a negative errno. */
int sideband_init(struct manager *manager);

/* Sets whether records wake the manager. */
void sideband_listen(struct manager *manager, bool on);

/* Maps a CPU's ring and takes over `fd`. An older ring of this CPU is emptied and closed. Returns 0
 * or a negative errno, and then `fd` stays the caller's. */
int sideband_add(struct manager *manager, unsigned int cpu, int fd);

/* Acts on all records up to the time of the call, and publishes what has changed. */
void sideband_process(struct manager *manager);

#endif

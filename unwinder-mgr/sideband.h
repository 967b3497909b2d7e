/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The perf sideband: one ring a CPU with what the kernel tells of processes. Records of all rings
 * are put in the order of their times before they are acted upon, since a process may have moved
 * between CPUs. Format: perf_event_open(2), linux/perf_event.h.
 *
 * The first record after a quiet time wakes the manager at once; what follows waits for
 * SIDEBAND_PAUSE_MS, so that a thousand processes a second do not wake it a thousand times. A
 * process that is sampled meanwhile has a deferred stack, and that wakes it.
 */
#ifndef UNWINDER_MGR_SIDEBAND_H
#define UNWINDER_MGR_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/loop.h"

struct manager;

enum {
	SIDEBAND_PAGES = 64,
	SIDEBAND_PAUSE_MS = 20,
	SIDEBAND_CPUS_MAX = 1024
};

struct sideband_record {
	uint64_t time_ns;
	size_t offset; /* in the batch */
};

struct sideband {
	int epoll_fd; /* all rings, as one source of the role's loop */
	bool listening;
	uint8_t *rings[SIDEBAND_CPUS_MAX]; /* by CPU */
	int fds[SIDEBAND_CPUS_MAX];
	uint8_t *batch; /* records of one turn */
	size_t batch_bytes, batch_capacity;
	struct sideband_record *records;
	size_t record_count, record_capacity;
	uint64_t lost;
};

/* Before the sandbox. 0 or a negative errno. */
int sideband_init(struct manager *manager);

/* Whether records wake the manager. */
void sideband_listen(struct manager *manager, bool on);

/* Map a CPU's ring; `fd` is taken over. An older ring of this CPU is given up. 0 or a negative
 * errno. */
int sideband_add(struct manager *manager, unsigned int cpu, int fd);

/* Act on all that the rings hold by now. */
void sideband_process(struct manager *manager);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's state: the BPF object, the events that run its program, and the maps on their way to
 * whoever uses them. Everything in the kernel is made here, and nothing else happens here.
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "role/role.h"
#include "loader/cpus.h"

struct bulkhead_bpf;

struct loader {
	struct role role;
	struct msg_configure_loader config;
	struct bulkhead_bpf *object;
	int kallsyms_fd, online_fd;
	int possible_cpus;
	int sample_fds[CPUS_MAX],
	    sideband_fds[CPUS_MAX];	    /* one event each a CPU, -1 if it is offline */
	const struct bh_counters *counters; /* possible_cpus of them, mapped read-only */
	unsigned int slab_count;
	bool sampling;
};

/* Open the object, set its constants from the configuration, load it, make the first slabs. 0, or
 * an exit status after a message. */
int object_load(struct loader *loader);

/* One more slab, its descriptor to the manager; without one if the limit is reached. 0 or negative
 * errno of the send. */
int object_add_slab(struct loader *loader);

/* Hand each role its maps. 0 or negative errno. */
int object_send_maps(struct loader *loader);

/* The exporter's alone, also again when another one has come. */
int object_send_exporter_maps(struct loader *loader);

/* Fill in what the loader knows: counters, run time, bytes of maps. */
void object_status(const struct loader *loader, struct msg_status *status);

int object_sample_program_fd(const struct loader *loader);

/* Open both events on each CPU that is online and has none, close those of CPUs that went. Sideband
 * rings go to the manager. 0, or an exit status after a message. */
int events_follow_cpus(struct loader *loader);

void events_enable(struct loader *loader, bool on);

#endif

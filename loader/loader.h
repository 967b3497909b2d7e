/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader: the only role that creates objects in the kernel. It loads the BPF programs, opens
 * the perf events that run them, and sends each role the maps that it needs. Afterwards it only
 * adds slabs, loads the programs of language runtimes, and follows CPUs that come and go. In an
 * agent it pins what it has loaded, and takes over what a loader before it has left (pins.h).
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "role/role.h"
#include "loader/cpus.h"
#include "loader/pins.h"

struct bpf_object;
struct bulkhead_bpf;

struct loader {
	struct role role;
	struct msg_configure_loader config;
	struct bulkhead_bpf *object;
	uint64_t object_hash; /* of the compiled object */
	int kallsyms_fd, online_fd;
	struct msg_kernel_notes notes; /* without a length: there are none */
	int possible_cpus;
	int program_fd; /* of the sampling program */
	/* By CPU; -1 if it is offline, or if the last loader has opened the event. */
	int sample_fds[CPUS_MAX], sideband_fds[CPUS_MAX];
	int link_fds[CPUS_MAX]; /* by CPU, from the event to the program; -1: none is needed */
	/* The negative errno of the last attempt to open the events of a CPU, and to read the list
	 * of CPUs; 0 if it succeeded. Each is logged when it changes. */
	int cpu_errors[CPUS_MAX], online_error;
	const struct bh_counters *counters; /* one per possible CPU, mapped read-only */
	unsigned int slab_count;
	uint32_t next_slab; /* the least that this manager may request: it has those before it */
	/* By enum bh_runtime: objects whose programs were not requested yet; otherwise NULL. */
	struct bpf_object *runtimes[BH_RUNTIME_COUNT];
	bool sampling;
	struct pins pins;
	bool handed_over;    /* this loader ends, and leaves its pins to the next one */
	bool adopted;	     /* everything was taken over from the last loader ... */
	unsigned int missed; /* ... but the events of these many CPUs, whose sampling paused */
	uint64_t generation; /* of the maps: another number for each load */
};

/* Loads the BPF object with the constants and map sizes that follow from the configuration, or
 * takes over that of the last loader while the manager is still there. Returns 0, or an exit status
 * after a message. */
int object_load(struct loader *loader);

/* Creates the slab with this index and sends its descriptor to the manager, or a message without
 * one if there can be no more. Returns 0 or the negative errno of the send. */
int object_add_slab(struct loader *loader, uint32_t index);

/* Loads the program of a language runtime, unless this was done before. A failure is logged.
 * Returns 0, or -EPROTO if there is no such runtime, or its frames are not wanted. */
int object_load_runtime(struct loader *loader, uint32_t runtime);

/* Sends a role that has connected its maps. Returns 0 or a negative errno. */
int object_send_maps(struct loader *loader, enum role_id role);

/* Adds the BPF counters, the run time of the sampling program and the size of all maps. */
void object_status(const struct loader *loader, struct msg_status *status);

/* Opens both events on each CPU that is online, but not those that the last loader has left.
 * Returns 0, or an exit status after a message. */
int events_open(struct loader *loader);

/* Sends the rings of the sideband to the manager that has connected. Returns 0 or a negative
 * errno. */
int events_send(struct loader *loader);

/* Takes note that the manager has ended: the next one has no rings of the sideband. */
void events_forget_manager(struct loader *loader);

/* Opens the events of each CPU that came online since then, sends its ring, and closes those of
 * CPUs that went offline. A CPU whose events cannot be opened is left out and tried again by the
 * next call; the reason is logged once, and again if it changes. */
void events_follow_cpus(struct loader *loader);

/* Starts or stops sampling on all CPUs. Logs for how long those have not been sampled whose events
 * could not be taken over. */
void events_enable(struct loader *loader, bool on);

/* Records for the next loader whether sampling goes on. */
void events_note_sampling(struct loader *loader);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and their executable mappings, as the kernel reports them, and their publication in the
 * table by which BPF finds the mappings of a process.
 *
 * How this works. fork, exec, exit and mmap come from the sideband, and complete lists from
 * /proc/PID/maps for processes that existed before, or of which something was missed. Each changes
 * the process's mapping list and marks the process dirty. processes_publish then copies the lists
 * of dirty processes into slabs and writes their entries in the table, under a sequence lock. A
 * process whose list finds no room stays dirty until a slab has come, or until it ends.
 *
 * What processes do decides how much work this is. If a user's processes have used up the time in
 * which they are followed (shares.h), a process of that user that does more is outdated. Its list
 * is replaced by one in which all memory belongs to the module `no_room`, so that its stacks end
 * with a reason and are never walked by mappings that it had before. What it does is ignored, until
 * there is time to read its maps, or until it executes another program.
 *
 * When a recording starts, a process may fork before its maps have been read. Its children then
 * wait for its list (waits_for): most of them end before their own maps could be read.
 *
 * A process gets a new exec generation with each fork and exec, so that the worker does not
 * confuse two programs with the same pid. After an exec the previous list is kept: stacks that were
 * sampled before the exec may still be waiting (deferred.h), and are walked by it.
 *
 * The kernel may drop events: its rings are finite. A scan of /proc then finds what was forked,
 * executed or mapped. Two things it does not say. A process whose exit was lost is not in it, so
 * one that no answer of the opener was about since the last scan began is asked for by itself, and
 * has ended if there is no such process. And a process may execute another program without a
 * trace, so it gets a new exec generation if its maps have the vDSO at another address: the kernel
 * chooses one for each program.
 *
 * Example: make (pid 100) forks 101, which executes gcc.
 *
 *	fork 100 -> 101   101 shares make's list: 2 users, no copy
 *	exec 101          previous = make's list, list = empty; generation 8
 *	mmap 101 gcc      list = {gcc}; dirty
 *	publish           a slab holds {gcc}; the entry of 101 points to it; the worker gets PROCESS
 *	exit 101          kept for LIMIT_EXIT_GRACE_MS, for late samples
 */
#ifndef UNWINDER_MGR_PROCESSES_H
#define UNWINDER_MGR_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "ipc/messages.h"
#include "unwinder-mgr/mapping_list.h"
#include "unwinder-mgr/modules.h"

struct manager;

enum {
	PROCESS_BUCKETS = 4096,
};

struct process {
	struct process *next, *next_dirty;
	uint32_t tgid;
	uint32_t exec_generation; /* unique among all processes; new with each fork and exec */
	struct mapping_list *list;
	struct mapping_list *previous; /* until exec_ns */
	uint64_t exec_ns;
	/* The process whose list this one will share, because it was forked before that one's maps
	 * were read, and that one's exec generation at that time; 0: none. */
	uint32_t waits_for, waits_for_generation;
	struct bh_process *slot; /* its entry in the published table, NULL if it has none */
	bool dirty;		 /* the entry is not up to date */
	bool announced;		 /* PROCESS was sent for this exec generation */
	bool refused;		 /* there was no room for a file that it maps */
	bool outdated;		 /* there was no time to follow it */
	unsigned int requests;	 /* files that are being opened through it */
	/* Of its tenant, as far as known: that of its parent, until the opener says whose it is.
	 * NULL: not known. It holds a reference. */
	struct share *share;
	uint32_t events, ask_at; /* LIMIT_TENANT_EVENTS: how many, and at how many it is asked */
	bool ask_when_old;	 /* the opener was not asked since its fork or exec */
	bool leader_ended;	 /* of its threads, others run; nothing reports its end */
	uint64_t forked_ns;	 /* 0: not known */
	uint64_t alive_ns;	 /* when it was known to be running, in boot time (bpf/shared.h) */
	uint64_t exited_ns;	 /* 0 while it runs */
	uint64_t rescanned_ns;	 /* when its maps were last requested */
	uint32_t scan;		 /* the last one during or after which it was known to run */
	/* The permission that the opener has (memory_permits.h); exec generation 0: none. */
	struct msg_allow_memory allowed;
	uint64_t code_memory_sent; /* of code_memory.h: a hash of the last message; 0: none */
	char comm[BH_COMM_BYTES];
};

struct processes {
	struct bh_process_table *table; /* mapped */
	struct process *buckets[PROCESS_BUCKETS];
	struct process *dirty;
	/* Of processes whose own list is not published; NULL before the first. */
	struct mapping_list *nothing;
	unsigned int count;
	unsigned int waiting; /* how many have waits_for */
	uint32_t last_exec_generation;
	uint32_t scans,
	    scans_done; /* how often all processes were scanned, and how often to the end */
};

/* Returns the process, or NULL. */
struct process *processes_find(struct processes *processes, uint32_t tgid);

/* Returns a list that only this process uses and that is not published, so that it may be changed;
 * NULL if there is no memory. */
struct mapping_list *processes_own_list(struct manager *manager, struct process *process);

/* Adds a process with the mappings of its parent, if that is recorded here. */
void processes_fork(struct manager *manager, uint32_t parent, uint32_t child, uint64_t time_ns);

/* Drops all mappings of a process, since it executes another program whose mappings follow. */
void processes_exec(struct manager *manager, uint32_t tgid, const char *comm, uint64_t time_ns);

/* Marks a process as ended; processes_reclaim frees it later. */
void processes_exit(struct manager *manager, uint32_t tgid, uint64_t now_ns);

/* Adds an executable mapping, in the place of whatever it covers. `path` is as the kernel reports
 * it, and the module of `mapping` is not set. */
void processes_map(struct manager *manager, uint32_t tgid, const struct mapping *mapping,
		   const struct module_key *key, const char *path);

/* Returns whether there is time to read the maps of a process of this tenant, which it has from now
 * on. The time counts as spent on that tenant, up to shares_follow_nobody(). Without time, the
 * process is outdated. */
bool processes_may_read_maps(struct manager *manager, uint32_t tgid, struct tenant tenant);

/* Replaces the mappings of a process by the text of its /proc/PID/maps. The process was running at
 * `time_ns`. */
void processes_set_maps(struct manager *manager, uint32_t tgid, const char *maps, size_t length,
			const char *comm, uint64_t time_ns);

/* Has the opener asked again and again whether a process still runs. The event of its end is that
 * of its first thread, which has ended already. */
void processes_watch_end(struct manager *manager, uint32_t tgid);

/* Notes what the opener says of a process: `error` is 0 or the errno with which its maps could not
 * be opened, and `empty` whether there are none. */
void processes_on_answer(struct manager *manager, uint32_t tgid, uint32_t error, bool empty);

/* Sets whose a process is. Nothing changes if the uid is TENANT_UID_UNKNOWN. */
void processes_set_tenant(struct manager *manager, uint32_t tgid, struct tenant tenant);

/* Returns the tenant of a process that has this uid now: in the container in which it was last, as
 * far as that is known. */
struct tenant processes_tenant(struct manager *manager, uint32_t tgid, uint32_t uid);

/* Returns the mappings that a process had when it was sampled, published in a slab, or NULL if they
 * are not recorded or find no room. */
const struct mapping_list *processes_list_at(struct manager *manager,
					     const struct bh_sample *sample);

/* Publishes what has changed, and reports new processes to the worker. */
void processes_publish(struct manager *manager);

/* Requests the mappings of processes again for which there was no room or time, if there may be
 * now: their files, or a free entry of the published table. Also those of processes that the last
 * scan did not find. */
void processes_retry(struct manager *manager, uint64_t now_ns);

/* Requests /proc/TGID/maps from the opener, at most once in LIMIT_RESCAN_MS, or in
 * LIMIT_RESCAN_LOST_MS if records of the sideband were lost a moment ago. */
void processes_rescan(struct manager *manager, uint32_t tgid, uint64_t now_ns);

/* Frees processes that ended LIMIT_EXIT_GRACE_MS ago. */
void processes_reclaim(struct manager *manager, uint64_t now_ns);

#endif

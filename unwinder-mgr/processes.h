/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and their executable mappings, kept as the kernel reports them and published in the
 * table that BPF reads. A fork shares its parent's list until one of them changes it.
 */
#ifndef UNWINDER_MGR_PROCESSES_H
#define UNWINDER_MGR_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "ipc/messages.h"
#include "unwinder-mgr/modules.h"
#include "unwinder-mgr/slabs.h"

struct manager;

enum {
	PROCESS_BUCKETS = 4096,
	PROCESS_MAPPINGS_MAX = (1 << BH_PROCESS_MAPPINGS_BITS) - 1
};

struct mapping {
	uint64_t start, end, file_offset;
	struct module *module; /* NULL: no file */
};

struct mapping_list {
	unsigned int users;
	unsigned int count, capacity;
	struct slab_block block;  /* as published; bytes 0 if it is not */
	struct mapping *mappings; /* sorted by start, not overlapping */
};

struct process {
	struct process *next, *next_dirty;
	uint32_t tgid;
	uint32_t program; /* another with each exec and fork, of all processes */
	struct mapping_list *list;
	struct mapping_list
	    *previous; /* until its exec: stacks sampled before may still be waiting */
	uint64_t exec_ns;
	struct bh_process *slot; /* NULL if it has none */
	bool dirty;		 /* what is published is not what is known */
	bool announced;
	uint64_t exited_ns, rescanned_ns;
	char comm[BH_COMM_BYTES];
};

struct processes {
	struct bh_process_table *table;
	struct process *buckets[PROCESS_BUCKETS];
	struct process *dirty;
	unsigned int count;
	uint32_t programs; /* so far */
};

struct process *processes_find(struct processes *processes, uint32_t tgid);

/* A new process, a copy of its parent's where that is known. */
void processes_fork(struct manager *manager, uint32_t parent, uint32_t child);

/* All mappings are gone, others follow. */
void processes_exec(struct manager *manager, uint32_t tgid, const char *comm, uint64_t time_ns);
void processes_exit(struct manager *manager, uint32_t tgid, uint64_t now_ns);

/* One executable mapping more; what it covers is no more. `path` as the kernel gives it. */
void processes_map(struct manager *manager, uint32_t tgid, const struct mapping *mapping,
		   const struct module_key *key, const char *path);

/* Replace all that is known of a process by the text of its /proc/PID/maps. */
void processes_set_maps(struct manager *manager, uint32_t tgid, const char *maps, size_t length,
			const char *comm);

/* The mappings that a process had at a time, in a slab; NULL if they are not known. */
const struct mapping_list *processes_list_at(struct manager *manager, uint32_t tgid,
					     uint64_t time_ns);

/* Make what changed visible to BPF. */
void processes_publish(struct manager *manager);

/* In all processes, `module` becomes `known`. */
void processes_replace_module(struct manager *manager, struct module *module, struct module *known);

/* Every process but `except` that maps `module` asks for the file anew. */
void processes_reask(struct manager *manager, struct module *module, uint32_t except);

/* Have the opener read /proc/TGID/maps again, not too often. */
void processes_rescan(struct manager *manager, uint32_t tgid, uint64_t now_ns);

/* The worker wants to know who maps `module`, now and from now on. */
void processes_watch(struct manager *manager, struct module *module);

void processes_reclaim(struct manager *manager, uint64_t now_ns);

#endif

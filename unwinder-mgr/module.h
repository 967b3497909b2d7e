/* SPDX-License-Identifier: Apache-2.0 */
/* A module and the table of modules. How they work: see modules.h. */
#ifndef UNWINDER_MGR_MODULE_H
#define UNWINDER_MGR_MODULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "bpf/shared.h"
#include "common/clock.h"
#include "ipc/messages.h"
#include "unwinder-mgr/runtime_check.h"
#include "unwinder-mgr/shares.h"
#include "unwinder-mgr/tables.h"

enum {
	MODULE_BUCKETS = 1024,
	MODULE_SLOTS = 1 << BH_MODULES_BITS
};

enum module_state {
	MODULE_OPENING,	 /* the opener was asked for the file */
	MODULE_BUILDING, /* the file is there; its rows are built, or it waits for that */
	MODULE_PLACING,	 /* the rows are built and wait for a slab */
	MODULE_READY,	 /* the walker uses its table */
	MODULE_UNKNOWN,	 /* no file, or one without unwind information: frame pointers are used */
	MODULE_COMPAT,	 /* a file of 32 bits: the stack ends */
	MODULE_REFUSED,	 /* no share for its table, or it is left alone: the stack ends */
};

/* What the kernel reports of a mapping's file. */
struct module_key {
	uint32_t device_major, device_minor;
	uint64_t inode;
};

struct module {
	struct module *next_by_key, *next_by_file, *next_by_id, *next, *next_build;
	struct module_key key;
	uint32_t id;   /* never reused */
	uint32_t slot; /* index in the published table, reused after the grace period */
	enum module_state state;
	enum runtime_access watched; /* if any, each mapping of it is reported to the worker */
	/* The file exists in memory only and is no program: what a compiler has generated. It is
	 * published like memory without a file. */
	bool is_memory;
	bool memory_is_new;	/* that is known, and lists were published before */
	bool checked;		/* the worker wanted to watch it, and its symbols were searched */
	bool unannounced;	/* the worker could not take the announcement yet */
	bool shared;		/* other processes find it by its key */
	uint32_t requested_for; /* the process through whose mapping the file was opened */
	bool wanted_elsewhere;	/* that failed, so another process is tried (process_files.h) */
	uint32_t tries_left;	/* how many other processes may be tried at once */
	uint32_t tried_exec;	/* exec generation of the last one; later ones are tried next */
	uint64_t requested_ns;
	unsigned int failures; /* how often the file could not be opened */
	int fd;		       /* -1 if there is no file */
	struct stat file;
	unsigned int users; /* mappings */
	uint64_t idle_since_ns;
	struct unwind_table_builder builder;
	struct table table;
	uint64_t queued_ns; /* since when it waits for its table to be built */
	uint64_t awaited; /* how often a stack could not be walked further for want of its table */
	struct share *share;   /* NULL until the file is there, and for the machine's own modules */
	uint32_t rules_added;  /* rules that are counted in the share */
	uint64_t bytes_needed; /* of slabs, if there was no room */
	uint64_t refused_ns;   /* since when there is no room */
	char path[MSG_PATH_BYTES];
};

struct modules {
	struct bh_module *published; /* MODULE_SLOTS of them, mapped */
	struct module *all;
	struct module *by_key[MODULE_BUCKETS], *by_file[MODULE_BUCKETS], *by_id[MODULE_BUCKETS];
	uint32_t last_id, next_slot;
	uint32_t free_slots[MODULE_SLOTS]; /* a queue, oldest first */
	uint64_t free_slots_ns[MODULE_SLOTS];
	unsigned int free_slot_first, free_slot_count;
	unsigned int count;
	unsigned int placing; /* how many wait for a slab */
	unsigned int unannounced;
	bool any_wanted_elsewhere; /* of some module, wanted_elsewhere is set */
	bool any_memory_is_new;	   /* of some module, memory_is_new is set */
	unsigned int watched;
	uint32_t runtimes; /* wanted language runtimes, a set: no others are watched */
	struct module *vdso;
	struct module *no_room; /* of all files that got no module */
	/* Grows whenever a module or a process becomes usable: then deferred stacks are tried. */
	uint64_t generation;
};

/* Adds one use. */
static inline void module_get(struct module *module)
{
	module->users++;
}

/* Takes one use back. A module without uses is freed by modules_reclaim after some time. */
static inline void module_put(struct module *module)
{
	if (!--module->users)
		module->idle_since_ns = clock_monotonic_ns();
}

#endif

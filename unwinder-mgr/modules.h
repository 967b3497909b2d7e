/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: files that processes map executable, each parsed once. A module is found by what the
 * kernel says of a mapping (device, inode) without opening anything; that number cannot be recycled
 * while the manager holds the file open, and a change of its contents shows in the held file's
 * times and size. Where the kernel's numbers are not those of stat (overlayfs, btrfs), the file is
 * opened for each process and recognised by stat's.
 */
#ifndef UNWINDER_MGR_MODULES_H
#define UNWINDER_MGR_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "bpf/shared.h"
#include "ipc/messages.h"
#include "unwinder-mgr/tables.h"

struct manager;

enum {
	MODULE_BUCKETS = 1024,
	MODULE_SLOTS = 1 << BH_MODULES_BITS
};

enum module_state {
	MODULE_OPENING, /* the opener was asked */
	MODULE_PLACING, /* drafted, waiting for a slab */
	MODULE_READY,
	MODULE_UNKNOWN, /* its file could not be had, or says nothing: frame pointers */
};

/* What the kernel reports of a mapping's file. */
struct module_key {
	uint32_t device_major, device_minor;
	uint64_t inode;
};

struct module {
	struct module *next_by_key, *next_by_file, *next;
	struct module_key key;
	uint32_t number, slot;
	enum module_state state;
	bool watched;	    /* the worker wants to know who maps it */
	bool shared;	    /* found by key: the kernel's numbers are the file's own */
	uint32_t asked_for; /* tgid on whose behalf the file was opened */
	uint64_t address_start, address_end;
	int fd; /* -1 if it could not be had */
	struct stat file;
	unsigned int users; /* mappings */
	uint64_t idle_since_ns, asked_ns;
	struct unwind_table_builder builder;
	struct table table;
	char path[MSG_PATH_BYTES];
};

struct modules {
	struct bh_module *published; /* MODULE_SLOTS, mapped */
	struct module *all;
	struct module *by_key[MODULE_BUCKETS], *by_file[MODULE_BUCKETS];
	uint32_t last_number, next_slot;
	uint32_t free_slots[MODULE_SLOTS];
	uint64_t free_slots_ns[MODULE_SLOTS];
	unsigned int free_slot_first, free_slot_count;
	unsigned int count, placing; /* in all; whose tables wait for memory */
	struct module *vdso;
	unsigned int watched;
	uint64_t generation; /* changes whenever a module becomes usable: deferred stacks may then
				be walked */
};

/* A module for the vDSO of this kernel, from the manager's own (before the sandbox: it makes a file
 * of it for the worker). */
int modules_add_vdso(struct manager *manager);

/* The module of a file mapping in `tgid`, asked for at the opener if it is new; one more user. NULL
 * if there are too many: frame pointers then. */
struct module *modules_get(struct manager *manager, const struct module_key *key, uint32_t tgid,
			   uint64_t start, uint64_t end, const char *path);
struct module *modules_get_vdso(struct manager *manager);
void modules_use(struct module *module);
void modules_put(struct module *module);

/* The module of that number, or NULL. */
struct module *modules_by_number(struct modules *modules, uint32_t number);

/* Whether any file is still waited for. */
bool modules_pending(const struct modules *modules);

/* The opener's answer. `fd` is taken over. */
void modules_on_file(struct manager *manager, const struct msg_file *answer, int fd);

/* Place drafts that waited for a slab. */
void modules_place_waiting(struct manager *manager);

/* Forget modules that nobody has mapped for long. */
void modules_reclaim(struct manager *manager, uint64_t now_ns);

#endif

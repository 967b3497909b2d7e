/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable mappings of a process: sorted by address, without overlaps.
 *
 * How this works. A list has a use count, because a forked process shares its parent's list until
 * one of them changes it. The kernel does not report munmap. So a new mapping cuts whatever it
 * covers out of older ones, and a mapping that is really gone stays until something takes its
 * place; nothing is sampled there meanwhile. A list is published by copying it into a slab, and
 * that copy is retired as soon as the list changes.
 *
 * A process may have thousands of mappings and add further ones all the time, so adding one must
 * not cost as much as copying all of them. New mappings first go into a second, short array,
 * `recent`, which cuts them out of each other in the same way. When that is full, or somebody wants
 * to read the list, it is merged: one pass over both arrays.
 *
 * Example: the list is {0x1000 to 0x5000, module 1, file offset 0}. Module 2 is mapped from 0x2000
 * to 0x3000. The list becomes
 *
 *	0x1000 to 0x2000  module 1, file offset 0
 *	0x2000 to 0x3000  module 2, file offset 0
 *	0x3000 to 0x5000  module 1, file offset 0x2000
 */
#ifndef UNWINDER_MGR_MAPPING_LIST_H
#define UNWINDER_MGR_MAPPING_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "unwinder-mgr/module.h"
#include "unwinder-mgr/shares.h"
#include "unwinder-mgr/slabs.h"

enum {
	/* The walker's search takes a fixed number of steps. Full: the mappings at the highest
	 * addresses are ignored. */
	PROCESS_MAPPINGS_MAX = (1 << BH_PROCESS_MAPPINGS_BITS) - 1
};

struct mapping {
	uint64_t start, end, file_offset;
	struct module *module; /* NULL: memory without a file. The list holds one use of it. */
};

struct mapping_list {
	unsigned int users;
	size_t count, capacity;
	struct slab_block block; /* the published copy; 0 bytes if there is none */
	bool full;		 /* something found no room */
	struct mapping *mappings;
	struct mapping *recent; /* to be merged; NULL if there are none */
	size_t recent_count;
};

/* Returns an empty list with one user, or NULL. */
struct mapping_list *mapping_list_new(void);

/* Returns an unpublished copy with one user, or NULL. `list` may be NULL: the copy is empty. */
struct mapping_list *mapping_list_copy(struct mapping_list *list);

/* Takes one user away. The last one frees the list, its modules' uses and its published copy.
 * `list` may be NULL. */
void mapping_list_put(struct mapping_list *list, struct slabs *slabs);

/* Adds a mapping in the place of whatever it covers. Takes over the mapping's use of its module,
 * also if there is no room and the mapping is dropped. Without memory the list becomes empty. */
void mapping_list_insert(struct mapping_list *list, const struct mapping *mapping);

/* Lets `mappings` contain all mappings that were added. The functions below do this themselves;
 * others who read `mappings` call it before. `list` may be NULL. */
void mapping_list_merge(struct mapping_list *list);

/* Returns whether any mapping belongs to the module. `list` may be NULL. */
bool mapping_list_has(struct mapping_list *list, const struct module *module);

/* Lets the mappings of `module` belong to `other`. */
void mapping_list_replace(struct mapping_list *list, struct module *module, struct module *other);

/* Publishes the list in a slab, unless it is published or empty, and counts it in `share`. Memory
 * of modules that are no programs (is_memory) is published without its module. Returns 0; -EDQUOT
 * if the share does not allow it; or a negative errno of slabs_alloc, of which -EAGAIN means that
 * there is no room yet. */
int mapping_list_publish(struct mapping_list *list, struct slabs *slabs, struct share *share);

/* Withdraws the published copy, before a change. */
void mapping_list_withdraw(struct mapping_list *list, struct slabs *slabs);

/* Returns where the list has a mapping of this module, or 0. `list` and `module` may be NULL. */
uint64_t mapping_list_start_of(const struct mapping_list *list, const struct module *module);

#endif

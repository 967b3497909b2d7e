/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building and placing a module's unwind table, as far as the share of the user allows to whom the
 * file belongs (shares.h): in time, in rules, and in bytes. Where a rule finds no room, stacks end
 * at the code that needs it, as long as the module exists: the table of a module does not change.
 * Where the table finds none, they end anywhere in the file (MODULE_REFUSED), and it is built again
 * later. The same holds for a file on which an earlier manager hung or died (role/work_page.h).
 */
#ifndef UNWINDER_MGR_MODULE_TABLE_H
#define UNWINDER_MGR_MODULE_TABLE_H

#include <stdint.h>

#include "parse/elf_image.h"
#include "role/work_page.h"
#include "unwinder-mgr/module.h"

struct manager;

/* Returns a source that reads the module's file. It is valid as long as the module. */
struct elf_source module_source(struct module *module);

/* Returns whose file it is, for the record of what the manager works on. */
struct work_subject module_subject(const struct module *module);

/* Builds and places the table of a module whose file is open, and sets its state. */
void module_build(struct manager *manager, struct module *module);

/* Places the rows that wait for a slab. */
void modules_place_waiting(struct manager *manager);

/* Builds the tables again that were refused, if they may be built now. */
void modules_build_again(struct manager *manager, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing a module's unwind table, as far as the share of the user allows to whom the file belongs
 * (shares.h): in time, in rules, and in bytes. Where a rule finds no room, stacks end at the code
 * that needs it, as long as the module exists: the table of a module does not change. Where the
 * table finds none, they end anywhere in the file (MODULE_REFUSED), and it is built again later.
 * The same holds for a file that is left alone, because it has ended a process that read it
 * (table_builds.h, role/work_page.h).
 */
#ifndef UNWINDER_MGR_MODULE_TABLE_H
#define UNWINDER_MGR_MODULE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "parse/elf_image.h"
#include "role/work_page.h"
#include "unwinder-mgr/module.h"

struct manager;

/* Returns a source that reads the module's file. It is valid as long as the module. */
struct elf_source module_source(struct module *module);

/* Returns whose file it is, for the record of what the manager works on. */
struct work_subject module_subject(const struct module *module);

/* Returns whether the module's file may be read now: it is not left alone, and its user has time
 * left. */
bool module_may_be_built(struct manager *manager, const struct module *module);

/* Returns how many rules the module's table may add to those of all modules. */
uint32_t module_rules_most(const struct manager *manager, const struct module *module);

/* Takes over the rows that were built for a module, and places them; or, with an error of
 * unwind_table_build(), finds that there are none. Sets the module's state, and is_memory. */
void module_take_rows(struct manager *manager, struct module *module, int error,
		      const struct unwind_table_builder *rows);

/* Lets the stacks in the module's code end there, until its table is built again. */
void module_refuse_table(struct manager *manager, struct module *module);

/* Places the rows that wait for a slab. */
void modules_place_waiting(struct manager *manager);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helpers that build unwind tables, and the modules that wait for them.
 *
 * How this works. A file may be hostile, and a large one takes a second to read. So the manager
 * does not read files itself: a helper (role/helper.h) gets one after the other, and sends the rows
 * back (table_parts.h). Meanwhile the manager follows processes and answers its peers. If the
 * helper dies or hangs, the file is left alone for a time, and another helper is started. A helper
 * has the manager's filter, which opens and connects nothing, and neither its descriptors nor the
 * memory that it shares with the kernel and other roles (MADV_DONTFORK).
 *
 * Nobody's files may delay those of everybody else. So there are two lanes, each with a helper, and
 * at any time at most one of them builds for the same user. Mostly all files belong to one user,
 * and then the second helper does not exist: it is started when a file has to wait for that of
 * another user, and ended when it has had nothing to do for a time.
 *
 * Modules wait in the order in which they came, but among those of one user the first is that for
 * which most stacks wait (deferred.h), for each byte of its file, and among equal ones that with
 * the smallest file. So what runs now does not wait for what may never run, nor a small program for
 * large ones, and when a recording begins, most programs have their tables. Nobody is passed over
 * for longer than two seconds. When the turn of a file comes whose user has used up the
 * time for building (shares.h), its table is refused.
 *
 * Example: libc (5) and libssl (6), both of root, were opened. 5 is sent to the first helper, 6
 * waits. The helper answers with 60,000 rows: 5 is placed (module_table.h), and 6 is sent. User
 * 1000 executes a new program (7) before the answer for 6 comes: 7 is sent to the second helper.
 */
#ifndef UNWINDER_MGR_TABLE_BUILDS_H
#define UNWINDER_MGR_TABLE_BUILDS_H

#include <stdbool.h>
#include <stdint.h>

#include "role/helper.h"
#include "unwinder-mgr/module.h"
#include "unwinder-mgr/table_parts.h"

struct manager;

enum {
	BUILD_LANES = 2,
};

struct build_lane {
	struct manager *manager;
	struct helper helper;
	struct module *building; /* the helper has it; NULL: none */
	uint64_t sent_ns;	 /* when the last one was sent */
	struct table_receiver receiver;
};

struct table_builds {
	bool started;
	struct build_lane lanes[BUILD_LANES];
	struct module *first, **end; /* that wait, by next_build; the last of these pointers */
	uint64_t logged_ns;
};

/* Starts the first helper. Called in the sandbox, which it gets as well; until then, modules wait.
 * Returns 0 or a negative errno. */
int table_builds_start(struct manager *manager);

/* Has the table of a module whose file is open built and placed; until then it is
 * MODULE_BUILDING. */
void table_builds_add(struct manager *manager, struct module *module);

/* Has the tables built again that were refused, if they may be built now. */
void table_builds_again(struct manager *manager, uint64_t now_ns);

/* Gives up a helper that hangs, and ends one that is not needed. Called at each tick. */
void table_builds_tick(struct manager *manager, uint64_t now_ns);

/* Ends the helpers, and waits a moment for that. */
void table_builds_stop(struct manager *manager);

#endif

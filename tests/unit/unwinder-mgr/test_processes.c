/* SPDX-License-Identifier: Apache-2.0 */
/* Which mappings the children of a process get whose maps are not read yet. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"

enum {
	PARENT = 100,
	CHILD = 101,
	GRANDCHILD = 102
};

/* Anonymous memory, so that no file is requested. */
static const char maps[] = "00400000-00401000 r-xp 00000000 00:00 0 \n"
			   "00500000-00501000 r-xp 00000000 00:00 0 \n";

FAKE_PEER(NULL);

TestSuite(processes, .init = manager_setup, .fini = manager_teardown);

static void read_maps(uint32_t tgid)
{
	processes_set_maps(&manager, tgid, maps, strlen(maps), "parent");
}

/* Drops the processes that ended long ago. There are no slabs here, so that their lists wait to be
 * published. */
static void reclaim(void)
{
	for (struct process *p = manager.processes.dirty; p; p = p->next_dirty)
		p->dirty = false;
	manager.processes.dirty = NULL;
	processes_reclaim(&manager, UINT64_MAX);
}

static size_t mappings_of(uint32_t tgid)
{
	const struct process *process = processes_find(&manager.processes, tgid);

	return process && process->list ? process->list->count : 0;
}

Test(processes, a_child_shares_the_list_of_its_parent)
{
	read_maps(PARENT);
	processes_fork(&manager, PARENT, CHILD);
	cr_expect_eq(mappings_of(CHILD), 2);
	cr_expect_eq(manager.processes.waiting, 0);
}

Test(processes, descendants_get_the_list_as_soon_as_the_maps_are_read)
{
	processes_fork(&manager, PARENT, CHILD);
	processes_fork(&manager, CHILD, GRANDCHILD);
	cr_expect_eq(mappings_of(GRANDCHILD), 0);
	/* A process that has ended still has stacks that wait. */
	processes_exit(&manager, CHILD, 1);
	read_maps(PARENT);
	cr_expect_eq(mappings_of(CHILD), 2);
	cr_expect_eq(mappings_of(GRANDCHILD), 2);
	cr_expect_str_eq(processes_find(&manager.processes, GRANDCHILD)->comm, "parent");
	cr_expect_neq(processes_find(&manager.processes, CHILD)->exited_ns, 0);
}

Test(processes, a_child_does_not_get_the_list_of_a_program_that_its_parent_executed_later)
{
	processes_fork(&manager, PARENT, CHILD);
	processes_exec(&manager, PARENT, "other", 1);
	read_maps(PARENT);
	cr_expect_eq(mappings_of(PARENT), 2);
	cr_expect_eq(mappings_of(CHILD), 0);
}

Test(processes, a_child_that_executes_a_program_waits_no_longer)
{
	processes_fork(&manager, PARENT, CHILD);
	processes_exec(&manager, CHILD, "child", 1);
	cr_expect_eq(manager.processes.waiting, 0);
	read_maps(PARENT);
	cr_expect_eq(mappings_of(CHILD), 0);
	cr_expect_str_eq(processes_find(&manager.processes, CHILD)->comm, "child");
}

Test(processes, a_list_that_was_requested_before_the_exit_does_not_keep_the_process)
{
	processes_rescan(&manager, PARENT, 1);
	processes_exit(&manager, PARENT, 2);
	read_maps(PARENT);
	cr_expect_eq(mappings_of(PARENT), 2, "its last stacks may still wait");
	reclaim();
	cr_expect_null(processes_find(&manager.processes, PARENT));
}

Test(processes, a_list_that_was_requested_after_the_exit_is_of_a_new_process)
{
	read_maps(PARENT);
	processes_exit(&manager, PARENT, 1);
	processes_rescan(&manager, PARENT, 2);
	read_maps(PARENT);
	reclaim();
	cr_expect_eq(mappings_of(PARENT), 2);
}

/* There are no slabs here, so that lists cannot be published. */
Test(processes, a_process_that_has_ended_does_not_wait_for_a_slab)
{
	read_maps(PARENT);
	read_maps(CHILD);
	processes_exit(&manager, CHILD, 1);
	processes_publish(&manager);
	cr_expect_eq(processes_find(&manager.processes, PARENT)->dirty, 1);
	processes_reclaim(&manager, UINT64_MAX);
	cr_expect_not_null(processes_find(&manager.processes, PARENT));
	cr_expect_null(processes_find(&manager.processes, CHILD));
}

/* Such maps are large, and to read them again would not help. */
Test(processes, maps_for_which_there_is_no_room_are_not_read_twice_a_second)
{
	static char many[(PROCESS_MAPPINGS_MAX + 1) * 64];
	size_t length = 0;

	for (unsigned int i = 0; i <= PROCESS_MAPPINGS_MAX; i++)
		length +=
		    (size_t)snprintf(many + length, sizeof(many) - length,
				     "%x000-%x000 r-xp 00000000 00:00 0 \n", 2 * i, 2 * i + 1);
	processes_rescan(&manager, PARENT, 1);
	processes_set_maps(&manager, PARENT, many, length, "parent");
	cr_expect_eq(mappings_of(PARENT), PROCESS_MAPPINGS_MAX);
	processes_rescan(&manager, PARENT, 1 + LIMIT_RESCAN_MS * NS_PER_MS);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1);
	processes_rescan(&manager, PARENT, 1 + LIMIT_REFUSED_RETRY_MS * NS_PER_MS);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 2);
	read_maps(CHILD);
	processes_rescan(&manager, CHILD, 1);
	processes_rescan(&manager, CHILD, 1 + LIMIT_RESCAN_MS * NS_PER_MS);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 4);
}

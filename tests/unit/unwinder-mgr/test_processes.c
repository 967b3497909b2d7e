/* SPDX-License-Identifier: Apache-2.0 */
/* Which mappings the children of a process get whose maps are not read yet. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/time_units.h"
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
	processes_set_maps(&manager, tgid, maps, strlen(maps), "parent", 1);
}

/* Drops the processes that ended long ago. There are no slabs there, so that their lists wait to be
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
	processes_fork(&manager, PARENT, CHILD, 1);
	cr_expect_eq(mappings_of(CHILD), 2);
	cr_expect_eq(manager.processes.waiting, 0);
}

Test(processes, descendants_get_the_list_as_soon_as_the_maps_are_read)
{
	processes_fork(&manager, PARENT, CHILD, 1);
	processes_fork(&manager, CHILD, GRANDCHILD, 1);
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
	processes_fork(&manager, PARENT, CHILD, 1);
	processes_exec(&manager, PARENT, "other", 1);
	read_maps(PARENT);
	cr_expect_eq(mappings_of(PARENT), 2);
	cr_expect_eq(mappings_of(CHILD), 0);
}

Test(processes, a_child_that_executes_a_program_waits_no_longer)
{
	processes_fork(&manager, PARENT, CHILD, 1);
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

/* They may have been read while the process started, and what it has mapped since is not known. */
Test(processes, maps_are_requested_again_sooner_after_events_were_lost)
{
	const uint64_t lost_ns = NS_PER_S, again_ns = LIMIT_RESCAN_LOST_MS * NS_PER_MS;

	manager.sideband.lost_ns = lost_ns;
	processes_rescan(&manager, PARENT, lost_ns);
	processes_rescan(&manager, PARENT, lost_ns + again_ns - 1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1);
	processes_rescan(&manager, PARENT, lost_ns + again_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 2);
	const uint64_t later_ns = lost_ns + LIMIT_LOST_LATELY_MS * NS_PER_MS;
	processes_rescan(&manager, PARENT, later_ns);
	processes_rescan(&manager, PARENT, later_ns + again_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 3);
	processes_rescan(&manager, PARENT, later_ns + LIMIT_RESCAN_MS * NS_PER_MS);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 4);
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
	processes_set_maps(&manager, PARENT, many, length, "parent", 1);
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

static bool has_list_at(uint64_t start_ns, uint64_t time_ns)
{
	const struct bh_sample sample = {
	    .tgid = CHILD, .process_start_ns = start_ns, .time_ns = time_ns};

	return processes_list_at(&manager, &sample) != NULL;
}

/* The other one ended before the fork, or it was forked since and nothing is known of it yet. */
Test(processes, a_stack_is_not_walked_by_the_mappings_of_another_process_with_its_pid)
{
	const uint64_t now_ns = clock_monotonic_ns();
	const uint64_t boot_ns = clock_monotonic_to_boot_ns(now_ns);

	manager_add_slab();
	read_maps(PARENT);
	processes_fork(&manager, PARENT, CHILD, now_ns);
	processes_publish(&manager);
	cr_expect(has_list_at(boot_ns - NS_PER_MS, now_ns + 1));
	cr_expect_not(has_list_at(boot_ns - NS_PER_MS, now_ns - 1),
		      "it was sampled before the fork");
	cr_expect_not(has_list_at(boot_ns + NS_PER_S, now_ns + 2 * NS_PER_S), "it started later");
	/* BPF compares as well. */
	const uint64_t alive_ns = processes_find(&manager.processes, CHILD)->slot->alive_ns;

	cr_expect(alive_ns > boot_ns - NS_PER_S && alive_ns < boot_ns + NS_PER_S);
	processes_exec(&manager, CHILD, "program", now_ns + 3 * NS_PER_S);
	processes_set_maps(&manager, CHILD, maps, strlen(maps), "program", now_ns + 2 * NS_PER_S);
	cr_expect(has_list_at(boot_ns + 2 * NS_PER_S, now_ns + 4 * NS_PER_S));
}

/* The exit of CHILD is lost. A scan finds PARENT only. */
static void lose_exit(void)
{
	read_maps(PARENT);
	read_maps(CHILD);
	manager.processes.scans++;
	processes_on_answer(&manager, PARENT, 0, false);
	manager.processes.scans_done = manager.processes.scans;
}

Test(processes, one_that_a_scan_does_not_find_is_asked_for_and_ends)
{
	lose_exit();
	processes_retry(&manager, NS_PER_S);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1);
	processes_retry(&manager, 2 * NS_PER_S);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1, "not again at once");
	processes_on_answer(&manager, CHILD, ESRCH, false);
	cr_expect_neq(processes_find(&manager.processes, CHILD)->exited_ns, 0);
	reclaim();
	cr_expect_null(processes_find(&manager.processes, CHILD));
	cr_expect_not_null(processes_find(&manager.processes, PARENT));
}

Test(processes, one_that_a_scan_does_not_find_but_that_runs_stays)
{
	lose_exit();
	processes_retry(&manager, NS_PER_S);
	processes_on_answer(&manager, CHILD, EACCES, false);
	cr_expect_eq(processes_find(&manager.processes, CHILD)->exited_ns, 0);
	processes_retry(&manager, 100 * NS_PER_S);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1);
}

/* It is reaped later, without an event. */
Test(processes, a_zombie_is_asked_for_until_it_has_ended)
{
	lose_exit();
	for (uint64_t i = 1; i <= 3; i++) {
		processes_retry(&manager, i * 100 * NS_PER_S);
		cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], i);
		processes_on_answer(&manager, CHILD, 0, true);
	}
	processes_on_answer(&manager, CHILD, ENOENT, false);
	cr_expect_neq(processes_find(&manager.processes, CHILD)->exited_ns, 0);
}

/* Its first thread has ended, and with it the only event. Others run. */
Test(processes, one_without_its_first_thread_is_asked_for_until_it_has_ended)
{
	processes_fork(&manager, PARENT, CHILD, 1);
	processes_set_maps(&manager, CHILD, maps, strlen(maps), "program", 1);
	processes_retry(&manager, 100 * NS_PER_S);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 0);
	processes_watch_end(&manager, CHILD);
	for (uint64_t i = 1; i <= 3; i++) {
		processes_retry(&manager, i * 100 * NS_PER_S);
		cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], i);
		processes_on_answer(&manager, CHILD, 0, false);
		processes_set_maps(&manager, CHILD, maps, strlen(maps), "program", 1);
		processes_watch_end(&manager, CHILD);
	}
	processes_on_answer(&manager, CHILD, ENOENT, false);
	cr_expect_neq(processes_find(&manager.processes, CHILD)->exited_ns, 0);
}

/* They may be new: the scan has begun before. */
Test(processes, those_that_were_forked_or_executed_since_the_scan_began_stay)
{
	lose_exit();
	processes_exec(&manager, CHILD, "program", 1);
	processes_fork(&manager, PARENT, GRANDCHILD, 1);
	processes_retry(&manager, NS_PER_S / 2);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 0);
	/* An answer about an earlier process with this pid. */
	processes_on_answer(&manager, GRANDCHILD, ESRCH, false);
	cr_expect_eq(processes_find(&manager.processes, GRANDCHILD)->exited_ns, 0);
}

static uint32_t generation_with_vdso_at(const char *address)
{
	char text[128];

	snprintf(
	    text, sizeof(text),
	    "00400000-00401000 r-xp 00000000 00:00 0 \n%s000-%s001 r-xp 00000000 00:00 0 [vdso]\n",
	    address, address);
	processes_set_maps(&manager, PARENT, text, strlen(text), "parent", 1);
	return processes_find(&manager.processes, PARENT)->exec_generation;
}

/* The worker would go on with what it knows of the program before. */
Test(processes, an_exec_that_was_lost_is_noticed_by_the_address_of_the_vdso)
{
	manager_add_slab();
	cr_assert_eq(modules_add_vdso(&manager), 0);
	const uint32_t first = generation_with_vdso_at("7fff1000");

	cr_expect_eq(generation_with_vdso_at("7fff1000"), first);
	const uint32_t second = generation_with_vdso_at("7fff2000");

	cr_expect_neq(second, first);
	read_maps(PARENT);
	cr_expect_eq(processes_find(&manager.processes, PARENT)->exec_generation, second,
		     "without a vDSO nobody knows");
}

/* --- whose a process is --- */

static unsigned int asked(void)
{
	return fake_peer.attempts[MESSAGE_OPEN_MAPS];
}

static void count_as(uint32_t tgid, uint32_t uid)
{
	static const char text[] = "00400000-00401000 r-xp 00000000 00:00 0 \n";

	cr_assert(processes_may_read_maps(&manager, tgid, tenant_of(uid, 0)));
	processes_set_tenant(&manager, tgid, tenant_of(uid, 0));
	processes_set_maps(&manager, tgid, text, strlen(text), "program", 1);
	shares_follow_nobody(&manager.shares);
}

static uint32_t uid_of(uint32_t tgid)
{
	return share_tenant(processes_find(&manager.processes, tgid)->share).uid;
}

Test(processes, who_runs_for_a_while_is_asked_for_once)
{
	count_as(PARENT, 0);
	processes_fork(&manager, PARENT, CHILD, NS_PER_S);
	processes_exec(&manager, CHILD, "shell", 2 * NS_PER_S);
	cr_expect_eq(uid_of(CHILD), 0, "its parent's, until it is known");
	processes_retry(&manager, 2 * NS_PER_S + (LIMIT_TENANT_AGE_MS - 1) * NS_PER_MS);
	cr_expect_eq(asked(), 0);
	processes_retry(&manager, 2 * NS_PER_S + LIMIT_TENANT_AGE_MS * NS_PER_MS);
	cr_expect_eq(asked(), 1);
	processes_retry(&manager, 1000 * NS_PER_S);
	cr_expect_eq(asked(), 1);
	count_as(CHILD, 1000);
	cr_expect_eq(uid_of(CHILD), 1000);
	processes_fork(&manager, CHILD, GRANDCHILD, 1001 * NS_PER_S);
	cr_expect_eq(uid_of(GRANDCHILD), 1000);
}

/* None of them is there for long enough to be asked for by its age. */
Test(processes, a_chain_of_short_processes_is_asked_for)
{
	const uint32_t links = 10 * LIMIT_TENANT_EVENTS;
	unsigned int forked_only, before;

	count_as(PARENT, 0);
	for (uint32_t i = 0; i < links; i++)
		processes_fork(&manager, PARENT + i, PARENT + i + 1, NS_PER_S);
	forked_only = asked();
	cr_expect_geq(forked_only, 5, "%u", forked_only);
	cr_expect_leq(forked_only, 11, "%u", forked_only);
	/* With the answer, there is less reason to ask. */
	count_as(PARENT + links, 1000);
	for (uint32_t i = links; i < 2 * links; i++)
		processes_fork(&manager, PARENT + i, PARENT + i + 1, NS_PER_S);
	cr_expect_eq(asked(), forked_only);
	cr_expect_eq(uid_of(PARENT + 2 * links), 1000);
	/* Each of these executes a program, which may be somebody else's. */
	before = asked();
	for (uint32_t i = 2 * links; i < 3 * links; i++) {
		processes_exec(&manager, PARENT + i, "program", NS_PER_S);
		processes_fork(&manager, PARENT + i, PARENT + i + 1, NS_PER_S);
	}
	cr_expect_geq(asked(), before + 10, "%u", asked() - before);
}

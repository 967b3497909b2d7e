/* SPDX-License-Identifier: Apache-2.0 */
/* A manager whose table of processes and whose module slots are ordinary memory, for tests of what
 * it knows of processes and files. Its peers are fakes (tests/support/fake_peer.h). */
#ifndef TESTS_UNIT_UNWINDER_MGR_MANAGER_FIXTURE_H
#define TESTS_UNIT_UNWINDER_MGR_MANAGER_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwinder-mgr/manager.h"

static struct manager manager;

static void manager_setup(void)
{
	manager.processes.table = calloc(1, sizeof(*manager.processes.table));
	manager.modules.published = calloc(MODULE_SLOTS, sizeof(*manager.modules.published));
	cr_assert(manager.processes.table && manager.modules.published);
	cr_assert_eq(modules_add_no_room(&manager), 0);
}

/* Without it, no list is published. */
static inline void manager_add_slab(void)
{
	const int fd = memfd_create("slab", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, BH_SLAB_BYTES), 0);
	cr_assert_eq(slabs_add(&manager.slabs, manager.slabs.count, fd), 0);
	close(fd);
}

/* Lets tables be built. */
static inline void manager_start_builds(void)
{
	cr_assert_eq(loop_init(&manager.role.loop), 0);
	cr_assert_eq(table_builds_start(&manager), 0);
}

static inline void manager_pause(void *context, uint32_t events)
{
	(void)context;
	(void)events;
	loop_stop(&manager.role.loop, 0);
}

static inline void manager_run_for_a_moment(void)
{
	struct loop *loop = &manager.role.loop;

	loop_set_tick(loop, 1, manager_pause, NULL);
	loop_run(loop);
	loop->stopped = false;
}

/* Waits until no file waits to be read. */
static inline void manager_finish_builds(void)
{
	while (manager.builds.lanes[0].building || manager.builds.lanes[1].building)
		manager_run_for_a_moment();
}

/* Ends all processes, and with them their modules, so that a leak is found. A module that waits for
 * the answer of the opener keeps its memory: the test answers first. */
static void manager_teardown(void)
{
	for (unsigned int i = 0; i < PROCESS_BUCKETS; i++) {
		for (struct process *p = manager.processes.buckets[i]; p; p = p->next) {
			p->dirty = false;
			processes_exit(&manager, p->tgid, 1);
		}
	}
	processes_reclaim(&manager, UINT64_MAX);
	cr_expect_eq(manager.processes.waiting, 0);
	modules_reclaim(&manager, UINT64_MAX);
	if (manager.builds.started) {
		table_builds_stop(&manager);
		loop_fini(&manager.role.loop);
	}
	free(manager.modules.published);
	free(manager.processes.table);
}

#endif

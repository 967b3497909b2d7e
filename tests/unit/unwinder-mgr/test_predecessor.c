/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that a manager finds: those of the first one are empty, and a later one empties them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "unwinder-mgr/predecessor.h"

static struct manager *manager;

static void prepare(void)
{
	manager = calloc(1, sizeof(*manager));
	manager->processes.table = calloc(1, sizeof(*manager->processes.table));
	manager->modules.published = calloc(MODULE_SLOTS, sizeof(*manager->modules.published));
	cr_assert(manager->processes.table && manager->modules.published);
}

static void end(void)
{
	free(manager->processes.table);
	free(manager->modules.published);
	free(manager);
}

TestSuite(predecessor, .init = prepare, .fini = end);

Test(predecessor, the_first_manager_finds_nothing)
{
	cr_expect_eq(predecessor_clear(manager), 0);
	cr_expect_eq(manager->modules.last_id, 0);
	for (uint32_t i = 0; i < 1u << BH_PROCESSES_BITS; i++)
		cr_assert_eq(manager->processes.table->slots[i].sequence, 0);
}

Test(predecessor, what_the_last_one_has_left_is_emptied)
{
	struct bh_process *slots = manager->processes.table->slots;
	struct bh_module *modules = manager->modules.published;

	slots[7] = (struct bh_process){.tgid = 42, .sequence = 4, .mapping_count = 3, .runtime_allowed = 1, .alive_ns = 9};
	/* It was being written. */
	slots[8] = (struct bh_process){.tgid = 43, .sequence = 5, .mapping_count = 3};
	/* It is free, and a walker may have seen its number. */
	slots[9] = (struct bh_process){.sequence = 8};
	modules[3] = (struct bh_module){.state = BH_MODULE_READY, .id = 500, .page_slab = 1, .page_count = 2};
	modules[MODULE_SLOTS - 1] = (struct bh_module){.state = BH_MODULE_REFUSED, .id = 20};
	cr_expect_eq(predecessor_clear(manager), 0);
	for (int i = 7; i < 10; i++) {
		cr_expect_eq(slots[i].tgid, 0);
		cr_expect_eq(slots[i].mapping_count, 0);
		cr_expect_eq(slots[i].runtime_allowed, 0);
		cr_expect_eq(slots[i].alive_ns, 0);
	}
	/* Even, and none that a walker can have seen. */
	cr_expect_eq(slots[7].sequence, 6);
	cr_expect_eq(slots[8].sequence, 6);
	cr_expect_eq(slots[9].sequence, 10);
	cr_expect_eq(modules[3].state, BH_MODULE_PENDING);
	cr_expect_eq(modules[3].id, 0);
	cr_expect_eq(modules[MODULE_SLOTS - 1].state, BH_MODULE_PENDING);
	cr_expect_gt(manager->modules.last_id, 500, "ids that samples contain are not used again");
}

Test(predecessor, ids_do_not_start_again)
{
	manager->modules.published[1].id = BH_MODULE_ID_MAX;
	cr_expect_eq(predecessor_clear(manager), -EOVERFLOW);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/predecessor.h"

#include <errno.h>
#include <time.h>

#include "common/sequence_lock.h"
#include "common/time_units.h"

enum {
	/* The last manager may have given more ids than are in the table, to files that have gone.
	 * Those in samples on their way are at most some seconds old. */
	IDS_LEFT_OUT = 4096,
};

/* Returns whether there was a process. */
static bool clear_processes(struct bh_process_table *table)
{
	bool any = false;

	for (uint32_t i = 0; i < 1u << BH_PROCESSES_BITS; i++) {
		struct bh_process *slot = &table->slots[i];

		if (!slot->tgid && !slot->sequence)
			continue;
		any = true;
		sequence_lock_begin(&slot->sequence);
		*slot = (struct bh_process){.sequence = slot->sequence};
		sequence_lock_end(&slot->sequence);
	}
	return any;
}

/* Returns the largest id of a module. */
static uint32_t clear_modules(struct bh_module *published)
{
	uint32_t last = 0;

	for (uint32_t i = 1; i < MODULE_SLOTS; i++) {
		if (published[i].id > last)
			last = published[i].id;
		__atomic_store_n(&published[i].state, (uint32_t)BH_MODULE_PENDING,
				 __ATOMIC_RELEASE);
		published[i].id = 0;
	}
	return last;
}

int predecessor_clear(struct manager *manager)
{
	const bool any = clear_processes(manager->processes.table);
	const uint32_t last = clear_modules(manager->modules.published);

	if (!any && !last)
		return 0;
	if (last > BH_MODULE_ID_MAX / 2)
		return -EOVERFLOW;
	manager->modules.last_id = last + IDS_LEFT_OUT;
	nanosleep(&(struct timespec){.tv_nsec = LIMIT_GRACE_MS * (long)NS_PER_MS}, NULL);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder manager: keeps track of processes and modules, builds the tables by which BPF walks
 * stacks, and walks the stacks for which the tables came too late. It has no privileges. */
#include <stdlib.h>
#include <string.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "unwinder-mgr/handlers.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/policy.h"
#include "unwinder-mgr/work.h"

/* Receives the maps and the first slab before the sandbox, because the module of the vDSO needs
 * them, and a system call (memfd_create) that the filter does not allow. Returns an exit status. */
static int manager_receive_maps(struct manager *manager)
{
	int status = STATUS_DONE;

	while (!status && (manager->role.state == ROLE_STARTING || manager->slabs.count == 0))
		status = role_receive(&manager->role, ROLE_LOADER);
	if (status)
		return status;
	int r = modules_add_no_room(manager);
	if (!r)
		r = modules_add_vdso(manager);
	if (r < 0) {
		log_error("cannot read the vDSO, so nothing is sampled: error=%s", strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

/* Sets up what the handlers need. Returns an exit status. */
static int manager_prepare(struct manager *manager)
{
	manager->slabs.loader = &manager->role.peers[ROLE_LOADER];
	if (manager->role.peers[ROLE_LOADER].fd < 0) {
		log_error("the loader is not there, so this role ends; see its messages");
		return STATUS_FAILED;
	}
	/* What its predecessor was working on when it ended must not be read. */
	const int status = role_receive(&manager->role, ROLE_CONTROL);
	if (status)
		return status;
	int r = sideband_init(manager);
	if (r < 0) {
		log_error("cannot prepare to receive events about processes and mappings, so "
			  "nothing is sampled: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return manager_receive_maps(manager);
}

int main(int argc, char **argv)
{
	struct manager *manager = calloc(1, sizeof(*manager));

	if (!manager)
		return STATUS_FAILED;
	int status = role_start(&manager->role, ROLE_MANAGER, &manager_policy, argc, argv);
	manager_set_handlers(manager);
	if (!status)
		status = role_meet(&manager->role);
	if (!status)
		status = manager_prepare(manager);
	if (!status)
		status = role_enter_sandbox(&manager->role);
	if (status)
		return status;
	process_reader_init(&manager->reader, &manager->role.loop, "bulkhead-mgrh",
			    manager->role.work_page);
	int r = table_builds_start(manager);
	if (r >= 0)
		r = process_reader_start(&manager->reader);
	if (r < 0) {
		log_error("cannot start the processes that read files, so nothing is sampled; the "
			  "limit of processes may be reached: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	work_start(manager);
	if (role_watch_peers(&manager->role) < 0)
		return STATUS_FAILED;
	status = loop_run(&manager->role.loop);
	table_builds_stop(manager);
	process_reader_stop(&manager->reader);
	return status;
}

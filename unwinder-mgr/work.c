/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see work.h. */
#include "unwinder-mgr/work.h"

#include "common/clock.h"
#include "common/log.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_table.h"
#include "unwinder-mgr/process_files.h"
#include "unwinder-mgr/process_reports.h"

enum {
	TICK_MS = 1000,
	/* Processes and modules are searched for unused ones at most this often, since that visits
	 * all of them. */
	RECLAIM_MS = 250,
	/* Deferred stacks are still walked for this long after STOP. */
	DRAIN_MS = 1000,
	/* The programs that run when a recording starts should have their tables by then. Others
	 * have their first stacks deferred. */
	READY_MS = 250,
};

/* Lets the opener report every process that runs. */
static void work_scan(struct manager *manager)
{
	if (peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_SCAN, NULL, 0, NULL, 0) < 0)
		return;
	manager->scan_wanted = false;
	manager->scanning = true;
	manager->scanned_ns = clock_monotonic_ns();
	manager->processes.scans++;
}

void work_lose_opener(struct manager *manager)
{
	manager->scanning = false;
	manager->scan_wanted = true;
}

void work_ask_opener(struct manager *manager)
{
	modules_ask_again(&manager->modules);
	processes_ask_again(&manager->processes);
	manager->scan_wanted = true;
	work_scan(manager);
}

void work_tell_worker(struct manager *manager)
{
	manager->worker_told = false;
	modules_tell_worker(manager);
	processes_tell_worker(&manager->processes);
}

void work_end_scan(struct manager *manager)
{
	manager->scanning = false;
	manager->processes.scans_done = manager->processes.scans;
	manager->scan_took_ns = clock_monotonic_ns() - manager->scanned_ns;
}

/* Returns whether all processes should be scanned again, and the last scan was long enough ago. */
static bool work_is_scan_due(const struct manager *manager, uint64_t now)
{
	const uint64_t least_ns = LIMIT_SCAN_MS * NS_PER_MS;
	const uint64_t pause_ns = (1 + LIMIT_SCAN_PAUSES) * manager->scan_took_ns;

	return manager->scan_wanted && !manager->scanning &&
	       now - manager->scanned_ns > (pause_ns > least_ns ? pause_ns : least_ns);
}

static void work_tell_drained(struct manager *manager)
{
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_DRAINED, &manager->losses,
		  sizeof(manager->losses), NULL, 0);
}

static void work_check_ready(struct manager *manager, uint64_t now)
{
	const bool done = !manager->scanning && !manager->scan_wanted &&
			  !modules_pending(&manager->modules) && !manager->modules.unannounced;

	if (manager->role.state != ROLE_CONFIGURED ||
	    (!done && now - manager->started_ns < READY_MS * NS_PER_MS))
		return;
	if (!done)
		log_warning("the files of some programs are not read yet; until then their "
			    "functions lack names, or are shown as native code");
	manager->role.state = ROLE_READY;
	role_send_status(&manager->role, &(struct msg_status){0});
}

/* Tells a worker once that it has heard of everything that there was when it connected. */
static void work_tell_scanned(struct manager *manager)
{
	struct peer *worker = &manager->role.peers[ROLE_WORKER];

	if (manager->worker_told || worker->fd < 0 || manager->role.state < ROLE_READY)
		return;
	manager->worker_told = true;
	peer_send(worker, MESSAGE_SCANNED, NULL, 0, NULL, 0);
	/* One that is started while the agent stops. */
	if (manager->role.state == ROLE_STOPPED)
		work_tell_drained(manager);
}

void work_stop(struct manager *manager)
{
	manager->role.state = ROLE_STOPPING;
	manager->drain_deadline_ns = clock_monotonic_ns() + DRAIN_MS * NS_PER_MS;
}

/* Sends every stack that still waits, and reports to the worker and the CLI that there will be no
 * more. */
static void work_finish(struct manager *manager)
{
	deferred_process(manager, true);
	log_debug("at the end: processes=%u modules=%u rules=%u slabs=%u free_bytes=%llu "
		  "sideband_lost=%llu",
		  manager->processes.count, manager->modules.count, manager->rules.used,
		  manager->slabs.count, (unsigned long long)manager->slabs.free_bytes,
		  (unsigned long long)manager->sideband.lost);
	work_tell_drained(manager);
	manager->role.state = ROLE_STOPPED;
	role_send_status(&manager->role, &(struct msg_status){0});
}

/* Returns in how many milliseconds there may be something to do. */
static int work_next_tick_ms(const struct manager *manager, uint64_t now)
{
	const uint64_t free_ns = slabs_next_free_ns(&manager->slabs);

	if (manager->role.state == ROLE_CONFIGURED || manager->role.state == ROLE_STOPPING ||
	    manager->scan_wanted || manager->modules.unannounced ||
	    manager->modules.any_wanted_elsewhere || manager->modules.any_memory_is_new ||
	    manager->deferred.first || free_ns <= now)
		return WORK_SOON_MS;
	if (free_ns - now < TICK_MS * NS_PER_MS)
		return (int)((free_ns - now) / NS_PER_MS) + 1;
	return TICK_MS;
}

static void work_reclaim(struct manager *manager, uint64_t now)
{
	if (now - manager->reclaimed_ns < RECLAIM_MS * NS_PER_MS)
		return;
	manager->reclaimed_ns = now;
	processes_reclaim(manager, now);
	modules_reclaim(manager, now);
	process_files_request_missing(manager, now);
	processes_retry(manager, now);
	table_builds_again(manager, now);
	shares_reclaim(&manager->shares, now);
}

static void work_on_tick(void *context, uint32_t events)
{
	struct manager *manager = context;
	const uint64_t now = clock_monotonic_ns();

	(void)events;
	sideband_process(manager);
	sideband_listen(manager, true);
	deferred_consume(manager);
	deferred_process(manager, false);
	slabs_reclaim(&manager->slabs, now);
	modules_place_waiting(manager);
	modules_announce_waiting(manager);
	table_builds_tick(manager, now);
	process_reader_tick(&manager->reader);
	process_files_request_elsewhere(manager);
	process_files_publish_memory(manager);
	work_reclaim(manager, now);
	processes_publish(manager);
	work_check_ready(manager, now);
	work_tell_scanned(manager);
	if (work_is_scan_due(manager, now))
		work_scan(manager);
	if (manager->role.state == ROLE_STOPPING &&
	    (!manager->deferred.first || now >= manager->drain_deadline_ns))
		work_finish(manager);
	loop_tick_within(&manager->role.loop, work_next_tick_ms(manager, now));
}

void work_start(struct manager *manager)
{
	loop_set_tick(&manager->role.loop, TICK_MS, work_on_tick, manager);
	manager->started_ns = clock_monotonic_ns();
	manager->scan_wanted = true;
}

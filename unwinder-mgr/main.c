/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder manager: knows processes and modules, builds the tables that BPF unwinds by, walks
 * the stacks that came too early. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "parse/proc_maps.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/policy.h"

enum {
	MANAGER_TICK_MS = 1000,
	MANAGER_BUSY_MS = 10,	  /* while something waits: stacks, memory, the drain */
	MANAGER_RECLAIM_MS = 250, /* what is gone is looked for among all there is */
	MANAGER_SCAN_MS = 2000,	  /* after losses of the sideband, at most this often */
	MANAGER_DRAIN_MS = 1000,
	/* What runs when a recording starts should have its tables by then; who takes longer has
	 * deferred stacks. */
	MANAGER_READY_MS = 250,
};

static void *map_writable(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void on_deferred_readable(void *context, uint32_t events)
{
	struct manager *manager = context;

	(void)events;
	/* What is known of the processes first. */
	sideband_process(manager);
	deferred_consume(manager);
	loop_tick_within(&manager->role.loop, MANAGER_BUSY_MS);
}

/* ---- Messages. ---- */

static int manager_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct manager *manager = context;

	manager->processes.table = map_writable(message->fds[0], sizeof(struct bh_process_table));
	manager->modules.published =
	    map_writable(message->fds[1], MODULE_SLOTS * sizeof(struct bh_module));
	struct bh_rule *rules = map_writable(message->fds[2], RULES_MAX * sizeof(struct bh_rule));
	if (!manager->processes.table || !manager->modules.published || !rules)
		return -ENOMEM;
	rules_init(&manager->rules, rules);
	/* Slot 0: memory without a file. */
	manager->modules.published[0] = (struct bh_module){.state = BH_MODULE_FRAME_POINTERS};
	int r = bpf_ring_init(&manager->deferred.ring, message->fds[3], maps->ring_bytes);
	if (r < 0)
		return r;
	message->fds[3] = -1;
	manager->role.state = ROLE_CONFIGURED;
	return loop_add(&manager->role.loop, manager->deferred.ring.fd, EPOLLIN,
			on_deferred_readable, manager);
}

static int manager_on_slab(void *context, const struct msg_id *slab, struct message *message)
{
	struct manager *manager = context;
	int r = slabs_add(&manager->slabs, slab->id, message->fd_count ? message->fds[0] : -1);

	modules_place_waiting(manager);
	processes_publish(manager);
	return r == -ENOMEM ? 0 : r;
}

static int manager_on_sideband(void *context, const struct msg_id *cpu, struct message *message)
{
	int r = sideband_add(context, cpu->id, message->fds[0]);

	if (r < 0)
		log_error(
		    "cannot map a sideband ring: cpu=%u error=%s; see kernel.perf_event_mlock_kb",
		    cpu->id, strerror(-r));
	else
		message->fds[0] = -1;
	return r;
}

/* All of a /proc file, up to a cap; what lies behind is missing, and mends itself when it is
 * sampled. */
static char *read_text(int fd, size_t cap, size_t *length)
{
	size_t capacity = 16 << 10;
	char *text = malloc(capacity);

	*length = 0;
	while (text) {
		ssize_t n = read(fd, text + *length, capacity - *length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || (*length += (size_t)n) >= cap)
			return text;
		if (*length == capacity) {
			capacity *= 2;
			char *grown = realloc(text, capacity);
			if (!grown)
				free(text);
			text = grown;
		}
	}
	return NULL;
}

static int manager_on_process_maps(void *context, const struct msg_maps_of *answer,
				   struct message *message)
{
	struct manager *manager = context;
	char comm[BH_COMM_BYTES] = "";
	char stat[512];
	size_t length;

	if (message->fd_count != 2)
		return 0;
	/* The text is as of now: first what happened before. */
	sideband_process(manager);
	ssize_t n = read(message->fds[1], stat, sizeof(stat));
	if (n > 0)
		proc_stat_comm(stat, (size_t)n, comm, sizeof(comm));
	_cleanup_free_ char *text = read_text(message->fds[0], LIMIT_MAPS_BYTES, &length);
	/* Empty for kernel threads and for processes that have just ended. */
	if (text && length)
		processes_set_maps(manager, answer->tgid, text, length, comm);
	return 0;
}

static int manager_on_file(void *context, const struct msg_file *answer, struct message *message)
{
	struct manager *manager = context;
	int fd = -1;

	if (message->fd_count) {
		fd = message->fds[0];
		message->fds[0] = -1;
	}
	const struct modules_answer result = modules_on_file(manager, answer, fd);

	processes_apply_answer(manager, &result);
	return 0;
}

static int manager_on_scan_done(void *context)
{
	struct manager *manager = context;

	manager->scanning = false;
	return 0;
}

static int manager_on_watch(void *context, const struct msg_id *watched)
{
	struct manager *manager = context;
	struct module *module = modules_find(&manager->modules, watched->id);

	if (module)
		processes_watch(manager, module);
	return 0;
}

static int manager_on_stop(void *context)
{
	struct manager *manager = context;

	manager->role.state = ROLE_STOPPING;
	manager->drain_deadline_ns = clock_monotonic_ns() + MANAGER_DRAIN_MS * 1000000ull;
	return 0;
}

#define MANAGER_HANDLERS(HANDLER, REFUSED)                                                         \
	HANDLER(MANAGER_MAPS, manager_on_maps)                                                     \
	HANDLER(SLAB, manager_on_slab)                                                             \
	HANDLER(SIDEBAND, manager_on_sideband)                                                     \
	HANDLER(MAPS, manager_on_process_maps)                                                     \
	HANDLER(FILE, manager_on_file)                                                             \
	HANDLER(SCAN_DONE, manager_on_scan_done)                                                   \
	HANDLER(WATCH, manager_on_watch)                                                           \
	HANDLER(STOP, manager_on_stop)
MESSAGE_HANDLERS(manager_handlers, MANAGER, MANAGER_HANDLERS);

static void manager_after_message(void *context)
{
	struct manager *manager = context;

	processes_publish(manager);
	loop_tick_within(&manager->role.loop, MANAGER_BUSY_MS);
}

/* ---- Work. ---- */

/* What runs already: the opener goes through /proc. */
static int manager_scan(struct manager *manager)
{
	manager->scan_wanted = false;
	manager->scanning = true;
	manager->scanned_ns = clock_monotonic_ns();
	return peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_SCAN, NULL, 0, NULL, 0);
}

static void manager_check_ready(struct manager *manager, uint64_t now)
{
	const bool settled = !manager->scanning && !modules_pending(&manager->modules);

	if (manager->role.state != ROLE_CONFIGURED ||
	    (!settled && now - manager->started_ns < MANAGER_READY_MS * 1000000ull))
		return;
	manager->role.state = ROLE_READY;
	role_send_status(&manager->role, &(struct msg_status){0});
}

/* Everything that was sampled is on its way to the worker. */
static void manager_finish(struct manager *manager)
{
	deferred_process(manager, true);
	log_debug("at the end: processes=%u modules=%u rules=%u slabs=%u free_bytes=%llu "
		  "sideband_lost=%llu",
		  manager->processes.count, manager->modules.count, manager->rules.used,
		  manager->slabs.count, (unsigned long long)manager->slabs.free_bytes,
		  (unsigned long long)manager->sideband.lost);
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_DRAINED, &manager->losses,
		  sizeof(manager->losses), NULL, 0);
	manager->role.state = ROLE_STOPPED;
	role_send_status(&manager->role, &(struct msg_status){0});
}

/* When there will be something to do that no message and no record tells of. */
static int manager_next_tick_ms(const struct manager *manager, uint64_t now)
{
	if (manager->role.state == ROLE_CONFIGURED || manager->role.state == ROLE_STOPPING ||
	    manager->scan_wanted || manager->deferred.first)
		return MANAGER_BUSY_MS;
	const uint64_t free_ns = slabs_next_free_ns(&manager->slabs);
	if (free_ns <= now)
		return MANAGER_BUSY_MS;
	if (free_ns - now < MANAGER_TICK_MS * 1000000ull)
		return (int)((free_ns - now) / 1000000) + 1;
	return MANAGER_TICK_MS;
}

static void manager_reclaim(struct manager *manager, uint64_t now)
{
	if (now - manager->reclaimed_ns < MANAGER_RECLAIM_MS * 1000000ull)
		return;
	manager->reclaimed_ns = now;
	processes_reclaim(manager, now);
	modules_reclaim(manager, now);
}

static void manager_on_tick(void *context, uint32_t events)
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
	manager_reclaim(manager, now);
	processes_publish(manager);
	manager_check_ready(manager, now);
	if (manager->scan_wanted && now - manager->scanned_ns > MANAGER_SCAN_MS * 1000000ull)
		manager_scan(manager);
	if (manager->role.state == ROLE_STOPPING &&
	    (!manager->deferred.first || now >= manager->drain_deadline_ns))
		manager_finish(manager);
	loop_tick_within(&manager->role.loop, manager_next_tick_ms(manager, now));
}

/* Receive the maps and the first slab before the sandbox: the module of the vDSO needs them, and a
 * system call (memfd_create) that the filter does not allow. An exit status. */
static int manager_receive_maps(struct manager *manager)
{
	int status = STATUS_DONE;

	while (!status && (manager->role.state == ROLE_STARTING || manager->slabs.count == 0))
		status = role_receive(&manager->role, ROLE_LOADER);
	if (status)
		return status;
	int r = modules_add_vdso(manager);
	if (r < 0) {
		log_error("cannot read the vDSO: error=%s", strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

int main(int argc, char **argv)
{
	struct manager *manager = calloc(1, sizeof(*manager));

	if (!manager)
		return STATUS_FAILED;
	int status = role_start(&manager->role, ROLE_MANAGER, &manager_policy, argc, argv);
	if (!status)
		status =
		    role_meet(&manager->role,
			      ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_OPENER) | ROLE_BIT(ROLE_WORKER),
			      ROLE_BIT(ROLE_CLI));
	if (status)
		return status;
	manager->slabs.loader = &manager->role.peers[ROLE_LOADER];
	manager->role.handlers = &manager_handlers;
	manager->role.context = manager;
	manager->role.after_message = manager_after_message;
	int r = sideband_init(manager);
	if (r < 0) {
		log_error("cannot prepare the sideband: error=%s", strerror(-r));
		return STATUS_FAILED;
	}
	status = manager_receive_maps(manager);
	if (status)
		return status;
	status = role_enter_sandbox(&manager->role);
	if (status)
		return status;
	if (role_watch_peers(&manager->role) < 0)
		return STATUS_FAILED;
	loop_set_tick(&manager->role.loop, MANAGER_TICK_MS, manager_on_tick, manager);
	manager->started_ns = clock_monotonic_ns();
	if (manager_scan(manager) < 0)
		return STATUS_FAILED;
	return loop_run(&manager->role.loop);
}

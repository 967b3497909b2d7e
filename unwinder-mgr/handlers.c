/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to the manager. ipc/messages.def says who sends it and when. */
#include "unwinder-mgr/handlers.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/map_shared.h"
#include "common/tenant.h"
#include "parse/cgroup.h"
#include "parse/proc_maps.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_table.h"
#include "unwinder-mgr/predecessor.h"
#include "unwinder-mgr/process_files.h"
#include "unwinder-mgr/process_reports.h"
#include "unwinder-mgr/work.h"

enum {
	/* Bytes that are read of /proc/PID/stat, which has the name as its second field. */
	STAT_BYTES = 512,
	/* The first size of the buffer for /proc/PID/maps: most processes have no more. */
	MAPS_FIRST_BYTES = 16 << 10,
};

static void on_deferred_readable(void *context, uint32_t events)
{
	struct manager *manager = context;

	(void)events;
	/* The processes come first: a stack may belong to one that the sideband has yet to
	 * report. */
	sideband_process(manager);
	deferred_consume(manager);
	loop_tick_within(&manager->role.loop, WORK_SOON_MS);
}

static int manager_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct manager *manager = context;

	if (role_has_maps(&manager->role, maps))
		return 0;
	manager->processes.table =
	    map_shared(message->fds[0], sizeof(struct bh_process_table), PROT_READ | PROT_WRITE, 0);
	manager->modules.published = map_shared(
	    message->fds[1], MODULE_SLOTS * sizeof(struct bh_module), PROT_READ | PROT_WRITE, 0);
	struct bh_rule *rules = map_shared(message->fds[2], RULES_MAX * sizeof(struct bh_rule),
					   PROT_READ | PROT_WRITE, 0);
	if (!manager->processes.table || !manager->modules.published || !rules)
		return -ENOMEM;
	int r = predecessor_clear(manager);
	if (r < 0)
		return r;
	manager->modules.runtimes = maps->runtimes;
	rules_init(&manager->rules, rules);
	/* Slot 0 is for memory without a file. */
	manager->modules.published[0] = (struct bh_module){.state = BH_MODULE_FRAME_POINTERS};
	r = bpf_ring_init(&manager->deferred.ring, message->fds[3], maps->ring_bytes);
	if (r < 0)
		return r;
	message->fds[3] = -1;
	if (manager->role.again)
		bpf_ring_resume(&manager->deferred.ring);
	manager->role.state = ROLE_CONFIGURED;
	slabs_begin(&manager->slabs);
	return loop_add(&manager->role.loop, manager->deferred.ring.fd, EPOLLIN,
			on_deferred_readable, manager);
}

static int manager_on_slab(void *context, const struct msg_id *slab, struct message *message)
{
	struct manager *manager = context;
	int r = slabs_add(&manager->slabs, slab->id, message->fd_count ? message->fds[0] : -1);

	modules_place_waiting(manager);
	processes_publish(manager);
	/* Without memory for the slab, the manager continues with those that it has. */
	return r == -ENOMEM ? 0 : r;
}

static int manager_on_sideband(void *context, const struct msg_id *cpu, struct message *message)
{
	int r = sideband_add(context, cpu->id, message->fds[0]);

	if (r < 0)
		log_error(
		    "cannot map the ring of a CPU for events about processes and mappings, so "
		    "nothing is sampled; raise kernel.perf_event_mlock_kb: cpu=%u error=%s",
		    cpu->id, strerror(-r));
	else
		message->fds[0] = -1;
	return r;
}

/* Whether reading this descriptor cannot wait for ever, as it may with a pipe, a socket or an
 * eventfd. The opener has no reason to send one of those. */
static bool is_regular_file(int fd)
{
	struct stat st;

	return file_read_status(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Reads which container the process of /proc/PID/cgroup is in. */
static uint64_t read_container(int fd)
{
	static char text[CGROUP_TEXT_MAX];
	const ssize_t n = file_read_fully(fd, text, sizeof(text));

	return n > 0 ? cgroup_container_of_host(text, (size_t)n) : 0;
}

/* What a reader of /proc/PID/maps needs. */
struct maps_file {
	struct process_reader *reader;
	int fd;
};

static ssize_t read_maps(void *context, uint64_t offset, void *buffer, size_t size)
{
	const struct maps_file *file = context;

	return process_reader_read(file->reader, file->fd, offset, buffer, size);
}

static int manager_on_process_maps(void *context, const struct msg_maps_of *answer,
				   struct message *message)
{
	struct manager *manager = context;
	_cleanup_free_ uint8_t *maps = NULL;
	char comm[BH_COMM_BYTES] = "", stat[STAT_BYTES];
	size_t length = 0;

	/* The process has ended, or the opener may not read it. */
	if (message->fd_count < 2) {
		processes_on_answer(manager, answer->tgid, answer->error, false);
		return 0;
	}
	for (unsigned int i = 0; i < message->fd_count; i++) {
		if (!is_regular_file(message->fds[i]))
			return -EPROTO;
	}
	const uint64_t container = message->fd_count > 2 ? read_container(message->fds[2]) : 0;
	const struct work_subject subject = {.tgid = answer->tgid,
					     .tenant = tenant_of(answer->uid, container)};
	/* It is left alone, and asked for again with the next stack that needs it. */
	if (work_is_quarantined(manager->role.work_page, &subject))
		return 0;
	/* The file shows the present, so events of the past are handled before it is read. */
	sideband_process(manager);
	if (!processes_may_read_maps(manager, answer->tgid, subject.tenant)) {
		processes_on_answer(manager, answer->tgid, 0, false);
		return 0;
	}
	const uint64_t now = clock_monotonic_ns();
	work_begin(manager->role.work_page, &subject);
	const ssize_t n = file_read_fully(message->fds[1], stat, sizeof(stat));
	if (n > 0)
		proc_stat_comm(stat, (size_t)n, comm, sizeof(comm));
	/* A longer file is used up to the limit. It is empty for kernel threads and for processes
	 * that have just ended. */
	struct maps_file file = {&manager->reader, message->fds[0]};
	const int r =
	    file_read_all_by(read_maps, &file, MAPS_FIRST_BYTES, LIMIT_MAPS_BYTES, &maps, &length);
	/* One that was not read in time is left alone, as above. */
	if (r != -ETIMEDOUT)
		processes_on_answer(manager, answer->tgid, 0, !length);
	if (r >= 0 && length) {
		processes_set_tenant(manager, answer->tgid, subject.tenant);
		processes_set_maps(manager, answer->tgid, (const char *)maps, length, comm, now);
		if (n > 0 && proc_stat_leader_ended(stat, (size_t)n))
			processes_watch_end(manager, answer->tgid);
	}
	work_end(manager->role.work_page);
	shares_follow_nobody(&manager->shares);
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
	process_files_on_answer(manager, answer, fd);
	return 0;
}

static int manager_on_scan_done(void *context)
{
	struct manager *manager = context;

	work_end_scan(manager);
	return 0;
}

/* Logs that a module is not watched, because its file lacks the symbols of a runtime. The worker
 * only asks for files that have them, so the file has changed since then, or the worker has been
 * taken over. Only the first case is logged, because both could flood the log. */
static void manager_refuse_watch(struct manager *manager, const struct module *module)
{
	char name[MSG_PATH_BYTES];

	if (manager->watch_refused)
		return;
	manager->watch_refused = true;
	log_warning("refused to report the processes that use a file which the symbolizer takes "
		    "for a language runtime, because it lacks the symbols of one: file=%s",
		    log_escape(module->path, name, sizeof(name)));
}

static void manager_watch(struct manager *manager, struct module *module)
{
	const enum runtime_access access = module_check_runtime(manager, module);

	if (access)
		processes_watch(manager, module, access);
	else
		manager_refuse_watch(manager, module);
}

static int manager_on_watch(void *context, const struct msg_id *watched)
{
	struct manager *manager = context;
	struct module *module = modules_find(&manager->modules, watched->id);

	if (module && !module->watched) {
		const struct work_subject subject = module_subject(module);

		/* A file that is left alone is not watched until the worker asks again, after its
		 * restart. */
		if (work_is_quarantined(manager->role.work_page, &subject))
			log_debug("a file is left alone, and not watched: module=%u", module->id);
		else
			manager_watch(manager, module);
	}
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_WATCHED, watched, sizeof(*watched),
		  NULL, 0);
	return 0;
}

static int manager_on_stop(void *context)
{
	work_stop(context);
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
	loop_tick_within(&manager->role.loop, WORK_SOON_MS);
}

/* The other roles may be started again. */
static bool manager_on_gone(void *context, enum role_id other, bool ended)
{
	struct manager *manager = context;

	if (other == ROLE_CONTROL || (other == ROLE_LOADER && !ended))
		return false;
	if (other == ROLE_OPENER)
		work_lose_opener(manager);
	if (other == ROLE_LOADER)
		slabs_lose_loader(&manager->slabs);
	return true;
}

static void manager_on_connected(void *context, enum role_id other)
{
	struct manager *manager = context;

	if (other == ROLE_WORKER) {
		deferred_tell_count(manager);
		work_tell_worker(manager);
	}
	if (other == ROLE_OPENER)
		work_ask_opener(manager);
	manager_after_message(manager);
}

void manager_set_handlers(struct manager *manager)
{
	manager->role.on_gone = manager_on_gone;
	manager->role.on_connected = manager_on_connected;
	manager->role.handlers = &manager_handlers;
	manager->role.context = manager;
	manager->role.after_message = manager_after_message;
}

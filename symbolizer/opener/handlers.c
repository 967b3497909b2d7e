/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to the opener. Each lets a helper open what the manager or the
 * worker asked for (lane.h). The descriptors are sent to that role when the helper has answered.
 * ipc/messages.def says who sends a message and when. */
#include "symbolizer/opener/handlers.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "symbolizer/opener/open_debug.h"
#include "symbolizer/opener/open_file.h"
#include "symbolizer/opener/open_jit_map.h"
#include "symbolizer/opener/opener.h"

enum {
	/* Of a scan, these many processes wait in the lane at a time, so that other requests wait
	 * for some milliseconds only. */
	SCAN_PROCESSES = 16,
	STALLED_POLL_MS = 5, /* until the manager may have read what was sent to it */
	/* How often there is a tick that nothing has asked for. A wake-up costs as much CPU time as
	 * other roles need for 20 samples, so an idle opener has none. */
	IDLE_TICK_MS = 60000,
};

/* --- in the helper --- */

static void add_fd(struct opened *opened, int fd)
{
	if (fd < 0)
		opened->error = fd;
	else
		opened->fds[opened->fd_count++] = fd;
}

/* Opens what may be missing or refused although the rest is not: a kernel may have no cgroups.
 * Returns the descriptor, or less than 0. */
static int open_optional(const struct opening *opening)
{
	if (opening->kind == OPENING_MAPS)
		return open_file_proc(opening->tgid, "cgroup");
	if (opening->kind == OPENING_IDENTITY && opening->environment)
		return open_file_of_memory(opening->tgid, "environ");
	return -1;
}

/* Opens everything that is asked for, or nothing. */
static void perform(const struct opening *opening, const struct directories *directories,
		    struct opened *opened)
{
	switch (opening->kind) {
	case OPENING_MAPS:
		add_fd(opened, open_file_of_memory(opening->tgid, "maps"));
		add_fd(opened, open_file_proc(opening->tgid, "stat"));
		break;
	case OPENING_FILE:
		add_fd(opened, opening->by_name
				   ? open_file_named(&opening->file, &opened->same_file)
				   : open_file_mapped(&opening->file, &opened->same_file));
		break;
	case OPENING_IDENTITY:
		/* The order matters: see struct msg_identity. */
		add_fd(opened, open_file_proc(opening->tgid, "stat"));
		add_fd(opened, open_file_proc(opening->tgid, "cgroup"));
		break;
	case OPENING_MEMORY:
		add_fd(opened, open_file_memory(&opening->memory));
		break;
	case OPENING_DEBUG:
		add_fd(opened, open_debug_file(directories, &opening->debug, &opened->debug_path));
		break;
	case OPENING_DEBUG_OF_PROCESS:
		add_fd(opened, open_debug_file_of_process(directories, &opening->debug,
							  opening->uid, &opened->debug_path));
		break;
	case OPENING_JIT_MAP:
		add_fd(opened, open_jit_map(opening->tgid, opening->uid, opening->by_name,
					    &opened->is_dump));
		break;
	case OPENING_NOTHING:
		break;
	}
	if (opened->error)
		opened_close(opened);
	const int optional = opened->error ? -1 : open_optional(opening);
	if (optional >= 0)
		add_fd(opened, optional);
}

/* --- answers --- */

static void send_maps(struct opener *opener, const struct opening *opening,
		      const struct opened *opened)
{
	const struct msg_maps_of answer = {
	    .tgid = opening->tgid, .uid = opening->uid, .error = (uint32_t)-opened->error};

	peer_send(&opener->role.peers[ROLE_MANAGER], MESSAGE_MAPS, &answer, sizeof(answer),
		  opened->fds, opened->fd_count);
}

static void send_file(struct opener *opener, const struct opening *opening,
		      const struct opened *opened)
{
	const struct msg_file answer = {.cookie = opening->file.cookie,
					.uid = opening->uid,
					.error = (uint32_t)-opened->error,
					.same_file = opened->same_file};

	peer_send(&opener->role.peers[ROLE_MANAGER], MESSAGE_FILE, &answer, sizeof(answer),
		  opened->fds, opened->fd_count);
}

/* If the worker's queue is full, the answer is dropped and the worker asks again: the manager must
 * not wait because of a slow worker. */
static void send_identity(struct opener *opener, const struct opening *opening,
			  const struct opened *opened)
{
	const struct msg_identity answer = {.tgid = opening->tgid,
					    .cookie = opening->cookie,
					    .uid = opening->uid,
					    .error = (uint32_t)-opened->error};

	peer_send(&opener->role.peers[ROLE_WORKER], MESSAGE_IDENTITY, &answer, sizeof(answer),
		  opened->fds, opened->fd_count);
}

/* Answers a request of the worker, with the descriptors if `error` is 0. */
static void send_memory(struct opener *opener, const struct msg_open_memory *request, int error,
			const struct opened *opened)
{
	struct peer *worker = &opener->role.peers[ROLE_WORKER];
	struct msg_memory answer = {.tgid = request->tgid,
				    .exec_generation = request->exec_generation,
				    .error = (uint32_t)-error};
	int r = peer_send(worker, MESSAGE_MEMORY, &answer, sizeof(answer),
			  error ? NULL : opened->fds, error ? 0 : opened->fd_count);

	if (r == -ENOBUFS) {
		answer.error = ENOBUFS;
		peer_send(worker, MESSAGE_MEMORY, &answer, sizeof(answer), NULL, 0);
	}
}

/* Sends a descriptor of a process's memory to the worker. It allows reading only, and only the
 * memory that the process has now, not that of a program which it executes later. */
static void send_opened_memory(struct opener *opener, const struct opening *opening,
			       const struct opened *opened)
{
	const struct msg_open_memory request = {.tgid = opening->tgid,
						.exec_generation = opening->memory.exec_generation};
	int error = opened->error;

	/* The manager may have forbidden it meanwhile. For the worker, a process that no longer has
	 * the mapping has ended. */
	if (!memory_permits_find(&opener->permits, &request) || error == -ENOENT ||
	    error == -ESTALE)
		error = -ESRCH;
	send_memory(opener, &request, error, opened);
}

/* If the worker's queue is full, the file is closed, and the worker asks again later. */
static void send_debug(struct opener *opener, const struct opening *opening,
		       const struct opened *opened)
{
	struct peer *worker = &opener->role.peers[ROLE_WORKER];
	struct msg_debug_file answer = {.module = opening->debug.module,
					.place = opening->debug.place,
					.path = opened->debug_path,
					.error = (uint32_t)-opened->error};
	int r = peer_send(worker, MESSAGE_DEBUG_FILE, &answer, sizeof(answer), opened->fds,
			  opened->fd_count);

	if (r == -ENOBUFS) {
		answer.error = ENOBUFS;
		peer_send(worker, MESSAGE_DEBUG_FILE, &answer, sizeof(answer), NULL, 0);
	}
}

/* If the worker's queue is full, the file is closed, and the worker asks again later. */
static void send_jit_map(struct opener *opener, const struct opening *opening,
			 const struct opened *opened)
{
	struct peer *worker = &opener->role.peers[ROLE_WORKER];
	struct msg_jit_map answer = {.tgid = opening->tgid,
				     .cookie = opening->cookie,
				     .uid = opening->uid,
				     .error = (uint32_t)-opened->error,
				     .is_dump = opened->is_dump};
	int r = peer_send(worker, MESSAGE_JIT_MAP, &answer, sizeof(answer), opened->fds,
			  opened->fd_count);

	if (r == -ENOBUFS) {
		answer.error = ENOBUFS;
		peer_send(worker, MESSAGE_JIT_MAP, &answer, sizeof(answer), NULL, 0);
	}
}

/* --- lanes --- */

/* Gives a request to its lane. One for which there is no room is not answered: an honest manager or
 * worker has fewer. */
static int open_for(struct opener *opener, struct opening opening)
{
	/* A directory of debug files, or of a map, may be on any file system; most are on this
	 * disk. */
	const bool without_disk = opening_is_for_debug(&opening) ||
				  opening.kind == OPENING_JIT_MAP ||
				  opening_is_without_disk(&opening);
	const enum opener_lane lane = without_disk ? LANE_WITHOUT_DISK : LANE_USUAL;

	opening.uid = open_file_uid(opening.tgid);
	const int r = lane_add(&opener->lanes[lane], &opening);
	return r == -ENOBUFS ? 0 : r;
}

/* Returns the next process in /proc, or 0 after the last one. */
static uint32_t next_process(DIR *proc)
{
	for (struct dirent *entry; (entry = readdir(proc));) {
		char *end;
		const unsigned long tgid = strtoul(entry->d_name, &end, 10);

		if (!*end && end != entry->d_name && tgid > 0 && tgid <= UINT32_MAX)
			return (uint32_t)tgid;
	}
	return 0;
}

/* Continues a scan. The manager needs the files of the first processes before it knows the last
 * one, so only a few wait in the lane at a time. */
static void scan_some(struct opener *opener)
{
	if (opener->adding_scans)
		return;
	opener->adding_scans = true;
	while (opener->scanning && opener->lanes[LANE_USUAL].count < SCAN_PROCESSES) {
		const uint32_t tgid = next_process(opener->proc);

		opener->scanning = tgid != 0;
		open_for(opener, (struct opening){.kind = tgid ? OPENING_MAPS : OPENING_NOTHING,
						  .tgid = tgid});
	}
	opener->adding_scans = false;
}

static void on_done(void *context, const struct opening *opening, const struct opened *opened)
{
	struct opener *opener = context;

	switch (opening->kind) {
	case OPENING_MAPS:
		send_maps(opener, opening, opened);
		scan_some(opener);
		break;
	case OPENING_FILE:
		send_file(opener, opening, opened);
		break;
	case OPENING_IDENTITY:
		send_identity(opener, opening, opened);
		break;
	case OPENING_MEMORY:
		send_opened_memory(opener, opening, opened);
		break;
	case OPENING_DEBUG:
	case OPENING_DEBUG_OF_PROCESS:
		send_debug(opener, opening, opened);
		break;
	case OPENING_JIT_MAP:
		send_jit_map(opener, opening, opened);
		break;
	case OPENING_NOTHING:
		peer_send(&opener->role.peers[ROLE_MANAGER], MESSAGE_SCAN_DONE, NULL, 0, NULL, 0);
		break;
	}
}

/* Nothing may be dropped for want of room in the manager's queue, so it must have sent all before
 * there is more. */
static bool manager_is_stalled(void *context)
{
	struct opener *opener = context;

	if (!opener->role.peers[ROLE_MANAGER].first)
		return false;
	loop_tick_within(&opener->role.loop, STALLED_POLL_MS);
	return true;
}

static void on_tick(void *context, uint32_t events)
{
	struct opener *opener = context;

	(void)events;
	for (int i = 0; i < LANE_COUNT; i++)
		lane_tick(&opener->lanes[i]);
	scan_some(opener);
}

/* --- requests --- */

static int opener_on_configure(void *context, const struct msg_configure_opener *config,
			       struct message *message)
{
	struct opener *opener = context;
	struct directories *directories = &opener->owner.directories;

	for (unsigned int i = 0; i < message->fd_count; i++) {
		directories->fds[directories->count++] = message->fds[i];
		message->fds[i] = -1;
	}
	opener->environment_allowed = config->allow_environment;
	opener->memory_allowed = config->allow_memory;
	return 0;
}

static int opener_on_scan(void *context)
{
	struct opener *opener = context;

	rewinddir(opener->proc);
	opener->scanning = true;
	scan_some(opener);
	return 0;
}

static int opener_on_open_maps(void *context, const struct msg_open_maps *request)
{
	return open_for(context, (struct opening){.kind = OPENING_MAPS,
						  .tgid = request->tgid,
						  .container = request->container});
}

static int opener_on_open_file(void *context, const struct msg_open_file *request)
{
	struct opener *opener = context;

	return open_for(opener, (struct opening){.kind = OPENING_FILE,
						 .tgid = request->tgid,
						 .container = request->container,
						 .by_name = opener->role.strict_memory,
						 .file = *request});
}

static int opener_on_open_identity(void *context, const struct msg_open_identity *request)
{
	struct opener *opener = context;

	return open_for(opener, (struct opening){.kind = OPENING_IDENTITY,
						 .tgid = request->tgid,
						 .cookie = request->cookie,
						 .container = request->container,
						 .environment = request->want_environment &&
								opener->environment_allowed});
}

static int opener_on_open_debug(void *context, const struct msg_open_debug *request)
{
	struct opener *opener = context;
	const bool of_process = request->place == MSG_DEBUG_OF_PROCESS ||
				request->place == MSG_DEBUG_ALTERNATE_OF_PROCESS ||
				request->place == MSG_DEBUG_PACKAGE_OF_PROCESS ||
				request->place == MSG_DEBUG_SPLIT_OF_PROCESS;

	struct opening opening = {.kind = of_process ? OPENING_DEBUG_OF_PROCESS : OPENING_DEBUG,
				  .tgid = of_process ? request->tgid : 0,
				  .container = of_process ? request->container : 0,
				  .debug = *request};

	/* The worker chooses no path on the host. */
	if (request->place == MSG_DEBUG_KERNEL_OF_HOST)
		memcpy(opening.debug.link, opener->kernel_version, sizeof(opening.debug.link));
	return open_for(opener, opening);
}

static int opener_on_open_jit_map(void *context, const struct msg_open_jit_map *request)
{
	struct opener *opener = context;

	return open_for(opener, (struct opening){.kind = OPENING_JIT_MAP,
						 .tgid = request->tgid,
						 .container = request->container,
						 .by_name = opener->role.strict_memory,
						 .cookie = request->cookie});
}

static int open_memory(struct opener *opener, const struct msg_open_memory *request,
		       struct memory_permit *permit)
{
	if (!opener->memory_allowed || permit->opens >= LIMIT_MEMORY_OPENS) {
		send_memory(opener, request, opener->memory_allowed ? -EDQUOT : -EPERM, NULL);
		return 0;
	}
	permit->opens++;
	return open_for(opener, (struct opening){.kind = OPENING_MEMORY,
						 .tgid = request->tgid,
						 .container = permit->allowed.container,
						 .memory = permit->allowed});
}

static int opener_on_allow_memory(void *context, const struct msg_allow_memory *allowed)
{
	struct opener *opener = context;
	const struct msg_open_memory request = {.tgid = allowed->tgid,
						.exec_generation = allowed->exec_generation};
	const uint64_t evicted = opener->permits.evicted;

	/* With --strict-memory the worker does not ask, and nobody may have it. */
	if (opener->role.strict_memory)
		return 0;
	if (memory_permits_allow(&opener->permits, allowed) < 0)
		return 0;
	if (!evicted && opener->permits.evicted)
		log_warning("too many processes have a language runtime; some of them show no "
			    "functions of it: limit=%d",
			    LIMIT_MEMORY_PERMITS);
	if (!memory_permits_take_waiting(&opener->permits, allowed))
		return 0;
	return open_memory(opener, &request, memory_permits_find(&opener->permits, &request));
}

static int opener_on_forbid_memory(void *context, const struct msg_open_memory *forbidden)
{
	struct opener *opener = context;

	memory_permits_forbid(&opener->permits, forbidden);
	return 0;
}

static int opener_on_open_memory(void *context, const struct msg_open_memory *request)
{
	struct opener *opener = context;
	struct msg_open_memory refused;
	struct memory_permit *permit = memory_permits_find(&opener->permits, request);

	if (opener->role.strict_memory)
		send_memory(opener, request, -EPERM, NULL);
	else if (permit)
		return open_memory(opener, request, permit);
	else if (memory_permits_wait(&opener->permits, request, &refused))
		send_memory(opener, &refused, -ESRCH, NULL);
	return 0;
}

#define OPENER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_OPENER, opener_on_configure)                                             \
	HANDLER(SCAN, opener_on_scan)                                                              \
	HANDLER(OPEN_MAPS, opener_on_open_maps)                                                    \
	HANDLER(OPEN_FILE, opener_on_open_file)                                                    \
	HANDLER(OPEN_DEBUG, opener_on_open_debug)                                                  \
	HANDLER(OPEN_JIT_MAP, opener_on_open_jit_map)                                              \
	HANDLER(OPEN_IDENTITY, opener_on_open_identity)                                            \
	HANDLER(ALLOW_MEMORY, opener_on_allow_memory)                                              \
	HANDLER(FORBID_MEMORY, opener_on_forbid_memory)                                            \
	HANDLER(OPEN_MEMORY, opener_on_open_memory)
MESSAGE_HANDLERS(opener_handlers, OPENER, OPENER_HANDLERS);

/* The worker may be started again. It asks for all that it needs. */
static bool opener_on_gone(void *context, enum role_id other, bool ended)
{
	(void)context;
	return other == ROLE_WORKER && ended;
}

void opener_set_handlers(struct opener *opener)
{
	opener->role.on_gone = opener_on_gone;
	opener->role.handlers = &opener_handlers;
	opener->role.context = opener;
}

int opener_start_lanes(struct opener *opener)
{
	int r = 0;

	/* It has the directories of the configuration already. */
	opener->owner.perform = perform;
	opener->owner.done = on_done;
	opener->owner.is_stalled = manager_is_stalled;
	opener->owner.context = opener;
	for (int i = 0; i < LANE_COUNT && !r; i++)
		r = lane_start(&opener->lanes[i], &opener->owner,
			       &opener->role.work_page->quarantine, &opener->role.loop);
	loop_set_tick(&opener->role.loop, IDLE_TICK_MS, on_tick, opener);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to the opener. Each opens what the manager or the worker asked for,
 * and sends the descriptors to that role. ipc/messages.def says who sends a message and when. */
#include "symbolizer/opener/handlers.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "symbolizer/opener/open_file.h"
#include "symbolizer/opener/opener.h"

enum {
	SCAN_PROCESSES = 16 /* reported before other messages are handled: some milliseconds */
};

/* Sends to the manager. If the queue is full, waits: this process has nothing else to do. */
static int opener_send(struct opener *opener, enum message_type type, const void *payload,
		       size_t length, const int *fds, unsigned int fd_count)
{
	struct peer *manager = &opener->role.peers[ROLE_MANAGER];

	for (;;) {
		int r = peer_send(manager, type, payload, length, fds, fd_count);

		if (r != -ENOBUFS)
			return r;
		struct pollfd p = {.fd = manager->fd, .events = POLLOUT};
		poll(&p, 1, 1000);
		r = peer_flush(manager);
		if (r == -EMSGSIZE)
			return r;
	}
}

static int opener_send_maps(struct opener *opener, uint32_t tgid)
{
	struct msg_maps_of answer = {.tgid = tgid, .uid = open_file_uid(tgid)};
	_cleanup_close_ int maps = open_file_proc(tgid, "maps");
	_cleanup_close_ int stat = open_file_proc(tgid, "stat");
	const int fds[2] = {maps, stat};

	if (maps < 0 || stat < 0) {
		answer.error = (uint32_t)(maps < 0 ? -maps : -stat);
		return opener_send(opener, MESSAGE_MAPS, &answer, sizeof(answer), NULL, 0);
	}
	return opener_send(opener, MESSAGE_MAPS, &answer, sizeof(answer), fds, 2);
}

static int opener_on_configure(void *context, const struct msg_configure_opener *config)
{
	struct opener *opener = context;

	opener->environment_allowed = config->allow_environment;
	return 0;
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

/* Continues the scan. The manager needs the files of the first processes before it knows the last
 * one, so its other requests are answered in between. */
static void opener_scan_some(void *context, uint32_t events)
{
	struct opener *opener = context;
	struct loop *loop = &opener->role.loop;

	(void)events;
	for (int i = 0; i < SCAN_PROCESSES; i++) {
		const uint32_t tgid = next_process(opener->proc);

		if (tgid && opener_send_maps(opener, tgid) == 0)
			continue;
		if (!tgid)
			opener_send(opener, MESSAGE_SCAN_DONE, NULL, 0, NULL, 0);
		/* If it could not be sent, the manager has ended, which its socket reports. */
		loop_set_tick(loop, 0, NULL, NULL);
		return;
	}
	loop_tick_within(loop, 0);
}

static int opener_on_scan(void *context)
{
	struct opener *opener = context;

	rewinddir(opener->proc);
	loop_set_tick(&opener->role.loop, 0, opener_scan_some, opener);
	return 0;
}

static int opener_on_open_maps(void *context, const struct msg_id *process)
{
	return opener_send_maps(context, process->id);
}

static int opener_on_open_file(void *context, const struct msg_open_file *request)
{
	struct opener *opener = context;
	struct msg_file answer = {.cookie = request->cookie, .uid = open_file_uid(request->tgid)};
	bool same_file = false;
	_cleanup_close_ int fd = opener->role.strict_memory ? open_file_named(request, &same_file)
							    : open_file_mapped(request, &same_file);

	if (fd < 0) {
		answer.error = (uint32_t)-fd;
		return opener_send(opener, MESSAGE_FILE, &answer, sizeof(answer), NULL, 0);
	}
	answer.same_file = same_file;
	return opener_send(opener, MESSAGE_FILE, &answer, sizeof(answer), &fd, 1);
}

/* Sends the files of a process in /proc to the worker. If its queue is full, the answer is dropped
 * and the worker asks again: the manager must not wait because of a slow worker. */
static int opener_on_open_identity(void *context, const struct msg_open_identity *request)
{
	struct opener *opener = context;
	struct msg_identity answer = {.tgid = request->tgid, .cookie = request->cookie};
	struct peer *worker = &opener->role.peers[ROLE_WORKER];
	/* The order matters: see struct msg_identity. */
	_cleanup_close_ int stat = open_file_proc(request->tgid, "stat");
	_cleanup_close_ int cgroup = open_file_proc(request->tgid, "cgroup");
	_cleanup_close_ int environment = request->want_environment && opener->environment_allowed
					      ? open_file_proc(request->tgid, "environ")
					      : -1;
	const int fds[3] = {stat, cgroup, environment};
	unsigned int fd_count = environment >= 0 ? 3 : 2;

	if (stat < 0 || cgroup < 0) {
		answer.error = (uint32_t)(stat < 0 ? -stat : -cgroup);
		fd_count = 0;
	}
	int r = peer_send(worker, MESSAGE_IDENTITY, &answer, sizeof(answer), fds, fd_count);
	return r == -ENOBUFS ? 0 : r;
}

/* Answers a request of the worker. `memory` is the descriptor, or a negative errno. */
static int opener_send_memory(struct opener *opener, const struct msg_open_memory *request,
			      int memory)
{
	struct peer *worker = &opener->role.peers[ROLE_WORKER];
	struct msg_memory answer = {.tgid = request->tgid,
				    .exec_generation = request->exec_generation,
				    .error = memory < 0 ? (uint32_t)-memory : 0};
	int r = peer_send(worker, MESSAGE_MEMORY, &answer, sizeof(answer), &memory, memory >= 0);

	if (r == -ENOBUFS) {
		answer.error = ENOBUFS;
		r = peer_send(worker, MESSAGE_MEMORY, &answer, sizeof(answer), NULL, 0);
	}
	return r == -ENOBUFS ? 0 : r;
}

/* Sends a descriptor of a process's memory to the worker. It allows reading only, and only the
 * memory that the process has now, not that of a program which it executes later. */
static int opener_answer_memory(struct opener *opener, const struct msg_open_memory *request,
				struct memory_permit *permit)
{
	_cleanup_close_ int memory = -EDQUOT;

	if (permit->opens < LIMIT_MEMORY_OPENS) {
		permit->opens++;
		memory = open_file_memory(&permit->allowed);
	}
	/* For the worker, a process that no longer has the mapping has ended. */
	return opener_send_memory(opener, request,
				  memory == -ENOENT || memory == -ESTALE ? -ESRCH : memory);
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
	return opener_answer_memory(opener, &request,
				    memory_permits_find(&opener->permits, &request));
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
		return opener_send_memory(opener, request, -EPERM);
	if (permit)
		return opener_answer_memory(opener, request, permit);
	return memory_permits_wait(&opener->permits, request, &refused)
		   ? opener_send_memory(opener, &refused, -ESRCH)
		   : 0;
}

#define OPENER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_OPENER, opener_on_configure)                                             \
	HANDLER(SCAN, opener_on_scan)                                                              \
	HANDLER(OPEN_MAPS, opener_on_open_maps)                                                    \
	HANDLER(OPEN_FILE, opener_on_open_file)                                                    \
	HANDLER(OPEN_IDENTITY, opener_on_open_identity)                                            \
	HANDLER(ALLOW_MEMORY, opener_on_allow_memory)                                              \
	HANDLER(FORBID_MEMORY, opener_on_forbid_memory)                                            \
	HANDLER(OPEN_MEMORY, opener_on_open_memory)
MESSAGE_HANDLERS(opener_handlers, OPENER, OPENER_HANDLERS);

void opener_set_handlers(struct opener *opener)
{
	opener->role.handlers = &opener_handlers;
	opener->role.context = opener;
}

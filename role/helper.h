/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper: a child of a role, which does what may never return, or what may end the process.
 *
 * How this works. The helper is a fork of the role with the same capabilities and filter; one that
 * is started before the sandbox enters a sandbox of its own. Of the role's descriptors it only
 * keeps its end of a socket, on which requests come and answers go. If it hangs or dies, the role
 * drops it and starts another one: this costs one request, not the role.
 *
 * The helper has its own name, and ends when the role closes the socket or ends. One that cannot
 * end, because it waits for a file system that does not answer, keeps nothing that others wait for:
 * neither a connection to another role nor the pipe to which log lines go. Only a few of those may
 * be left; then none is started until one of them has ended.
 *
 * Who uses this: the opener opens what belongs to others (symbolizer/opener/lane.h); the manager
 * parses files (unwinder-mgr/table_builds.h); the manager and the worker read what a process can
 * make them wait for (role/process_reader.h); the exporter of an agent lets one connect to a Unix
 * socket (exporter/delivery/connector.h).
 *
 * Example: the opener starts bulkhead-symh, pid 7. It hangs. helper_drop() kills it and closes the
 * socket; pid 7 is left, and helper_start() starts pid 8. When 7 has ended, helper_collect() takes
 * note of it.
 */
#ifndef ROLE_HELPER_H
#define ROLE_HELPER_H

#include <stddef.h>
#include <sys/types.h>

#include "common/loop.h"

enum {
	HELPERS_LEFT_MAX = 4, /* helpers that were killed and have not ended */
};

struct helper {
	struct loop *loop; /* of the role */
	loop_fn on_answer; /* called when the socket can be read, or the helper has ended */
	void *context;
	int fd;	   /* the role's end of the socket; -1: there is none */
	pid_t pid; /* 0: there is none */
	pid_t left[HELPERS_LEFT_MAX];
	unsigned int left_count;
};

/* Sets up a role without a helper. The loop calls `on_answer` with `context` while a helper's
 * socket can be read, and when the helper has ended. */
void helper_init(struct helper *helper, struct loop *loop, loop_fn on_answer, void *context);

/* Starts a helper that stays as long as the role: the caller watches it, and it is not replaced.
 * `*pid` is its pid. Otherwise as helper_start(). Returns the role's end of the socket, or a
 * negative errno. */
int helper_fork(const char *name, void (*serve)(int socket, void *argument), void *argument,
		pid_t *pid);

/* Starts a helper with this name (15 bytes at most), which calls `serve` with `argument` and ends
 * when that returns. The socket is one of packets. Returns 0; -EAGAIN if too many are left; or a
 * negative errno. */
int helper_start(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		 void *argument);

/* Sends a request with a descriptor, which stays the caller's. The helper may have ended while it
 * had nothing to do: then the request goes to a new one. Returns 0, a negative errno of
 * helper_start(), or that of the sending, for which it never waits. */
int helper_send(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		const void *request, size_t size, int fd);

/* In the helper: receives the next such request, of `size` bytes. Returns its descriptor, which is
 * the caller's, or a negative errno if the helper is to end. */
int helper_receive(int socket, void *request, size_t size);

/* Closes the socket and kills the helper, if there is one. Does not wait for its end. */
void helper_drop(struct helper *helper);

/* Collects the helpers that have ended since they were dropped. */
void helper_collect(struct helper *helper);

/* Drops the helper and waits a moment for its end, and for that of those that are left. */
void helper_stop(struct helper *helper);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is different in a role that is a service of its own (role.h): its uids are those of the
 * roles' users, it waits for bulkhead-control, and it talks with the service manager.
 *
 * How this works. Services may be started in any order. Each waits until bulkhead-control has
 * connected to all of them and says who is there; after ten seconds it logs that. SIGTERM ends it
 * while it waits. Later SIGTERM makes it send LEAVE, and go on: the service manager or container
 * runtime may be stopping all roles, and then the agent drains them in order before it ends the
 * connections. If only this role was asked, the agent disconnects it half a second later.
 */
#ifndef ROLE_ROLE_SERVICE_H
#define ROLE_ROLE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"
#include "ipc/peer.h"

struct role_service {
	int notify_fd; /* role/service_manager.h; -1: not a service, or nobody wants to know */
	bool notified_ready;
	uint64_t alive_due_ns; /* when the service manager gets the next sign of life */
	struct peer *control;  /* gets LEAVE */
};

/* Replaces standard input, which container runtimes connect to something, by /dev/null, and
 * standard output, too, if nothing is printed: messages go to standard error. */
void role_service_drop_streams(bool output);

/* Drops the input, connects to the service manager, and finds out the uids as
 * role_uids_of_service() does. Returns STATUS_DONE, or another exit status after a message. */
int role_service_start(struct role_service *service, struct peer_uids *uids, enum role_id self);

/* Says for whom a service waits, and for what: "to connect", for example. */
void role_service_log_waiting(const struct role_service *service, enum role_id other,
			      const char *what);

/* Has SIGTERM handled in the main loop from now on. */
void role_service_handle_sigterm(struct role_service *service, struct loop *loop,
				 struct peer *control);

/* Tells the service manager that the main loop runs, and once that the role is ready. */
void role_service_alive(struct role_service *service, bool ready);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "role/role_service.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"
#include "role/service_manager.h"
#include "role/uids.h"

enum {
	/* Signs of life to the service manager: several within the shortest usual WatchdogSec=. */
	ALIVE_MS = 2000
};

void role_service_drop_streams(bool output)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	if (null != STDIN_FILENO)
		dup2(null, STDIN_FILENO);
	if (output)
		dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

int role_service_start(struct role_service *service, struct peer_uids *uids, enum role_id self)
{
	role_service_drop_streams(true);
	service->notify_fd = service_manager_open();
	return role_uids_of_service(uids, self);
}

void role_service_log_waiting(const struct role_service *service, enum role_id other,
			      const char *what)
{
	char text[96];

	log_warning("waits for another role %s; start it, or see its messages: role=%s", what,
		    role_names[other].agent_program);
	snprintf(text, sizeof(text), "STATUS=waits for %s %s", role_names[other].agent_program,
		 what);
	service_manager_send(service->notify_fd, text);
}

/* Whether SIGTERM has come. A process has one role. */
static volatile sig_atomic_t asked_to_end;

static void handle_sigterm(int unused)
{
	(void)unused;
	asked_to_end = 1;
}

static void on_sigterm(void *context, uint32_t events)
{
	struct role_service *service = context;

	(void)events;
	service_manager_send(service->notify_fd, "STOPPING=1");
	peer_send(service->control, MESSAGE_LEAVE, NULL, 0, NULL, 0);
}

void role_service_handle_sigterm(struct role_service *service, struct loop *loop,
				 struct peer *control)
{
	service->control = control;
	signal(SIGTERM, handle_sigterm);
	loop_watch_signal(loop, &asked_to_end, on_sigterm, service);
}

void role_service_alive(struct role_service *service, bool ready)
{
	const uint64_t now_ns = clock_monotonic_ns();

	if (service->notify_fd < 0)
		return;
	if (ready && !service->notified_ready)
		service_manager_send(service->notify_fd, "READY=1\nSTATUS=profiling");
	service->notified_ready |= ready;
	if (now_ns < service->alive_due_ns)
		return;
	service->alive_due_ns = now_ns + ALIVE_MS * NS_PER_MS;
	service_manager_send(service->notify_fd, "WATCHDOG=1");
}

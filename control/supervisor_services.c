/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor does only where the roles are services (roles.h). */
#include "control/supervisor.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"

enum {
	WAITING_LOG_MS = 10000,
	/* A service manager that stops all roles asks this process to end, too, within this time
	 * after the first role. */
	LEAVE_MS = 500,
};

int supervisor_on_leave(void *context)
{
	struct supervisor_watch *watch = context;
	struct supervisor *s = watch->supervisor;

	if (s->phase != SUPERVISOR_STARTING && s->phase != SUPERVISOR_RUNNING)
		return 0;
	s->leave_due_ns = clock_monotonic_ns() + LEAVE_MS * NS_PER_MS;
	s->leaving = watch->role;
	loop_tick_within(&s->loop, LEAVE_MS);
	return 0;
}

bool supervisor_leave_due(struct supervisor *s, uint64_t now_ns)
{
	if (!s->leave_due_ns || now_ns < s->leave_due_ns)
		return false;
	s->leave_due_ns = 0;
	log_info("the service manager asked a role to end: role=%s",
		 role_names[s->leaving].process);
	if (s->leaving == ROLE_LOADER && s->phase == SUPERVISOR_RUNNING &&
	    s->role[ROLE_LOADER].ready)
		peer_send(&s->roles.peers[ROLE_LOADER], MESSAGE_HAND_OVER, NULL, 0, NULL, 0);
	return true;
}

void supervisor_log_waiting(struct supervisor *s, uint64_t now_ns)
{
	if (s->waiting_logged || now_ns - s->phase_since_ns < WAITING_LOG_MS * NS_PER_MS)
		return;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (s->role[role].connecting)
			log_warning("waits for another role to listen; start it, or see its "
				    "messages: role=%s",
				    role_names[role].process);
		else if (!s->role[role].ready)
			log_warning("waits for another role to be ready; see its messages: role=%s",
				    role_names[role].process);
	}
	s->waiting_logged = true;
}

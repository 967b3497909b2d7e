/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog: kills roles that hang, so that they are started again.
 *
 * How this works. A role that has sent nothing for a quarter of the policy's `watchdog_ns` is asked
 * for a sign of life (PING), and again in each further quarter. Its loop answers (PONG). One that
 * has sent nothing for the whole time is killed.
 *
 * The time does not count in which this process stood still itself. Ctrl-Z stops it together with
 * the roles of a recording, and so does a frozen cgroup.
 *
 * Example: the limit is 10 s. A worker sends its last status at 0 s and hangs. It is asked at 3, 6
 * and 9 s, and killed at 12 s.
 */
#include "control/supervisor.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"

enum {
	PINGS = 4,
	/* The ticks of this process come once per second. One that comes this much later than it is
	 * due means that it stood still. */
	STOOD_STILL_MS = 3000,
};

/* Returns whether the watchdog watches a role. Roles that start do not listen yet; other limits
 * hold for them. Nothing would be gained by killing one without which all end. */
static bool is_watched(const struct supervisor *s, enum role_id role)
{
	return s->policy->on_end[role] != SUPERVISOR_END_ALL && s->roles.peers[role].fd >= 0 &&
	       s->roles.processes[role].pid && s->role[role].ready &&
	       !s->roles.processes[role].killed_ns;
}

static void check_role(struct supervisor *s, enum role_id role, uint64_t now)
{
	const uint64_t silent_ns = now - s->role[role].heard_ns;

	if (silent_ns > s->policy->watchdog_ns) {
		log_error("a role did not answer in time; it is killed and restarted: role=%s "
			  "silent_ms=%llu",
			  role_names[role].process, (unsigned long long)(silent_ns / NS_PER_MS));
		roles_kill(&s->roles, role);
	} else if (silent_ns > s->policy->watchdog_ns / PINGS) {
		peer_send(&s->roles.peers[role], MESSAGE_PING, NULL, 0, NULL, 0);
	}
}

void supervisor_check_silence(struct supervisor *s, uint64_t now)
{
	const uint64_t pause_ns = s->policy->watchdog_ns / PINGS;
	const bool stood_still =
	    s->ping_due_ns && now > s->ping_due_ns + pause_ns + STOOD_STILL_MS * NS_PER_MS;

	if (!pause_ns || now < s->ping_due_ns || s->phase == SUPERVISOR_STARTING ||
	    s->phase == SUPERVISOR_WAITING)
		return;
	s->ping_due_ns = now + pause_ns;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (stood_still)
			s->role[role].heard_ns = now;
		if (is_watched(s, (enum role_id)role))
			check_role(s, (enum role_id)role, now);
	}
}

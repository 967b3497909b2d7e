/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the roles find each other, and are configured.
 *
 * How this works. Once a role is in its sandbox it can accept connections, but not make any. So a
 * role connects to those that are there when it begins, and accepts those that come later. Who is
 * there only the supervisor knows, and it tells each role in its first message, MEET.
 *
 * Example: at the start the loader is told first that nobody is there, then the manager that the
 * loader is, and so on; the exporter, which is the last one, connects to the loader and the worker.
 * Later the worker ends. Its successor is told that the other four are there, and connects to them.
 */
#include "control/supervisor.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"

/* Tells a role who is there: those that were told before, which all listen. */
static int send_meet(struct supervisor *s, enum role_id role)
{
	struct msg_meet meet = {.again = s->role[role].again};

	for (int other = ROLE_CONTROL + 1; other < ROLE_COUNT; other++) {
		if (s->role[other].met && s->roles.peers[other].fd >= 0)
			meet.roles |= ROLE_BIT(other);
	}
	s->role[role].met = true;
	return peer_send(&s->roles.peers[role], MESSAGE_MEET, &meet, sizeof(meet), NULL, 0);
}

int supervisor_configure(struct supervisor *s, enum role_id role)
{
	int r = send_meet(s, role);

	if (!r)
		r = work_pages_send(&s->work_pages, &s->roles.peers[role], role);
	if (!r)
		r = s->policy->configure(s->context, role);
	s->role[role].heard_ns = clock_monotonic_ns();
	return r;
}

int supervisor_configure_all(struct supervisor *s)
{
	int r = 0;

	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (s->roles.peers[role].fd < 0)
			return 0;
	}
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT && !r; role++) {
		if (s->role[role].met)
			continue;
		r = supervisor_configure(s, (enum role_id)role);
		if (r < 0)
			log_error("cannot configure a role; nothing is sampled: role=%s error=%s",
				  role_names[role].process, strerror(-r));
	}
	return r;
}

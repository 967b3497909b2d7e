/* SPDX-License-Identifier: Apache-2.0 */
#include "role/uids.h"

#include <pwd.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/peer_label.h"

static bool is_taken(const struct peer_uids *uids, int count, uid_t uid)
{
	for (int role = 0; role < count; role++) {
		if (uids->uid[role] == uid)
			return true;
	}
	return false;
}

/* Looks up the users. None of them may be root, or that of another role too. */
static int look_up_users(struct peer_uids *uids)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		const struct passwd *user = getpwnam(role_names[role].user);

		if (!user) {
			log_error("a role has no user; create it with systemd-sysusers, or add it "
				  "to /etc/passwd of the container: user=%s",
				  role_names[role].user);
			return STATUS_USAGE;
		}
		if (!user->pw_uid || is_taken(uids, role, user->pw_uid)) {
			log_error(
			    "the user of a role is root, or that of another role, so a "
			    "role could not be recognised by it; give it a uid of its own: user=%s",
			    role_names[role].user);
			return STATUS_USAGE;
		}
		uids->uid[role] = user->pw_uid;
	}
	return STATUS_DONE;
}

int role_uids_of_service(struct peer_uids *uids, enum role_id self)
{
	const int status = uids->uid[self] ? STATUS_DONE : look_up_users(uids);

	uids->by_domain = peer_label_is_own(self);
	if (status || geteuid() == 0 || geteuid() == uids->uid[self])
		return status;
	log_error("this role was started as another user than its own, by which the others know "
		  "it: user=%s uid=%u started_as=%u",
		  role_names[self].user, (unsigned int)uids->uid[self], (unsigned int)geteuid());
	return STATUS_USAGE;
}

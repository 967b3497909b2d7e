/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see peer_label.h. */
#include "ipc/peer_label.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	/* The longest label that is looked at. Levels of SELinux can make it longer than a page;
	 * those of services are short. */
	LABEL_BYTES = 512,
	TYPE_FIELD = 2, /* user, role, type, level */
};

/* The types of deploy/selinux/bulkhead.te. */
static const char *const types[ROLE_COUNT] = {
    [ROLE_CONTROL] = "bulkhead_control_t", [ROLE_LOADER] = "bulkhead_loader_t",
    [ROLE_MANAGER] = "bulkhead_manager_t", [ROLE_OPENER] = "bulkhead_opener_t",
    [ROLE_WORKER] = "bulkhead_worker_t",   [ROLE_EXPORTER] = "bulkhead_exporter_t",
};

bool peer_label_is(int fd, enum role_id role)
{
	char label[LABEL_BYTES + 1];
	socklen_t length = LABEL_BYTES;
	const char *type = label;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERSEC, label, &length) < 0 || length > LABEL_BYTES)
		return false;
	label[length] = 0;
	for (int i = 0; i < TYPE_FIELD; i++) {
		type = strchr(type, ':');
		if (!type)
			return false;
		type++;
	}
	const size_t size = strcspn(type, ":");
	return size == strlen(types[role]) && !memcmp(type, types[role], size);
}

bool peer_label_is_own(enum role_id self)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	const bool is = peer_label_is(pair[0], self);
	close(pair[0]);
	close(pair[1]);
	return is;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Labels that SELinux would give; this machine may have none. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc/peer_label.h"

static const char *label; /* of all peers; NULL: there is no security module */

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	(void)fd;
	cr_assert(level == SOL_SOCKET && name == SO_PEERSEC);
	if (!label) {
		errno = ENOPROTOOPT;
		return -1;
	}
	/* As the kernel: with the NUL, and the size that is needed if it does not fit. */
	const socklen_t bytes = (socklen_t)strlen(label) + 1;
	if (bytes > *length) {
		*length = bytes;
		errno = ERANGE;
		return -1;
	}
	memcpy(value, label, bytes);
	*length = bytes;
	return 0;
}

Test(peer_label, is_that_of_a_role_by_its_type)
{
	label = "system_u:system_r:bulkhead_worker_t:s0";
	cr_expect(peer_label_is(0, ROLE_WORKER));
	cr_expect(peer_label_is_own(ROLE_WORKER));
	cr_expect_not(peer_label_is(0, ROLE_OPENER));
	cr_expect_not(peer_label_is_own(ROLE_OPENER));
	label = "other_u:other_r:bulkhead_manager_t:s0-s15:c0.c1023";
	cr_expect(peer_label_is(0, ROLE_MANAGER));
	label = "u:r:bulkhead_control_t"; /* a policy without levels */
	cr_expect(peer_label_is(0, ROLE_CONTROL));
}

Test(peer_label, of_anything_else_is_not)
{
	static const char *const labels[] = {
	    "",
	    ":",
	    "::",
	    ":::",
	    "unconfined",
	    "bulkhead-worker (enforce)",
	    "bulkhead_worker_t",
	    "unconfined_u:unconfined_r:unconfined_t:s0",
	    "u:r:bulkhead_worker_t2:s0",
	    "u:r:bulkhead_worker:s0",
	    "u:r:xbulkhead_worker_t:s0",
	    "u:bulkhead_worker_t:r:s0",
	};

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		label = labels[i];
		cr_expect_not(peer_label_is(0, ROLE_WORKER), "%s", label);
		cr_expect_not(peer_label_is_own(ROLE_WORKER), "%s", label);
	}
	label = NULL;
	cr_expect_not(peer_label_is(0, ROLE_WORKER));
	cr_expect_not(peer_label_is_own(ROLE_WORKER));
}

Test(peer_label, that_is_very_long_is_not)
{
	char text[5000];

	memset(text, '1', sizeof(text));
	memcpy(text, "u:r:bulkhead_worker_t:", 22);
	text[sizeof(text) - 1] = 0;
	label = text;
	cr_expect_not(peer_label_is(0, ROLE_WORKER));
}

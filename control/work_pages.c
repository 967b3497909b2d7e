/* SPDX-License-Identifier: Apache-2.0 */
#include "control/work_pages.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "control/shared_memory.h"
#include "common/cleanup.h"
#include "ipc/message_check.h"
#include "role/work_page.h"

void work_pages_clear(struct work_pages *pages)
{
	for (int role = 0; role < ROLE_COUNT; role++)
		pages->fds[role] = -1;
}

static int copy(int from, int to)
{
	uint8_t bytes[WORK_PAGE_BYTES];

	if (pread(from, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
	    pwrite(to, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	return 0;
}

int work_pages_send(struct work_pages *pages, struct peer *peer, enum role_id role)
{
	const struct msg_work_page message = {.bytes = WORK_PAGE_BYTES};

	if (!message_rules[MESSAGE_WORK_PAGE].receivers[role].states)
		return 0;
	_cleanup_close_ int fd = shared_memory_new("bulkhead-work", WORK_PAGE_BYTES);
	if (fd < 0)
		return fd;
	int r = pages->fds[role] >= 0 ? copy(pages->fds[role], fd) : 0;
	if (r < 0)
		return r;
	if (pages->fds[role] >= 0)
		close(pages->fds[role]);
	pages->fds[role] = TAKE_FD(fd);
	return peer_send(peer, MESSAGE_WORK_PAGE, &message, sizeof(message), &pages->fds[role], 1);
}

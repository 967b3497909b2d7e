/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/fd_passing.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * MESSAGE_FDS_MAX)];
};

int fd_passing_send(int socket, const void *bytes, size_t length, const int *fds,
		    unsigned int fd_count, int flags)
{
	union control control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd_count) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	return sendmsg(socket, &header, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Takes the descriptors of a packet. Returns how many there are. */
static unsigned int take_fds(struct msghdr *header, int *fds, unsigned int fds_max)
{
	unsigned int taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++, taken++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (taken < fds_max)
				fds[taken] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

ssize_t fd_passing_receive(int socket, void *bytes, size_t size, int flags, int *fds,
			   unsigned int fds_max, unsigned int *fd_count, bool *truncated)
{
	union control control;
	struct iovec part = {.iov_base = bytes, .iov_len = size};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	const ssize_t n = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);

	*fd_count = 0;
	*truncated = false;
	if (n < 0)
		return -errno;
	*fd_count = take_fds(&header, fds, fds_max);
	*truncated = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	return n;
}

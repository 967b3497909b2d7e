/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ipc/raw_link.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	cr_assert(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

struct link *link_new(enum role_id from, enum role_id to)
{
	struct link *l = calloc(1, sizeof(*l));
	int pair[2];

	cr_assert(l &&
		  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	l->raw = pair[0];
	l->peer = (struct peer){.fd = pair[1], .self = to, .other = from};
	return l;
}

void link_free(struct link *l)
{
	if (l->raw >= 0)
		close(l->raw);
	peer_close(&l->peer);
	free(l);
}

void raw_send(int fd, const void *bytes, size_t length, unsigned int fd_count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * RAW_FDS_MAX)];
	} control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd_count) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		for (unsigned int i = 0; i < fd_count; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	}
	cr_assert_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)length, "%s", strerror(errno));
}

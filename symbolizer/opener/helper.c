/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see helper.h. */
#include "symbolizer/opener/helper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * OPENED_FDS_MAX)];
};

void opened_close(struct opened *opened)
{
	for (unsigned int i = 0; i < opened->fd_count; i++)
		close(opened->fds[i]);
	opened->fd_count = 0;
}

/* --- in the helper --- */

static int send_opened(int socket, const struct opened *opened)
{
	union control control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)opened, .iov_len = sizeof(*opened)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (opened->fd_count) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(sizeof(int) * opened->fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * opened->fd_count);
		memcpy(CMSG_DATA(c), opened->fds, sizeof(int) * opened->fd_count);
	}
	while (sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
		/* Too many descriptors wait in sockets: there are fewer when peers have read. */
		if (errno == ETOOMANYREFS)
			return -errno;
		if (errno != EINTR)
			_exit(0);
	}
	return 0;
}

/* Keeps of the opener's descriptors only standard input and output, which are /dev/null, and the
 * socket. Log lines go to /dev/null too: nobody who reads them must wait for a helper. */
static void give_up_descriptors(int socket)
{
	if (dup3(STDIN_FILENO, STDERR_FILENO, 0) < 0 ||
	    (socket > STDERR_FILENO + 1 &&
	     syscall(SYS_close_range, STDERR_FILENO + 1, socket - 1, 0) < 0) ||
	    syscall(SYS_close_range, socket + 1, ~0u, 0) < 0)
		_exit(1);
}

static void __attribute__((noreturn)) helper_main(int socket, opening_fn perform)
{
	struct opening opening;

	give_up_descriptors(socket);
	prctl(PR_SET_NAME, "bulkhead-symh");
	for (;;) {
		struct opened opened = {0};
		struct iovec part = {.iov_base = &opening, .iov_len = sizeof(opening)};
		struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
		const ssize_t n = recvmsg(socket, &header, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(opening))
			_exit(0); /* the opener has closed the socket, or has ended */
		perform(&opening, &opened);
		const int r = send_opened(socket, &opened);
		opened_close(&opened);
		if (r < 0)
			send_opened(socket, &(struct opened){.error = r});
	}
}

/* --- in the opener --- */

int helper_start(struct helper *helper, opening_fn perform)
{
	int ends[2];

	*helper = (struct helper){.fd = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	/* Not fork(): the C library adds flags for its own use, which the filter would have to
	 * allow too. The opener has one thread, so nothing needs to be put in order. */
	const long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		helper_main(ends[1], perform);
	const int error = errno;
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return -error;
	}
	helper->pid = (pid_t)pid;
	helper->fd = ends[0];
	return 0;
}

int helper_send(struct helper *helper, const struct opening *opening)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)opening, .iov_len = sizeof(*opening)};
	const struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (sendmsg(helper->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN
											: -EPIPE;
}

/* Takes the descriptors of an answer. There are fewer than the helper has sent if the opener has as
 * many as it may have. */
static void take_fds(struct opened *opened, struct msghdr *header)
{
	const unsigned int expected = opened->fd_count;
	unsigned int received = 0;

	opened->fd_count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++, received++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (opened->fd_count < OPENED_FDS_MAX)
				opened->fds[opened->fd_count++] = fd;
			else
				close(fd);
		}
	}
	if (received != expected) {
		opened_close(opened);
		opened->error = -EMFILE;
	}
}

int helper_receive(struct helper *helper, struct opened *opened)
{
	union control control;
	struct iovec part = {.iov_base = opened, .iov_len = sizeof(*opened)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	const ssize_t n = recvmsg(helper->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(*opened))
		return -EPIPE;
	take_fds(opened, &header);
	return 1;
}

pid_t helper_drop(struct helper *helper)
{
	const pid_t pid = helper->pid;

	if (helper->fd >= 0)
		close(helper->fd);
	if (pid)
		kill(pid, SIGKILL);
	*helper = (struct helper){.fd = -1};
	return pid;
}

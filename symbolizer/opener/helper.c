/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see helper.h. */
#include "symbolizer/opener/helper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/fd_passing.h"

void opened_close(struct opened *opened)
{
	for (unsigned int i = 0; i < opened->fd_count; i++)
		close(opened->fds[i]);
	opened->fd_count = 0;
}

/* --- in the helper --- */

static int send_opened(int socket, const struct opened *opened)
{
	int r;

	do
		r = fd_passing_send(socket, opened, sizeof(*opened), opened->fds, opened->fd_count,
				    0);
	while (r == -EINTR);
	/* Too many descriptors wait in sockets: there are fewer when peers have read. */
	if (r < 0 && r != -ETOOMANYREFS)
		_exit(0);
	return r;
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
		unsigned int fd_count;
		bool truncated;
		const ssize_t n = fd_passing_receive(socket, &opening, sizeof(opening), 0, NULL, 0,
						     &fd_count, &truncated);

		if (n == -EINTR)
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
	const int r = fd_passing_send(helper->fd, opening, sizeof(*opening), NULL, 0, MSG_DONTWAIT);

	if (r == 0)
		return 0;
	return r == -EAGAIN || r == -EINTR || r == -ENOBUFS || r == -ENOMEM ? -EAGAIN : -EPIPE;
}

int helper_receive(struct helper *helper, struct opened *opened)
{
	unsigned int fd_count;
	int fds[OPENED_FDS_MAX];
	bool truncated;
	const ssize_t n = fd_passing_receive(helper->fd, opened, sizeof(*opened), MSG_DONTWAIT, fds,
					     OPENED_FDS_MAX, &fd_count, &truncated);

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n != sizeof(*opened))
		return -EPIPE;
	const bool complete = fd_count == opened->fd_count;
	opened->fd_count = fd_count < OPENED_FDS_MAX ? fd_count : OPENED_FDS_MAX;
	memcpy(opened->fds, fds, sizeof(fds[0]) * opened->fd_count);
	/* The opener has as many descriptors as it may have. */
	if (!complete) {
		opened_close(opened);
		opened->error = -EMFILE;
	}
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

/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see helper.h. */
#include "role/helper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/fd_passing.h"

enum {
	/* For the end of a helper that was killed: some milliseconds, unless it hangs. */
	STOP_POLLS = 100,
	STOP_POLL_MS = 1,
};

void helper_init(struct helper *helper, struct loop *loop, loop_fn on_answer, void *context)
{
	*helper =
	    (struct helper){.loop = loop, .on_answer = on_answer, .context = context, .fd = -1};
}

/* Keeps of the role's descriptors only standard input and output, which are /dev/null, and the
 * socket. Log lines go to /dev/null too: nobody who reads them must wait for a helper. */
static void give_up_descriptors(int socket)
{
	if (dup3(STDIN_FILENO, STDERR_FILENO, 0) < 0 ||
	    (socket > STDERR_FILENO + 1 &&
	     syscall(SYS_close_range, STDERR_FILENO + 1, socket - 1, 0) < 0) ||
	    syscall(SYS_close_range, socket + 1, ~0u, 0) < 0)
		_exit(1);
}

int helper_fork(const char *name, void (*serve)(int socket, void *argument), void *argument,
		pid_t *pid)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	/* Not fork(): the C library adds flags for its own use, which the filter would have to
	 * allow too. No other thread of the role uses it, so nothing needs to be put in order. */
	const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		give_up_descriptors(ends[1]);
		prctl(PR_SET_NAME, name);
		serve(ends[1], argument);
		_exit(0);
	}
	const int error = errno;
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -error;
	}
	*pid = (pid_t)child;
	return ends[0];
}

int helper_start(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		 void *argument)
{
	/* One place is for the helper that is started. */
	if (helper->left_count >= HELPERS_LEFT_MAX)
		return -EAGAIN;
	const int fd = helper_fork(name, serve, argument, &helper->pid);
	if (fd < 0)
		return fd;
	helper->fd = fd;
	int r = loop_add(helper->loop, helper->fd, EPOLLIN, helper->on_answer, helper->context);
	if (r < 0)
		helper_drop(helper);
	return r;
}

int helper_send(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		const void *request, size_t size, int fd)
{
	int r = -EPIPE;

	for (int i = 0; i < 2 && r == -EPIPE; i++) {
		r = helper->fd < 0 ? helper_start(helper, name, serve, NULL) : 0;
		if (!r)
			r = fd_passing_send(helper->fd, request, size, &fd, 1, MSG_DONTWAIT);
		if (r == -EPIPE)
			helper_drop(helper);
	}
	return r;
}

int helper_receive(int socket, void *request, size_t size)
{
	unsigned int fd_count;
	bool truncated;
	ssize_t n;
	int fd;

	do
		n = fd_passing_receive(socket, request, size, 0, &fd, 1, &fd_count, &truncated);
	while (n == -EINTR);
	return n == (ssize_t)size && fd_count == 1 ? fd : -EPROTO;
}

void helper_drop(struct helper *helper)
{
	if (helper->fd >= 0) {
		loop_remove(helper->loop, helper->fd);
		close(helper->fd);
	}
	if (helper->pid) {
		kill(helper->pid, SIGKILL);
		helper->left[helper->left_count++] = helper->pid;
	}
	helper->fd = -1;
	helper->pid = 0;
}

void helper_collect(struct helper *helper)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < helper->left_count; i++) {
		if (waitpid(helper->left[i], NULL, WNOHANG) == 0)
			helper->left[kept++] = helper->left[i];
	}
	helper->left_count = kept;
}

void helper_stop(struct helper *helper)
{
	helper_drop(helper);
	helper_collect(helper);
	for (int i = 0; i < STOP_POLLS && helper->left_count; i++) {
		poll(NULL, 0, STOP_POLL_MS);
		helper_collect(helper);
	}
}

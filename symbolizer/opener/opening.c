/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/opening.h"

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

/* Performs requests until the opener has closed the socket, or has ended. */
static void serve(int socket, void *context)
{
	const opening_fn *perform = context;
	struct opening opening;

	for (;;) {
		struct directories directories = {0};
		struct opened opened = {0};
		bool truncated;
		const ssize_t n =
		    fd_passing_receive(socket, &opening, sizeof(opening), 0, directories.fds,
				       LIMIT_DEBUG_DIRECTORIES, &directories.count, &truncated);

		if (n == -EINTR)
			continue;
		if (n != sizeof(opening))
			return;
		(*perform)(&opening, &directories, &opened);
		for (unsigned int i = 0; i < directories.count; i++)
			close(directories.fds[i]);
		const int r = send_opened(socket, &opened);
		opened_close(&opened);
		if (r < 0)
			send_opened(socket, &(struct opened){.error = r});
	}
}

/* --- in the opener --- */

int opening_start(struct helper *helper, opening_fn perform)
{
	return helper_start(helper, "bulkhead-symh", serve, &perform);
}

bool opening_is_for_debug(const struct opening *opening)
{
	return opening->kind == OPENING_DEBUG || opening->kind == OPENING_DEBUG_OF_PROCESS;
}

int opening_send(const struct helper *helper, const struct opening *opening,
		 const struct directories *directories)
{
	const unsigned int count = opening_is_for_debug(opening) ? directories->count : 0;
	const int r = fd_passing_send(helper->fd, opening, sizeof(*opening), directories->fds,
				      count, MSG_DONTWAIT);

	if (r == 0)
		return 0;
	return r == -EAGAIN || r == -EINTR || r == -ENOBUFS || r == -ENOMEM ? -EAGAIN : -EPIPE;
}

int opening_receive(const struct helper *helper, struct opened *opened)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see connector.h. */
#include "exporter/delivery/connector.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/sandbox.h"
#include "common/time_units.h"
#include "exporter/delivery/policy.h"
#include "ipc/fd_passing.h"
#include "role/helper.h"

enum {
	/* A connection to a Unix socket is made at once or not at all. */
	ANSWER_MS = 1000
};

struct connector_request {
	uint32_t sequence;
};

struct connector_answer {
	uint32_t sequence;
	int32_t error; /* 0: a descriptor comes with it */
};

/* --- the helper --- */

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		const int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

static void serve(int socket, void *path)
{
	struct sandbox sandbox;

	/* A service manager sends it to all processes of a service. The helper ends when the
	 * exporter does. */
	signal(SIGTERM, SIG_IGN);
	if (sandbox_prepare(&sandbox, &otlp_connector_policy) < 0 ||
	    sandbox_enter(&sandbox, &otlp_connector_policy) < 0)
		return;
	for (;;) {
		struct connector_request request;
		unsigned int none;
		bool truncated;
		const ssize_t n = fd_passing_receive(socket, &request, sizeof(request), 0, NULL, 0,
						     &none, &truncated);

		if (n == -EINTR)
			continue;
		if (n != (ssize_t)sizeof(request))
			return;
		const int fd = connect_to(path);
		const struct connector_answer answer = {request.sequence, fd < 0 ? -fd : 0};

		fd_passing_send(socket, &answer, sizeof(answer), &fd, fd >= 0, 0);
		if (fd >= 0)
			close(fd);
	}
}

/* --- the exporter --- */

int connector_start(struct connector *connector, const char *path)
{
	connector->fd =
	    helper_fork("bulkhead-exph", serve, (void *)(uintptr_t)path, &connector->pid);
	return connector->fd < 0 ? connector->fd : 0;
}

int connector_watch(struct connector *connector, struct loop *loop, loop_fn on_end, void *context)
{
	/* Only the end of the helper is reported: connector_connect() reads its answers. */
	return loop_add(loop, connector->fd, EPOLLHUP, on_end, context);
}

/* Reads one answer. Returns the descriptor in it, a negative errno of the helper's attempt, or
 * -ESTALE if it answers an earlier request; -EPIPE if there is none. */
static int read_answer(struct connector *connector)
{
	struct connector_answer answer;
	unsigned int fd_count;
	bool truncated;
	int fd = -1;

	if (fd_passing_receive(connector->fd, &answer, sizeof(answer), MSG_DONTWAIT, &fd, 1,
			       &fd_count, &truncated) != (ssize_t)sizeof(answer))
		return -EPIPE;
	if (answer.sequence != connector->sequence) {
		if (fd_count)
			close(fd);
		return -ESTALE;
	}
	if (!fd_count)
		return answer.error > 0 ? -answer.error : -EPIPE;
	return fd;
}

int connector_connect(struct connector *connector)
{
	const struct connector_request request = {++connector->sequence};
	const uint64_t until_ns = clock_monotonic_ns() + ANSWER_MS * NS_PER_MS;
	const int r =
	    fd_passing_send(connector->fd, &request, sizeof(request), NULL, 0, MSG_DONTWAIT);

	if (r < 0)
		return r == -EAGAIN ? -ETIMEDOUT : -EPIPE;
	for (;;) {
		const uint64_t now_ns = clock_monotonic_ns();
		struct pollfd wait = {.fd = connector->fd, .events = POLLIN};

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (poll(&wait, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1) <= 0)
			continue;
		const int answer = read_answer(connector);
		if (answer != -ESTALE)
			return answer;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that connects an agent's exporter to a Unix socket, in its own sandbox. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exporter/delivery/connector.h"

enum {
	HELPER_DESCRIPTORS = 2 + 3 + 1 /* "." and "..", the standard ones, its socket */
};

static char directory[32], path[64];
static struct connector connector;
static bool ended;

static int listen_there(int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

static unsigned int descriptors_of(pid_t pid)
{
	char name[64];
	unsigned int count = 0;

	snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(name);
	cr_assert(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Expects that the next connection reaches `listener`. */
static void expect_connection(int listener)
{
	char byte = 0;
	const int fd = connector_connect(&connector);

	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	const int other = accept(listener, NULL, NULL);
	cr_assert_geq(other, 0);
	cr_assert_eq(write(other, "x", 1), 1);
	cr_expect_eq(read(fd, &byte, 1), 1);
	cr_expect_eq(byte, 'x');
	close(other);
	close(fd);
}

static void start(void)
{
	snprintf(directory, sizeof(directory), "/tmp/connector-XXXXXX");
	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/socket", directory);
	/* As in a role: without it, only root may enter a filter. */
	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(connector_start(&connector, path), 0);
}

static void stop(void)
{
	int status;

	close(connector.fd);
	if (!ended) {
		/* It ends by itself, in its sandbox. */
		cr_assert_eq(waitpid(connector.pid, &status, 0), connector.pid);
		cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
	}
	unlink(path);
	rmdir(directory);
}

TestSuite(connector, .init = start, .fini = stop, .timeout = 60);

Test(connector, each_request_makes_a_connection)
{
	const int listener = listen_there(8);

	expect_connection(listener);
	for (int i = 0; i < 100; i++)
		expect_connection(listener);
	/* It closes the last connection after it has passed it on. */
	while (descriptors_of(connector.pid) != HELPER_DESCRIPTORS)
		poll(NULL, 0, 1);
	close(listener);
}

Test(connector, a_backend_may_go_and_come_back)
{
	cr_expect_eq(connector_connect(&connector), -ENOENT);
	int listener = listen_there(8);
	expect_connection(listener);
	close(listener);
	cr_expect_eq(connector_connect(&connector), -ECONNREFUSED);
	listener = listen_there(8);
	expect_connection(listener);
	close(listener);
}

Test(connector, a_backend_that_accepts_nothing_does_not_block)
{
	const int listener = listen_there(0);
	int fds[4], r = 0, count = 0;

	while (count < 4 && (r = connector_connect(&connector)) >= 0)
		fds[count++] = r;
	cr_expect_eq(r, -EAGAIN, "%s", strerror(-r));
	while (count)
		close(fds[--count]);
	close(listener);
}

Test(connector, an_answer_that_comes_late_is_not_mistaken_for_the_next)
{
	const int listener = listen_there(8);
	char byte;

	expect_connection(listener);
	const unsigned int before = descriptors_of(getpid());
	kill(connector.pid, SIGSTOP);
	cr_expect_eq(connector_connect(&connector), -ETIMEDOUT);
	kill(connector.pid, SIGCONT);
	/* This connection is the late answer, which is closed. */
	const int fd = connector_connect(&connector);
	cr_assert_geq(fd, 0);
	const int late = accept(listener, NULL, NULL);
	cr_expect_eq(read(late, &byte, 1), 0, "nobody holds its other end");
	close(late);
	close(fd);
	cr_expect_eq(descriptors_of(getpid()), before);
	close(listener);
}

static void on_end(void *context, uint32_t events)
{
	(void)events;
	loop_stop(context, 7);
}

Test(connector, its_end_is_noticed)
{
	struct loop loop;

	cr_assert_eq(loop_init(&loop), 0);
	cr_assert_eq(connector_watch(&connector, &loop, on_end, &loop), 0);
	kill(connector.pid, SIGKILL);
	cr_expect_eq(loop_run(&loop), 7);
	cr_expect_eq(connector_connect(&connector), -EPIPE);
	waitpid(connector.pid, NULL, 0);
	ended = true;
	loop_fini(&loop);
}

/* A service manager ends all processes of a service, and the exporter still delivers. */
Test(connector, it_outlives_sigterm)
{
	const int listener = listen_there(8);

	expect_connection(listener); /* so that it has set up its signals */
	kill(connector.pid, SIGTERM);
	expect_connection(listener);
	close(listener);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager receives, by a path and by an abstract name. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/fd_passing.h"
#include "role/role_service.h"
#include "role/service_manager.h"

static int receiver = -1;
static char path[64];

/* Listens as a service manager does, under `name`, in which '@' stands for an abstract one. */
static void listen_as(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

	memcpy(address.sun_path, name, strlen(name));
	if (name[0] == '@')
		address.sun_path[0] = 0;
	receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(receiver, (struct sockaddr *)&address, length), 0);
	setenv("NOTIFY_SOCKET", name, 1);
}

static const char *received(void)
{
	static char text[256];
	const ssize_t n = recv(receiver, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return text;
}

static void end(void)
{
	if (receiver >= 0)
		close(receiver);
	if (path[0])
		unlink(path);
}

TestSuite(service_manager, .fini = end);

Test(service_manager, gets_lines_by_a_path)
{
	snprintf(path, sizeof(path), "/tmp/notify-%d", (int)getpid());
	listen_as(path);
	const int fd = service_manager_open();
	cr_assert_geq(fd, 0);
	service_manager_send(fd, "READY=1\nSTATUS=x");
	cr_expect_str_eq(received(), "READY=1\nSTATUS=x");
	close(fd);
}

Test(service_manager, gets_lines_by_an_abstract_name)
{
	char name[64];

	snprintf(name, sizeof(name), "@bulkhead-test-%d", (int)getpid());
	listen_as(name);
	const int fd = service_manager_open();
	cr_assert_geq(fd, 0);
	service_manager_send(fd, "STOPPING=1");
	cr_expect_str_eq(received(), "STOPPING=1");
	close(fd);
}

Test(service_manager, may_be_missing)
{
	char name[200];

	unsetenv("NOTIFY_SOCKET");
	cr_expect_eq(service_manager_open(), -1);
	setenv("NOTIFY_SOCKET", "relative", 1);
	cr_expect_eq(service_manager_open(), -1);
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	cr_expect_eq(service_manager_open(), -1);
	memset(name, '/', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	setenv("NOTIFY_SOCKET", name, 1);
	cr_expect_eq(service_manager_open(), -1);
	service_manager_send(-1, "READY=1");
}

Test(service_manager, keeps_descriptors)
{
	char text[128], name[64];
	int fds[2] = {-1, -1};
	unsigned int count = 0;
	bool truncated;

	snprintf(name, sizeof(name), "@bulkhead-test-%d", (int)getpid());
	listen_as(name);
	const int fd = service_manager_open();
	service_manager_keep(fd, "journal", receiver);
	const ssize_t n =
	    fd_passing_receive(receiver, text, sizeof(text) - 1, 0, fds, 2, &count, &truncated);
	cr_assert_gt(n, 0);
	text[n] = 0;
	cr_expect_str_eq(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=journal");
	cr_expect_eq(count, 1);
	close(fds[0]);
	service_manager_drop(fd, "journal");
	cr_expect_str_eq(received(), "FDSTOREREMOVE=1\nFDNAME=journal");
	close(fd);
}

static void set_kept(pid_t pid, const char *count, const char *names)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

/* In a process of its own, because the descriptors from 3 on are those of the test's framework. */
static int check_kept(void)
{
	const int null = open("/dev/null", O_RDONLY);

	for (int fd = 3; fd < 6; fd++)
		dup2(null, fd);
	set_kept(getpid(), "3", "stats:journal:spool");
	if (service_manager_kept_count() != 3 || service_manager_kept("stats") != 3 ||
	    service_manager_kept("spool") != 5 || fcntl(5, F_GETFD) != FD_CLOEXEC)
		return 1;
	if (service_manager_kept("journa") != -1 || service_manager_kept("") != -1)
		return 2;
	/* Fewer than names, more than possible, and variables for another process. */
	set_kept(getpid(), "1", "stats:journal");
	if (service_manager_kept("journal") != -1)
		return 3;
	set_kept(getpid(), "2000000000", "stats");
	if (service_manager_kept_count())
		return 4;
	set_kept(getppid(), "3", "stats:journal:spool");
	return service_manager_kept_count() || service_manager_kept("stats") != -1 ? 5 : 0;
}

Test(service_manager, gives_descriptors_back)
{
	int status = -1;
	const pid_t pid = fork();

	if (!pid)
		_exit(check_kept());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "%d", WEXITSTATUS(status));
}

/* It is told once that the service is ready, and not at every call that it lives. */
Test(service_manager, hears_that_a_service_lives)
{
	struct role_service service = {.notify_fd = -1};

	snprintf(path, sizeof(path), "/tmp/notify-%d", (int)getpid());
	listen_as(path);
	service.notify_fd = service_manager_open();
	role_service_alive(&service, false);
	cr_expect_str_eq(received(), "WATCHDOG=1");
	role_service_alive(&service, true);
	cr_expect_str_eq(received(), "READY=1\nSTATUS=profiling");
	role_service_alive(&service, true);
	cr_expect_str_eq(received(), "");
	service.alive_due_ns = 0;
	role_service_alive(&service, true);
	cr_expect_str_eq(received(), "WATCHDOG=1");
	close(service.notify_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/security/attempt.h"

static int fixture_add_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 || fchmod(fd, 0666) < 0 || ftruncate(fd, 4096) < 0)
		abort();
	return fd;
}

int fixture_open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static pid_t fixture_add_victim(void)
{
	pid_t victim = fork();

	if (victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return victim;
}

/* Creates what the agent's exporter may open by name, and its siblings, which it may not open. */
static void fixture_add_spool(struct fixture *s)
{
	char path[128];

	snprintf(s->spool, sizeof(s->spool), "%s/spool", s->dir);
	snprintf(s->readable, sizeof(s->readable), "%s/readable", s->dir);
	close(fixture_add_file(s->readable));
	if (mkdir(s->spool, 0700) < 0)
		abort();
	snprintf(path, sizeof(path), "%s/segment", s->spool);
	close(fixture_add_file(path));
	/* A symbolic link that leads out of the spool. */
	snprintf(path, sizeof(path), "%s/link", s->spool);
	if (symlink("../file", path) < 0 || chown(s->spool, TEST_UID, TEST_UID) < 0)
		abort();
}

static void fixture_add_network(struct fixture *s)
{
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(here);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&here, sizeof(here)) < 0 ||
	    listen(s->listener, 8) < 0 ||
	    getsockname(s->listener, (struct sockaddr *)&here, &length) < 0)
		abort();
	s->port = here.sin_port;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->ipv6 = fd >= 0;
	if (fd >= 0)
		close(fd);
}

void fixture_init(struct fixture *s)
{
	union bpf_attr map = {
	    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(clock),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 10000000,
					.disabled = 1};

	snprintf(s->dir, sizeof(s->dir), "/tmp/bulkhead-filters-XXXXXX");
	if (!mkdtemp(s->dir) || chmod(s->dir, 0777) < 0)
		abort();
	snprintf(s->file, sizeof(s->file), "%s/file", s->dir);
	snprintf(s->program, sizeof(s->program), "%s/other", s->dir);
	snprintf(s->socket, sizeof(s->socket), "%s/socket", s->dir);
	s->regular = fixture_add_file(s->file);
	close(fixture_add_file(s->program));
	snprintf(s->secret, sizeof(s->secret), "%s/secret", s->dir);
	close(fixture_add_file(s->secret));
	if (chmod(s->secret, 0400) < 0)
		abort();
	s->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pipe2(s->pipe, O_CLOEXEC | O_NONBLOCK) < 0 || s->null < 0 || s->epoll < 0 ||
	    s->memory == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s->sockets) < 0)
		abort();
	fixture_add_spool(s);
	fixture_add_network(s);
	s->memory_file = memfd_create("fixture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	s->landlock = version < 0 ? 0 : (int)version;
	s->map = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	s->event = (int)syscall(SYS_perf_event_open, &clock, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	s->victim = fixture_add_victim();
	s->pidfd = (int)syscall(SYS_pidfd_open, s->victim, 0);
	s->identity[0] = fixture_open_proc(s->victim, "stat");
	s->identity[1] = fixture_open_proc(s->victim, "cgroup");
	s->identity[2] = fixture_open_proc(s->victim, "environ");
	if (s->victim < 0 || s->pidfd < 0 || s->identity[0] < 0 || s->identity[1] < 0 ||
	    s->identity[2] < 0)
		abort();
}

static void fixture_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		/* Directories are removed by name below, so that nothing unexpected is deleted. */
		unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

void fixture_fini(struct fixture *s)
{
	kill(s->victim, SIGKILL);
	waitpid(s->victim, NULL, 0);
	fixture_empty(s->spool);
	rmdir(s->spool);
	fixture_empty(s->dir);
	rmdir(s->dir);
}

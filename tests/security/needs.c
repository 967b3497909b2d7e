/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/loop.h"
#include "tests/security/attempt.h"

enum {
	THREADS_TRIED = 1024,
	THREAD_STACK_BYTES = 64 << 10
};

static int send_fd(int to, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = "fd", .iov_len = 2};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(to, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == 2 ? 0 : -errno;
}

static int receive_fd(int from)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char text[16];
	struct iovec part = {.iov_base = text, .iov_len = sizeof(text)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	int fd = -1;

	if (recvmsg(from, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 2 || !CMSG_FIRSTHDR(&header))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
	return fd;
}

struct loop_test {
	struct loop loop;
	const struct fixture *fixture;
	int received, ticks;
};

static void on_readable(void *context, uint32_t events)
{
	struct loop_test *test = context;

	(void)events;
	test->received = receive_fd(test->fixture->sockets[1]);
}

static void on_tick(void *context, uint32_t events)
{
	struct loop_test *test = context;

	(void)events;
	if (++test->ticks == 3)
		loop_stop(&test->loop, 42);
}

static int compare_ints(const void *a, const void *b)
{
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Allocates, grows and frees small and large memory; none of it is executable. */
static int need_memory(void)
{
	char *small[100];

	for (size_t i = 0; i < 100; i++)
		NEED(small[i] = calloc(1, 1 + i * 997));
	for (size_t i = 0; i < 100; i++)
		free(small[i]);
	_cleanup_free_ char *large = malloc(2 << 20);
	NEED(large);
	memset(large, 1, 2 << 20);
	char *grown = realloc(large, 8 << 20);
	NEED(grown);
	large = grown;
	NEED(large[(2 << 20) - 1] == 1);
	return 0;
}

/* Runs the event loop of common/loop.h over a socket pair, as every role does. */
static int need_loop(const struct fixture *fixture)
{
	static struct loop_test test = {.received = -1};
	struct epoll_event event;

	test.fixture = fixture;
	test.loop = (struct loop){.epoll_fd = fixture->epoll, .tick_ms = -1};
	loop_set_tick(&test.loop, 1, on_tick, &test);
	int r = loop_add(&test.loop, fixture->sockets[1], EPOLLIN, on_readable, &test);
	if (r)
		return -r;
	r = send_fd(fixture->sockets[0], fixture->pipe[0]);
	if (r)
		return -r;
	NEED(loop_run(&test.loop) == 42 && test.received >= 0);
	NEED(close(test.received) == 0);
	loop_remove(&test.loop, fixture->sockets[1]);
	NEED(epoll_wait(fixture->epoll, &event, 1, 0) == 0);
	return 0;
}

static int try_loop(const struct fixture *fixture)
{
	struct pollfd p = {.fd = fixture->sockets[1], .events = POLLIN};
	struct timespec now;
	uint8_t random[8];

	int r = need_memory();
	if (!r)
		r = need_loop(fixture);
	if (r)
		return r;
	NEED(poll(&p, 1, 1) == 0);
	NEED(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
	NEED(syscall(SYS_getrandom, random, sizeof(random), 0) == sizeof(random));
	NEED(fcntl(fixture->pipe[0], F_DUPFD_CLOEXEC, 3) > 3);
#ifndef BULKHEAD_SANITIZE
	/* exit, not _exit, so that the C library's own work at the end is covered too. */
	exit(0);
#endif
	return 0;
}

/* Allocates up to the memory cap. The allocation beyond it fails, and nothing else happens. */
static int try_memory_cap(const struct fixture *fixture)
{
	void *last = NULL;

	(void)fixture;
	for (size_t bytes = 16 << 20; bytes >= 512; bytes /= 2) {
		void **chunk;

		while ((chunk = malloc(bytes))) {
			chunk[0] = last;
			last = chunk;
		}
		NEED(errno == ENOMEM);
	}
	NEED(!calloc(1, 1 << 20) && !realloc(last, 1 << 20));
	while (last) {
		void *next = *(void **)last;

		free(last);
		last = next;
	}
	NEED(malloc(1 << 20));
	return 0;
}

/* Reads the first and the second line that a process writes. */
static int try_log(const struct fixture *fixture)
{
	(void)fixture;
	log_error("a line, as roles write them");
	log_error("and another");
	return 0;
}

/* Reads a received file by position, and asks for its size. */
static int try_read_received(const struct fixture *fixture)
{
	struct stat st;
	char byte;

	NEED(file_read_status(fixture->regular, &st) == 0 && st.st_size == 4096);
	NEED(pread(fixture->regular, &byte, 1, 4095) == 1);
	return 0;
}

/* Reads files of /proc that another process opened. The reader needs no right over the profiled
 * process, not even for its environment. */
static int try_read_identity(const struct fixture *fixture)
{
	char text[512];

	for (int i = 0; i < 3; i++)
		NEED(pread(fixture->identity[i], text, sizeof(text), 0) > 0);
	NEED(pread(fixture->identity[2], text, 1, 1) == 1);
	return 0;
}

static int try_open_identity(const struct fixture *fixture)
{
	NEED(fixture_open_proc(fixture->victim, "stat") >= 0);
	NEED(fixture_open_proc(fixture->victim, "cgroup") >= 0);
	NEED(fixture_open_proc(fixture->victim, "environ") >= 0);
	return 0;
}

/* Opens another process's program below its root without following links, as open_file_named. */
static int try_open_named(const struct fixture *fixture)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)fixture->victim);
	_cleanup_close_ int exe = open(path, O_PATH | O_CLOEXEC);
	NEED(exe >= 0 && fstat(exe, &st) == 0 && S_ISREG(st.st_mode));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", exe);
	_cleanup_close_ int program = open(path, O_RDONLY | O_CLOEXEC);
	NEED(program >= 0);
	snprintf(path, sizeof(path), "/proc/%d/root", (int)fixture->victim);
	_cleanup_close_ int root = open(path, O_PATH | O_CLOEXEC);
	NEED(root >= 0);
	_cleanup_close_ int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
	_cleanup_close_ int directory = openat(at, "etc", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	NEED(directory >= 0);
	NEED(openat(directory, "passwd", O_PATH | O_NOFOLLOW | O_CLOEXEC) >= 0);
	return 0;
}

/* Reads the memory of a process of another uid, and of no process. */
static int try_read_memory(const struct fixture *fixture)
{
	char page[64] = "";
	const struct iovec local = {page, sizeof(page)}, remote = {fixture->memory, sizeof(page)};

	NEED(process_vm_readv(fixture->victim, &local, 1, &remote, 1, 0) == sizeof(page));
	NEED(process_vm_readv(1 << 22, &local, 1, &remote, 1, 0) < 0 && errno == ESRCH);
	return 0;
}

static int try_read_stream(const struct fixture *fixture)
{
	char byte;

	NEED(read(fixture->regular, &byte, 1) == 1);
	return 0;
}

static int try_sort(const struct fixture *fixture)
{
	const size_t count = 1 << 18;
	_cleanup_free_ int *numbers = calloc(count, sizeof(*numbers));

	(void)fixture;
	NEED(numbers);
	for (size_t i = 0; i < count; i++)
		numbers[i] = (int)((i * 2654435761u) & 0xffffff);
	qsort(numbers, count, sizeof(*numbers), compare_ints);
	NEED(numbers[0] <= numbers[1]);
	return 0;
}

static int try_stdio_output(const struct fixture *fixture)
{
	FILE *out = fdopen(fixture->regular, "w");
	char buffer[4096];

	NEED(out && setvbuf(out, buffer, _IOFBF, sizeof(buffer)) == 0);
	for (int i = 0; i < 10000; i++)
		NEED(fprintf(out, "line %d\n", i) > 0);
	NEED(fclose(out) == 0);
	return 0;
}

/* Reads /proc as the opener does. */
static int try_list_processes(const struct fixture *fixture)
{
	char path[64];
	struct statfs kind;
	unsigned int count = 0;
	DIR *proc = opendir("/proc");

	NEED(proc);
	while (readdir(proc))
		count++;
	rewinddir(proc);
	NEED(count > 1 && readdir(proc));
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)fixture->victim);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	NEED(fd >= 0 && fstatfs(fd, &kind) == 0);
	FILE *maps = fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	NEED(maps && getline(&line, &size, maps) > 0);
	return 0;
}

/* The limit of threads includes the first one. */
static void *wait_for_end(void *context)
{
	pthread_mutex_t *end = context;

	pthread_mutex_lock(end);
	pthread_mutex_unlock(end);
	return NULL;
}

static int try_threads(const struct fixture *fixture)
{
	static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER;
	static pthread_t threads[THREADS_TRIED];
	pthread_attr_t attributes;
	unsigned int count = 0;
	int r = 0;

	(void)fixture;
	NEED(pthread_attr_init(&attributes) == 0 &&
	     pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES) == 0);
	pthread_mutex_lock(&end);
	while (!r && count < THREADS_TRIED) {
		r = pthread_create(&threads[count], &attributes, wait_for_end, &end);
		count += !r;
	}
	pthread_mutex_unlock(&end);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (r != EAGAIN)
		return r ? r : E2BIG;
	/* Processes of other runs of this test count too, because they have the same uid. */
	return count < policies[OTLP]->threads_max && count >= policies[OTLP]->threads_max / 2
		   ? 0
		   : ERANGE;
}

static void *execute(void *context)
{
	syscall(SYS_execve, "/nowhere", NULL, NULL);
	return context;
}

/* The filter applies to every thread, and a violation ends all of them. */
static int try_execve_in_thread(const struct fixture *fixture)
{
	pthread_t thread;

	(void)fixture;
	NEED(pthread_create(&thread, NULL, execute, NULL) == 0);
	pthread_join(thread, NULL);
	return 0;
}

/* Connects to a socket that listens but never accepts: the kernel completes the connection. With
 * Landlock this needs permission for the port, see landlock.c. */
int needs_loopback(const struct fixture *fixture)
{
	const struct sockaddr_in there = {.sin_family = AF_INET,
					  .sin_port = fixture->port,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	const int one = 1;
	int error = 0;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	NEED(fd >= 0);
	NEED(fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
	NEED(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	NEED(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	NEED(connect(fd, (const struct sockaddr *)&there, sizeof(there)) == 0 ||
	     errno == EINPROGRESS);
	NEED(poll(&p, 1, ATTEMPT_SECONDS * 1000) == 1);
	socklen_t error_length = sizeof(error);
	NEED(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_length) == 0 && error == 0);
	NEED(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
	NEED(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
	NEED(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
	NEED(shutdown(fd, SHUT_RDWR) == 0 && close(fd) == 0);
	return 0;
}

void needs_try(struct tally *tally, const struct fixture *s)
{
	/* The port is not allowed here. Older versions of Landlock do not restrict TCP. */
	const int tcp = s->landlock >= LANDLOCK_TCP ? EACCES : WORKS;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                        loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"loop, messages, exit", {WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS},
			  .fn = try_loop},
		{"log lines",            {WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS},
			  .fn = try_log},
		{"log lines to a file",  {WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS},
			  .fn = try_log, .stderr_is_file = true},
		{"memory up to the cap", {WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS},
			  .fn = try_memory_cap, .not_sanitized = true},
		{"pread of a file",      {SKIPPED, WORKS, SKIPPED, WORKS, SKIPPED, WORKS, SKIPPED, WORKS},
			.fn = try_read_received},
		{"pread of identity",    {SKIPPED, SKIPPED, SKIPPED, WORKS, SKIPPED, SKIPPED, SKIPPED, WORKS},
			.fn = try_read_identity},
		{"open identity",        {KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			.fn = try_open_identity},
		{"open by name",         {SKIPPED, SKIPPED, WORKS,   SKIPPED, SKIPPED, SKIPPED, WORKS, SKIPPED},
			.fn = try_open_named},
		{"read memory",          {KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, WORKS},
			.fn = try_read_memory},
		{"read of a file",       {KILLED, WORKS, WORKS, KILLED, WORKS, WORKS, WORKS, KILLED},
			  .fn = try_read_stream},
		{"sort",                 {SKIPPED, WORKS, SKIPPED, WORKS, WORKS, WORKS, SKIPPED, WORKS},
			  .fn = try_sort},
		{"output by stdio",      {SKIPPED, SKIPPED, SKIPPED, SKIPPED, WORKS, SKIPPED, SKIPPED, SKIPPED},
			  .fn = try_stdio_output},
		{"list of processes",    {SKIPPED, SKIPPED, WORKS, SKIPPED, SKIPPED, SKIPPED, WORKS, SKIPPED},
			.fn = try_list_processes},
		/* Only the agent's exporter has threads. */
		{"threads up to the cap", {KILLED, KILLED, KILLED, KILLED, KILLED, WORKS, KILLED, KILLED},
			.fn = try_threads, .not_sanitized = true},
		{"execve in a thread",   EVERYWHERE(KILLED),
			.fn = try_execve_in_thread, .not_sanitized = true},
		{"TCP over loopback",    {KILLED, KILLED, KILLED, KILLED, KILLED, tcp, KILLED, KILLED},
			.fn = needs_loopback},
	};
	/* clang-format on */

	CHECK(rows);
}

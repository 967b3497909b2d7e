/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role can do once it is sandboxed, one attempt at a time: the table in try_everything() is
 *a matrix of attempts and roles. Each cell is a child that becomes nobody exactly as the role does,
 *under the role's own policy, makes the attempt and tells what came of it. Needs root; exits with
 *77 without.
 *
 *	security_filters [-v]		-v prints every cell
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/sandbox.h"
#include "exporter/policy.h"
#include "loader/policy.h"
#include "symbolizer/opener/policy.h"
#include "symbolizer/worker/policy.h"
#include "unwinder-mgr/policy.h"

#ifdef BULKHEAD_SANITIZE
enum {
	SANITIZED = 1
};
#else
enum {
	SANITIZED = 0
};
#endif

enum {
	TEST_UID = 61190,
	EXIT_SKIPPED = 77,
	EXIT_NOT_SANDBOXED = 254,
	ATTEMPT_SECONDS = 10
};

/* Columns of the matrix. */
enum {
	LOADER,
	MANAGER,
	OPENER,
	WORKER,
	EXPORTER,
	ROLES
};

static const struct sandbox_policy *const policies[ROLES] = {
    [LOADER] = &loader_policy, [MANAGER] = &manager_policy,   [OPENER] = &opener_policy,
    [WORKER] = &worker_policy, [EXPORTER] = &exporter_policy,
};

/* What may come of an attempt: an errno that is not 0, or one of these. */
enum {
	WORKS = 0,
	KILLED = -1, /* by SIGSYS */
	HOLE = -2,   /* works, and should not: known, see what is printed. A failure once it is
			closed. */
	SKIPPED = -3,
	BROKEN = -4,	     /* the child did not even come to its attempt */
	OTHER_SIGNAL = -100, /* less the signal: killed, but not by the filter */
};

/* What there is to attack; made by root before any child. */
struct scene {
	char dir[64], file[96], program[96], socket[96]; /* anyone may write there */
	int regular;					 /* an open file, read and write */
	int pipe[2], sockets[2], epoll, inet, null;
	int event, map; /* -1: the kernel has none for us */
	int pidfd;	/* of `victim` */
	pid_t victim;	/* a process of root that does nothing */
	int identity[3]; /* its stat, cgroup and environ in /proc */
	char *memory;	/* a page, readable and writable */
};

struct attempt {
	const char *name;
	int expected[ROLES];
	/* A raw system call, */
	long number;
	long args[6];
	/* or something that takes more than one: 0 or an errno. */
	int (*fn)(const struct scene *scene);
	bool not_sanitized;  /* the sanitizers' run time may do it */
	bool stderr_is_file; /* else it is /dev/null */
};

/* ---- One child. ---- */

static int attempt_make(const struct attempt *a, const struct scene *scene)
{
	if (a->fn)
		return a->fn(scene);
	return syscall(a->number, a->args[0], a->args[1], a->args[2], a->args[3], a->args[4],
		       a->args[5]) < 0
		   ? errno
		   : 0;
}

/* As role_start and role_enter_sandbox do it. */
static int become(const struct sandbox_policy *policy)
{
	struct sandbox sandbox;

	log_init(policy->name);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	int r = sandbox_prepare(&sandbox, policy);
	if (!r)
		r = sandbox_drop(policy, TEST_UID, TEST_UID);
	if (!r)
		r = sandbox_enter(&sandbox, policy);
	return r;
}

/* What came of an attempt under a policy. */
static int outcome_of(const struct attempt *a, const struct sandbox_policy *policy,
		      const struct scene *scene)
{
	int status;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		alarm(ATTEMPT_SECONDS);
		dup2(a->stderr_is_file ? scene->regular : scene->null, STDERR_FILENO);
		if (become(policy))
			_exit(EXIT_NOT_SANDBOXED);
		_exit(attempt_make(a, scene));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return BROKEN;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? KILLED : OTHER_SIGNAL - WTERMSIG(status);
	return WEXITSTATUS(status) == EXIT_NOT_SANDBOXED ? BROKEN : WEXITSTATUS(status);
}

static const char *outcome_name(int outcome)
{
	switch (outcome) {
	case WORKS:
		return "works";
	case KILLED:
		return "killed";
	case HOLE:
		return "HOLE";
	case SKIPPED:
		return "skipped";
	case BROKEN:
		return "broken";
	default:
		return outcome > 0 ? strerrorname_np(outcome) : strsignal(OTHER_SIGNAL - outcome);
	}
}

/* ---- Attempts of more than one call. ---- */

/* Another ABI, with a number that means a call every role may make in ours (3: close), and read in
 * that one. */
static int try_int80(const struct scene *scene)
{
	(void)scene;
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(3), "b"(-1), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? (int)-result : 0;
#else
	return EOPNOTSUPP;
#endif
}

static int open_how(const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = {.flags = flags, .mode = mode};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int try_openat2_read(const struct scene *scene)
{
	(void)scene;
	return open_how("/etc/passwd", O_RDONLY | O_CLOEXEC, 0) < 0 ? errno : 0;
}

static int try_openat2_create(const struct scene *scene)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/made.%p", scene->dir, (void *)path);
	return open_how(path, O_WRONLY | O_CREAT | O_EXCL, 0666) < 0 ? errno : 0;
}

/* The filter lets write to descriptor 2 pass, whatever that is by now. */
static int try_write_as_stderr(const struct scene *scene)
{
	close(2);
	if (fcntl(scene->pipe[1], F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

/* As above, with a file. */
static int try_write_file_as_stderr(const struct scene *scene)
{
	close(2);
	if (fcntl(scene->regular, F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

/* ---- What each role must be able to do. ---- */

#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return errno ? errno : EPROTO;                                             \
	} while (0)

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
	const struct scene *scene;
	int received, ticks;
};

static void on_readable(void *context, uint32_t events)
{
	struct loop_test *test = context;

	(void)events;
	test->received = receive_fd(test->scene->sockets[1]);
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

/* Memory, small and large, grown, given back and executable never. */
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

/* The loop of common/loop.h over a socket pair, as in every role. */
static int need_loop(const struct scene *scene)
{
	static struct loop_test test = {.received = -1};
	struct epoll_event event;

	test.scene = scene;
	test.loop = (struct loop){.epoll_fd = scene->epoll, .tick_ms = -1};
	loop_set_tick(&test.loop, 1, on_tick, &test);
	int r = loop_add(&test.loop, scene->sockets[1], EPOLLIN, on_readable, &test);
	if (r)
		return -r;
	r = send_fd(scene->sockets[0], scene->pipe[0]);
	if (r)
		return -r;
	NEED(loop_run(&test.loop) == 42 && test.received >= 0);
	NEED(close(test.received) == 0);
	loop_remove(&test.loop, scene->sockets[1]);
	NEED(epoll_wait(scene->epoll, &event, 1, 0) == 0);
	return 0;
}

static int try_loop(const struct scene *scene)
{
	struct pollfd p = {.fd = scene->sockets[1], .events = POLLIN};
	struct timespec now;
	uint8_t random[8];

	int r = need_memory();
	if (!r)
		r = need_loop(scene);
	if (r)
		return r;
	NEED(poll(&p, 1, 1) == 0);
	NEED(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
	NEED(syscall(SYS_getrandom, random, sizeof(random), 0) == sizeof(random));
	NEED(fcntl(scene->pipe[0], F_DUPFD_CLOEXEC, 3) > 3);
#ifndef BULKHEAD_SANITIZE
	/* Not _exit: with all that the C library does at the end. */
	exit(0);
#endif
	return 0;
}

/* Up to the cap, and no further: an allocation fails, and that is all. */
static int try_memory_cap(const struct scene *scene)
{
	void *last = NULL;

	(void)scene;
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

/* The first line that a process writes, and the second. */
static int try_log(const struct scene *scene)
{
	(void)scene;
	log_error("a line, as roles write them");
	log_error("and another");
	return 0;
}

/* Another gets a file: reads it by position, and looks at its size. */
static int try_read_received(const struct scene *scene)
{
	struct stat st;
	char byte;

	NEED(fstat(scene->regular, &st) == 0 && st.st_size == 4096);
	NEED(pread(scene->regular, &byte, 1, 4095) == 1);
	return 0;
}

/* Opened by another: who reads needs no right over the process, not even for its environment. */
static int try_read_identity(const struct scene *scene)
{
	char text[512];

	for (int i = 0; i < 3; i++)
		NEED(pread(scene->identity[i], text, sizeof(text), 0) > 0);
	NEED(pread(scene->identity[2], text, 1, 1) == 1);
	return 0;
}

static int open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int try_open_identity(const struct scene *scene)
{
	NEED(open_proc(scene->victim, "stat") >= 0);
	NEED(open_proc(scene->victim, "cgroup") >= 0);
	NEED(open_proc(scene->victim, "environ") >= 0);
	return 0;
}

static int try_read_stream(const struct scene *scene)
{
	char byte;

	NEED(read(scene->regular, &byte, 1) == 1);
	return 0;
}

static int try_sort(const struct scene *scene)
{
	const size_t count = 1 << 18;
	_cleanup_free_ int *numbers = calloc(count, sizeof(*numbers));

	(void)scene;
	NEED(numbers);
	for (size_t i = 0; i < count; i++)
		numbers[i] = (int)((i * 2654435761u) & 0xffffff);
	qsort(numbers, count, sizeof(*numbers), compare_ints);
	NEED(numbers[0] <= numbers[1]);
	return 0;
}

static int try_stdio_output(const struct scene *scene)
{
	FILE *out = fdopen(scene->regular, "w");

	NEED(out);
	for (int i = 0; i < 10000; i++)
		NEED(fprintf(out, "line %d\n", i) > 0);
	NEED(fclose(out) == 0);
	return 0;
}

/* /proc as the opener reads it. */
static int try_list_processes(const struct scene *scene)
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
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)scene->victim);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	NEED(fd >= 0 && fstatfs(fd, &kind) == 0);
	FILE *maps = fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	NEED(maps && getline(&line, &size, maps) > 0);
	return 0;
}

/* ---- The matrix. ---- */

#define P(pointer) ((long)(uintptr_t)(pointer))
#define CALL(nr, ...) .number = (nr), .args = {__VA_ARGS__}
#define EVERYWHERE(outcome)                                                                        \
	{                                                                                          \
		outcome, outcome, outcome, outcome, outcome                                        \
	}
#define ONLY_LOADER(outcome)                                                                       \
	{                                                                                          \
		outcome, KILLED, KILLED, KILLED, KILLED                                            \
	}
#define ONLY_OPENER(outcome)                                                                       \
	{                                                                                          \
		KILLED, KILLED, outcome, KILLED, KILLED                                            \
	}
#define ONLY_EXPORTER(outcome)                                                                     \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, outcome                                            \
	}

struct tally {
	unsigned int cells, failures, holes;
	bool verbose;
};

static void print_cell(const char *mark, const struct sandbox_policy *policy,
		       const struct attempt *a, const char *expected, const char *outcome)
{
	printf("%-5s %-16s %-36s expected: %-8s is: %s\n", mark, policy->name, a->name, expected,
	       outcome);
}

/* One cell: the outcome must be the one expected. */
static void check_cell(struct tally *tally, const struct attempt *a, unsigned int role,
		       const struct scene *scene)
{
	const int expected = a->expected[role];

	if (expected == SKIPPED || (SANITIZED && a->not_sanitized))
		return;
	const int outcome = outcome_of(a, policies[role], scene);
	const bool good = outcome == (expected == HOLE ? WORKS : expected);
	tally->cells++;
	tally->failures += !good;
	tally->holes += good && expected == HOLE;
	const char *mark = !good ? "FAIL" : expected == HOLE ? "HOLE" : "ok";
	if (!good || expected == HOLE || tally->verbose)
		print_cell(mark, policies[role], a, outcome_name(expected), outcome_name(outcome));
}

static void check_rows(struct tally *tally, const struct attempt *rows, size_t count,
		       const struct scene *scene)
{
	for (size_t i = 0; i < count; i++) {
		for (unsigned int role = 0; role < ROLES; role++)
			check_cell(tally, &rows[i], role, scene);
	}
}

#define CHECK(rows) check_rows(tally, rows, sizeof(rows) / sizeof((rows)[0]), s)

/* Other programs and other processes. */
static void try_processes(struct tally *tally, const struct scene *s)
{
	char *const argv[] = {"true", NULL}, *const environment[] = {NULL};
	const struct clone_args clone_args = {.exit_signal = SIGCHLD};
	struct iovec local = {s->memory, 8}, remote = {s->memory, 8};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		/* Of nothing that exists: what runs if it is let through might be killed. */
		{"execve",                           EVERYWHERE(KILLED),
			CALL(SYS_execve, P("/nowhere"), P(argv), P(environment))},
		{"execveat",                         EVERYWHERE(KILLED),
			CALL(SYS_execveat, AT_FDCWD, P("/nowhere"), P(argv), P(environment))},
		{"execveat of a descriptor",         EVERYWHERE(KILLED),
			CALL(SYS_execveat, s->regular, P(""), P(argv), P(environment),
			     AT_EMPTY_PATH)},
		{"clone (fork)",                     EVERYWHERE(KILLED), CALL(SYS_clone, SIGCHLD)},
		{"clone3",                           EVERYWHERE(KILLED),
			CALL(SYS_clone3, P(&clone_args), sizeof(clone_args))},
		{"ptrace(ATTACH)",                   EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_ATTACH, s->victim)},
		{"ptrace(SEIZE)",                    EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_SEIZE, s->victim)},
		{"process_vm_readv",                 EVERYWHERE(KILLED),
			CALL(SYS_process_vm_readv, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_vm_writev",                EVERYWHERE(KILLED),
			CALL(SYS_process_vm_writev, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_madvise",                  EVERYWHERE(KILLED),
			CALL(SYS_process_madvise, s->pidfd, P(&remote), 1, MADV_COLD)},
		{"pidfd_open",                       EVERYWHERE(KILLED),
			CALL(SYS_pidfd_open, s->victim)},
		{"pidfd_getfd",                      EVERYWHERE(KILLED),
			CALL(SYS_pidfd_getfd, s->pidfd, 2)},
		{"pidfd_send_signal",                EVERYWHERE(KILLED),
			CALL(SYS_pidfd_send_signal, s->pidfd, 0)},
		{"kcmp",                             EVERYWHERE(KILLED),
			CALL(SYS_kcmp, s->victim, s->victim)},
		{"kill",                             EVERYWHERE(KILLED),
			CALL(SYS_kill, s->victim, 0)},
		{"tgkill",                           EVERYWHERE(KILLED),
			CALL(SYS_tgkill, s->victim, s->victim, 0)},
		{"rt_sigqueueinfo",                  EVERYWHERE(KILLED),
			CALL(SYS_rt_sigqueueinfo, s->victim, 0)},
		{"rt_sigaction",                     EVERYWHERE(KILLED),
			CALL(SYS_rt_sigaction, SIGSYS), .not_sanitized = true},
		{"prlimit64 of another",             EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, s->victim, RLIMIT_NOFILE), .not_sanitized = true},
		{"setpriority",                      EVERYWHERE(KILLED),
			CALL(SYS_setpriority, PRIO_PROCESS, 0, 19)},
		{"sched_setscheduler",               EVERYWHERE(KILLED),
			CALL(SYS_sched_setscheduler, 0, SCHED_IDLE)},
#ifdef __x86_64__
		{"fork",                             EVERYWHERE(KILLED), CALL(SYS_fork)},
		{"vfork",                            EVERYWHERE(KILLED), CALL(SYS_vfork)},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_sockets(struct tally *tally, const struct scene *s)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	int pair[2];

	snprintf(there.sun_path, sizeof(there.sun_path), "%s", s->socket);
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"socket(AF_INET)",                  EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET, SOCK_STREAM)},
		{"socket(AF_INET6)",                 EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET6, SOCK_DGRAM)},
		{"socket(AF_UNIX)",                  EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_UNIX, SOCK_SEQPACKET)},
		{"socket(AF_NETLINK)",               EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_NETLINK, SOCK_RAW)},
		{"socket(AF_PACKET)",                EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_PACKET, SOCK_RAW)},
		{"socket(AF_VSOCK)",                 EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_VSOCK, SOCK_STREAM)},
		{"socketpair",                       EVERYWHERE(KILLED),
			CALL(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, P(pair))},
		{"connect",                          EVERYWHERE(KILLED),
			CALL(SYS_connect, s->inet, P(&there), sizeof(there))},
		{"bind",                             EVERYWHERE(KILLED),
			CALL(SYS_bind, s->inet, P(&there), sizeof(there))},
		{"listen",                           EVERYWHERE(KILLED),
			CALL(SYS_listen, s->inet, 1)},
		{"accept4",                          EVERYWHERE(KILLED),
			CALL(SYS_accept4, s->inet)},
		{"sendto",                           EVERYWHERE(KILLED),
			CALL(SYS_sendto, s->sockets[0], P("x"), 1)},
		{"setsockopt",                       EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->sockets[0], SOL_SOCKET, SO_SNDBUF)},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_bpf(struct tally *tally, const struct scene *s)
{
	union bpf_attr map = {
	    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					   {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr program = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
				  .insn_cnt = 2,
				  .insns = (uint64_t)P(nothing),
				  .license = (uint64_t)P("GPL")};
	uint32_t key = 0;
	uint64_t value = 1;
	union bpf_attr update = {
	    .map_fd = (uint32_t)s->map, .key = (uint64_t)P(&key), .value = (uint64_t)P(&value)};
	struct bpf_map_info info;
	union bpf_attr ask = {.info = {.bpf_fd = (uint32_t)s->map,
				       .info_len = sizeof(info),
				       .info = (uint64_t)P(&info)}};
	union bpf_attr pin = {.pathname = (uint64_t)P(s->dir), .bpf_fd = (uint32_t)s->map};
	union bpf_attr id = {.map_id = 1};
	struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(clock),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 10000000,
					.disabled = 1};
	const int map_works = s->map < 0 ? SKIPPED : WORKS,
		  event_works = s->event < 0 ? SKIPPED : WORKS;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"bpf(MAP_CREATE)",                  ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_CREATE, P(&map), sizeof(map))},
		{"bpf(MAP_UPDATE_ELEM)",             ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_UPDATE_ELEM, P(&update), sizeof(update))},
		{"bpf(OBJ_GET_INFO_BY_FD)",          ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, P(&ask), sizeof(ask))},
		{"bpf(MAP_LOOKUP_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_LOOKUP_ELEM, P(&update), sizeof(update))},
		{"bpf(MAP_DELETE_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_DELETE_ELEM, P(&update), sizeof(update))},
		{"bpf(PROG_LOAD)",                   EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(PROG_LOAD), bits above 32",    EVERYWHERE(KILLED),
			CALL(SYS_bpf, 1l << 32 | BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(PROG_ATTACH)",                 EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_ATTACH, P(&program), sizeof(program))},
		{"bpf(LINK_CREATE)",                 EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_LINK_CREATE, P(&program), sizeof(program))},
		{"bpf(OBJ_PIN)",                     EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_OBJ_PIN, P(&pin), sizeof(pin))},
		{"bpf(OBJ_GET)",                     EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_OBJ_GET, P(&pin), sizeof(pin))},
		{"bpf(MAP_GET_FD_BY_ID)",            EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"bpf(PROG_GET_FD_BY_ID)",           EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"perf_event_open",                  ONLY_LOADER(event_works),
			CALL(SYS_perf_event_open, P(&clock), -1, 0, -1, PERF_FLAG_FD_CLOEXEC)},
		{"ioctl(PERF_EVENT_IOC_ENABLE)",     ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_ENABLE)},
		{"ioctl(PERF_EVENT_IOC_DISABLE)",    ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_DISABLE)},
		{"ioctl(PERF_EVENT_IOC_SET_FILTER)", EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_SET_FILTER, P("x"))},
		{"ioctl(TCGETS)",                    ONLY_EXPORTER(ENOTTY),
			CALL(SYS_ioctl, s->null, TCGETS, P(s->memory))},
		{"ioctl(TIOCSTI)",                   EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->null, TIOCSTI, P("x"))},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_files(struct tally *tally, const struct scene *s)
{
	static char handle[128];
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"openat to read",                   ONLY_OPENER(WORKS),
			CALL(SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY | O_CLOEXEC)},
		{"openat O_WRONLY",                  EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_WRONLY)},
		{"openat O_RDWR",                    EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDWR)},
		{"openat O_RDWR of /proc/PID/mem",   EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P("/proc/self/mem"), O_RDWR)},
		{"openat O_CREAT",                   EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_CREAT, 0666)},
		{"openat O_TRUNC",                   EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_TRUNC)},
		{"openat O_TMPFILE",                 EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->dir), O_RDWR | O_TMPFILE, 0666)},
		{"openat access mode 3",             EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P("/dev/null"), O_ACCMODE)},
		/* Its flags lie behind a pointer, where no filter sees them. */
		{"openat2",                          EVERYWHERE(KILLED), .fn = try_openat2_read},
		{"open_by_handle_at",                EVERYWHERE(KILLED),
			CALL(SYS_open_by_handle_at, s->regular, P(handle), O_RDONLY)},
		{"open_tree",                        EVERYWHERE(KILLED),
			CALL(SYS_open_tree, AT_FDCWD, P("/"), 0)},
		{"unlinkat",                         EVERYWHERE(KILLED),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->program))},
		{"renameat2",                        EVERYWHERE(KILLED),
			CALL(SYS_renameat2, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"linkat",                           EVERYWHERE(KILLED),
			CALL(SYS_linkat, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"symlinkat",                        EVERYWHERE(KILLED),
			CALL(SYS_symlinkat, P("/"), AT_FDCWD, P(s->program))},
		{"mkdirat",                          EVERYWHERE(KILLED),
			CALL(SYS_mkdirat, AT_FDCWD, P(s->file), 0755)},
		{"mknodat",                          EVERYWHERE(KILLED),
			CALL(SYS_mknodat, AT_FDCWD, P(s->file), S_IFIFO | 0666)},
		{"fchmod",                           EVERYWHERE(KILLED),
			CALL(SYS_fchmod, s->regular, 0666)},
		{"fchmodat",                         EVERYWHERE(KILLED),
			CALL(SYS_fchmodat, AT_FDCWD, P(s->file), 0666)},
		{"fchown",                           EVERYWHERE(KILLED),
			CALL(SYS_fchown, s->regular, -1, -1)},
		{"fsetxattr",                        EVERYWHERE(KILLED),
			CALL(SYS_fsetxattr, s->regular, P("user.x"), P("x"), 1)},
		{"utimensat",                        EVERYWHERE(KILLED),
			CALL(SYS_utimensat, AT_FDCWD, P(s->file))},
		{"chdir",                            EVERYWHERE(KILLED), CALL(SYS_chdir, P("/"))},
		{"inotify_init1",                    EVERYWHERE(KILLED), CALL(SYS_inotify_init1)},
		{"fanotify_init",                    EVERYWHERE(KILLED), CALL(SYS_fanotify_init)},
		{"faccessat",                        EVERYWHERE(KILLED),
			CALL(SYS_faccessat, AT_FDCWD, P("/"), R_OK)},
#ifdef __x86_64__
		{"open",                             EVERYWHERE(KILLED),
			CALL(SYS_open, P("/etc/passwd"), O_RDONLY)},
		{"creat",                            EVERYWHERE(KILLED),
			CALL(SYS_creat, P(s->file), 0666)},
		{"unlink",                           EVERYWHERE(KILLED),
			CALL(SYS_unlink, P(s->program))},
		{"rename",                           EVERYWHERE(KILLED),
			CALL(SYS_rename, P(s->program), P(s->program))},
		{"mkdir",                            EVERYWHERE(KILLED),
			CALL(SYS_mkdir, P(s->file), 0755)},
		{"stat by name",                     EVERYWHERE(KILLED),
			CALL(SYS_stat, P("/"), P(s->memory))},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

/* What was open before, or is received. */
static void try_descriptors(struct tally *tally, const struct scene *s)
{
	struct iovec part = {.iov_base = "x", .iov_len = 1};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"write to a file",                  ONLY_EXPORTER(WORKS),
			CALL(SYS_write, s->regular, P("x"), 1)},
		{"write to a pipe",                  ONLY_EXPORTER(WORKS),
			CALL(SYS_write, s->pipe[1], P("x"), 1)},
		{"write to stdout",                  ONLY_EXPORTER(WORKS),
			CALL(SYS_write, 1, P(""), 0)},
		{"write to stderr",                  EVERYWHERE(WORKS),
			CALL(SYS_write, 2, P(""), 0)},
		{"write to 2 with bits above 32",    ONLY_EXPORTER(WORKS),
			CALL(SYS_write, 1l << 32 | 2, P(""), 0)},
		{"writev",                           ONLY_EXPORTER(WORKS),
			CALL(SYS_writev, s->regular, P(&part), 1)},
		{"close 2, dup to 2, write a pipe",  EVERYWHERE(KILLED),
			.fn = try_write_as_stderr},
		{"close 2, dup to 2, write a file",  EVERYWHERE(KILLED),
			.fn = try_write_file_as_stderr},
		{"pwrite64",                         EVERYWHERE(KILLED),
			CALL(SYS_pwrite64, s->regular, P("x"), 1, 0)},
		{"pwritev2",                         EVERYWHERE(KILLED),
			CALL(SYS_pwritev2, s->regular, P(&part), 1, 0)},
		{"sendfile",                         EVERYWHERE(KILLED),
			CALL(SYS_sendfile, s->regular, s->null, 0, 1)},
		{"splice",                           EVERYWHERE(KILLED),
			CALL(SYS_splice, s->pipe[0], 0, s->regular, 0, 1)},
		{"vmsplice",                         EVERYWHERE(KILLED),
			CALL(SYS_vmsplice, s->pipe[1], P(&part), 1)},
		{"copy_file_range",                  EVERYWHERE(KILLED),
			CALL(SYS_copy_file_range, s->regular, 0, s->regular, 0, 1)},
		{"ftruncate",                        EVERYWHERE(KILLED),
			CALL(SYS_ftruncate, s->regular, 4096)},
		{"fallocate",                        EVERYWHERE(KILLED),
			CALL(SYS_fallocate, s->regular, 0, 0, 1)},
		{"dup",                              EVERYWHERE(KILLED), CALL(SYS_dup, s->regular)},
		{"dup3",                             EVERYWHERE(KILLED),
			CALL(SYS_dup3, s->regular, 2)},
		{"fcntl(F_DUPFD)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_DUPFD)},
		{"fcntl(F_SETFL)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETFL, O_ASYNC)},
		{"fcntl(F_SETOWN)",                  EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETOWN, s->victim)},
		{"fcntl(F_SETPIPE_SZ)",              EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->pipe[1], F_SETPIPE_SZ, 4096)},
		{"getdents64",                       ONLY_OPENER(ENOTDIR),
			CALL(SYS_getdents64, s->regular, P(s->memory), 4096)},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_memory(struct tally *tally, const struct scene *s)
{
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"mmap PROT_EXEC",                   EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1),
			     .not_sanitized = true},
		{"mmap PROT_EXEC of a file",         EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_EXEC, MAP_PRIVATE, s->regular),
			     .not_sanitized = true},
		{"mprotect PROT_EXEC",               EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(s->memory), 4096, PROT_READ | PROT_EXEC),
			     .not_sanitized = true},
		{"mprotect of text, writable",       EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(try_memory) & -4096l, 4096,
			     PROT_READ | PROT_WRITE | PROT_EXEC), .not_sanitized = true},
		{"pkey_mprotect",                    EVERYWHERE(KILLED),
			CALL(SYS_pkey_mprotect, P(s->memory), 4096, PROT_EXEC, -1)},
		{"memfd_create",                     EVERYWHERE(KILLED),
			CALL(SYS_memfd_create, P("x"))},
		{"memfd_secret",                     EVERYWHERE(KILLED), CALL(SYS_memfd_secret)},
		{"shmget",                           EVERYWHERE(KILLED),
			CALL(SYS_shmget, 0, 4096, 0600)},
		{"remap_file_pages",                 EVERYWHERE(KILLED),
			CALL(SYS_remap_file_pages, P(s->memory), 4096)},
		{"userfaultfd",                      EVERYWHERE(KILLED), CALL(SYS_userfaultfd)},
		{"io_uring_setup",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_setup, 1, P(s->memory))},
		{"io_uring_enter",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_enter, s->regular)},
		{"io_uring_register",                EVERYWHERE(KILLED),
			CALL(SYS_io_uring_register, s->regular)},
		{"io_setup",                         EVERYWHERE(KILLED),
			CALL(SYS_io_setup, 1, P(s->memory))},
		{"personality",                      EVERYWHERE(KILLED),
			CALL(SYS_personality, 0x0400000)},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_privileges(struct tally *tally, const struct scene *s)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter */
		{"setuid(0)",                        EVERYWHERE(KILLED), CALL(SYS_setuid)},
		{"setresuid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresuid)},
		{"setresgid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresgid)},
		{"setgroups",                        EVERYWHERE(KILLED), CALL(SYS_setgroups)},
		{"setfsuid(0)",                      EVERYWHERE(KILLED), CALL(SYS_setfsuid)},
		{"capset of more",                   EVERYWHERE(KILLED),
			CALL(SYS_capset, P(&header), P(all))},
		{"prctl(PR_SET_DUMPABLE)",           EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_DUMPABLE, 1)},
		{"prctl(PR_SET_PTRACER)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_PTRACER, -1)},
		{"prctl(PR_CAP_AMBIENT)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE)},
		{"setrlimit",                        EVERYWHERE(KILLED),
			CALL(SYS_setrlimit, RLIMIT_NOFILE, P(&unlimited))},
		{"prlimit64",                        EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, 0, RLIMIT_CORE, P(&unlimited)), .not_sanitized = true},
		{"seccomp",                          EVERYWHERE(KILLED), CALL(SYS_seccomp)},
		{"landlock_create_ruleset",          EVERYWHERE(KILLED),
			CALL(SYS_landlock_create_ruleset, 0, 0, 1)},
		{"unshare(CLONE_NEWUSER)",           EVERYWHERE(KILLED),
			CALL(SYS_unshare, CLONE_NEWUSER)},
		{"setns",                            EVERYWHERE(KILLED),
			CALL(SYS_setns, s->pidfd, CLONE_NEWNS)},
		{"chroot",                           EVERYWHERE(KILLED),
			CALL(SYS_chroot, P(s->dir))},
		{"pivot_root",                       EVERYWHERE(KILLED),
			CALL(SYS_pivot_root, P(s->dir), P(s->dir))},
		{"mount",                            EVERYWHERE(KILLED),
			CALL(SYS_mount, P("none"), P(s->dir), P("tmpfs"))},
		{"umount2",                          EVERYWHERE(KILLED),
			CALL(SYS_umount2, P(s->dir), MNT_EXPIRE)},
		{"fsopen",                           EVERYWHERE(KILLED),
			CALL(SYS_fsopen, P("tmpfs"))},
		{"mount_setattr",                    EVERYWHERE(KILLED),
			CALL(SYS_mount_setattr, AT_FDCWD, P(s->dir))},
		{"keyctl",                           EVERYWHERE(KILLED), CALL(SYS_keyctl)},
		{"add_key",                          EVERYWHERE(KILLED), CALL(SYS_add_key)},
		{"init_module",                      EVERYWHERE(KILLED), CALL(SYS_init_module)},
		{"finit_module",                     EVERYWHERE(KILLED),
			CALL(SYS_finit_module, -1, P(""))},
		{"delete_module",                    EVERYWHERE(KILLED),
			CALL(SYS_delete_module, P(""))},
		{"kexec_load",                       EVERYWHERE(KILLED),
			CALL(SYS_kexec_load, 0, 0, 0, -1)},
		{"reboot",                           EVERYWHERE(KILLED), CALL(SYS_reboot)},
		{"swapon",                           EVERYWHERE(KILLED), CALL(SYS_swapon)},
		{"sethostname",                      EVERYWHERE(KILLED),
			CALL(SYS_sethostname, 0, -1)},
		{"clock_settime",                    EVERYWHERE(KILLED),
			CALL(SYS_clock_settime, -1)},
		{"syslog",                           EVERYWHERE(KILLED),
			CALL(SYS_syslog, 3, P(s->memory), 1)},
		{"acct",                             EVERYWHERE(KILLED), CALL(SYS_acct, P("/"))},
		{"a number of no call",              EVERYWHERE(KILLED), CALL(999)},
		{"the number -1",                    EVERYWHERE(KILLED), CALL(-1)},
#ifdef __x86_64__
		{"ioperm",                           EVERYWHERE(KILLED),
			CALL(SYS_ioperm, 0x80, 1, 1)},
		{"iopl",                             EVERYWHERE(KILLED), CALL(SYS_iopl, 3)},
		{"modify_ldt",                       EVERYWHERE(KILLED), CALL(SYS_modify_ldt)},
		{"arch_prctl",                       EVERYWHERE(KILLED),
			CALL(SYS_arch_prctl, 0x1003, P(s->memory))},
		{"x32 ABI, an allowed number",       EVERYWHERE(KILLED),
			CALL(0x40000000 | SYS_close, -1)},
		{"x32 ABI, execve",                  EVERYWHERE(KILLED), CALL(0x40000000 | 520)},
		{"32-bit ABI, an allowed number",    EVERYWHERE(KILLED), .fn = try_int80},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

/* What the filters are there not to forbid. */
static void try_work(struct tally *tally, const struct scene *s)
{
	/* clang-format off */
	const struct attempt rows[] = {
		/*                        loader   manager  opener   worker   exporter */
		{"loop, messages, exit", {WORKS,   WORKS,   WORKS,   WORKS,   WORKS},
			  .fn = try_loop},
		{"log lines",            {WORKS,   WORKS,   WORKS,   WORKS,   WORKS},
			  .fn = try_log},
		{"log lines to a file",  {WORKS,   WORKS,   WORKS,   WORKS,   WORKS},
			  .fn = try_log, .stderr_is_file = true},
		{"memory up to the cap", {SKIPPED, WORKS,   WORKS,   WORKS,   WORKS},
			  .fn = try_memory_cap, .not_sanitized = true},
		{"pread of a file",      {SKIPPED, WORKS,   SKIPPED, WORKS,   SKIPPED},
			.fn = try_read_received},
		{"pread of identity",    {SKIPPED, SKIPPED, SKIPPED, WORKS,   SKIPPED},
			.fn = try_read_identity},
		{"open identity",        {KILLED,  KILLED,  WORKS,   KILLED,  KILLED},
			.fn = try_open_identity},
		{"read of a file",       {KILLED,  WORKS,   WORKS,   KILLED,  WORKS},
			  .fn = try_read_stream},
		{"sort",                 {SKIPPED, WORKS,   SKIPPED, WORKS,   WORKS},
			  .fn = try_sort},
		{"output by stdio",      {SKIPPED, SKIPPED, SKIPPED, SKIPPED, WORKS},
			  .fn = try_stdio_output},
		{"list of processes",    {SKIPPED, SKIPPED, WORKS,   SKIPPED, SKIPPED},
			.fn = try_list_processes},
	};
	/* clang-format on */

	CHECK(rows);
}

/*
 * Landlock alone: the role's policy, its filter widened by what opens and changes files. What the
 * filter lets through must fail all the same.
 */
static void try_landlock(struct tally *tally, const struct scene *s)
{
	static const struct sandbox_syscall more[] = {
	    ALLOW(openat, "test"),  ALLOW(openat2, "test"),   ALLOW(unlinkat, "test"),
	    ALLOW(mkdirat, "test"), ALLOW(renameat2, "test"),
	};
	char made[128];
	snprintf(made, sizeof(made), "%s/directory", s->dir);
	/* clang-format off */
	const struct attempt rows[] = {
		{"Landlock: open to read",   EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY)},
		{"Landlock: open to write",  EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDWR)},
		{"Landlock: openat2",        EVERYWHERE(EACCES), .fn = try_openat2_read},
		{"Landlock: list",           EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/proc"), O_RDONLY | O_DIRECTORY)},
		{"Landlock: create",         EVERYWHERE(EACCES), .fn = try_openat2_create},
		{"Landlock: unlinkat",       EVERYWHERE(EACCES),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->program))},
		{"Landlock: mkdirat",        EVERYWHERE(EACCES),
			CALL(SYS_mkdirat, AT_FDCWD, P(made), 0755)},
	};
	/* clang-format on */

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0) {
		printf("skipped: this kernel has no Landlock\n");
		return;
	}
	for (unsigned int role = 0; role < ROLES; role++) {
		struct sandbox_policy widened = *policies[role];
		struct sandbox_syscall all[64];

		if (widened.no_landlock)
			continue;
		memcpy(all, widened.syscalls, widened.syscall_count * sizeof(all[0]));
		memcpy(all + widened.syscall_count, more, sizeof(more));
		widened.syscalls = all;
		widened.syscall_count += sizeof(more) / sizeof(more[0]);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			int outcome = outcome_of(&rows[i], &widened, s);
			bool good = outcome == EACCES;

			tally->cells++;
			tally->failures += !good;
			if (!good || tally->verbose)
				print_cell(good ? "ok" : "FAIL", &widened, &rows[i], "EACCES",
					   outcome_name(outcome));
		}
	}
}

/* ---- What the kernel says of a sandboxed process. ---- */

static uint64_t capability_mask(const cap_value_t *values)
{
	uint64_t mask = 0;

	for (; *values >= 0; values++)
		mask |= 1ull << *values;
	return mask;
}

/* The line `key` of /proc/PID/file, blanks as one space. */
static bool proc_line(pid_t pid, const char *file, const char *key, char *value, size_t size)
{
	char path[64];
	_cleanup_free_ char *line = NULL;
	size_t room = 0, used = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		if (strncmp(line, key, strlen(key)))
			continue;
		for (const char *c = line + strlen(key); *c && used + 1 < size; c++) {
			const bool blank = *c == ' ' || *c == '\t' || *c == '\n';

			if (!blank || (used && value[used - 1] != ' '))
				value[used++] = blank ? ' ' : *c;
		}
		while (used && value[used - 1] == ' ')
			used--;
		value[used] = 0;
		return true;
	}
	return false;
}

static void check_line(struct tally *tally, pid_t pid, const char *name, const char *file,
		       const char *key, const char *expected)
{
	char value[128] = "(no such line)";

	proc_line(pid, file, key, value, sizeof(value));
	const bool good = !strcmp(value, expected);
	tally->cells++;
	tally->failures += !good;
	if (!good || tally->verbose)
		printf("%-5s %-16s %-36s expected: %s, is: %s\n", good ? "ok" : "FAIL", name, key,
		       expected, value);
}

static void check_process(struct tally *tally, pid_t pid, const struct sandbox_policy *policy)
{
	char caps[32], files[64], path[64];
	struct stat st = {0};

	snprintf(caps, sizeof(caps), "%016" PRIx64, capability_mask(policy->steady_capabilities));
	snprintf(files, sizeof(files), "%u %u files", policy->files_max, policy->files_max);
	check_line(tally, pid, policy->name, "status", "Uid:", "61190 61190 61190 61190");
	check_line(tally, pid, policy->name, "status", "Gid:", "61190 61190 61190 61190");
	check_line(tally, pid, policy->name, "status", "Groups:", "");
	check_line(tally, pid, policy->name, "status", "CapEff:", caps);
	check_line(tally, pid, policy->name, "status", "CapPrm:", caps);
	check_line(tally, pid, policy->name, "status", "CapInh:", "0000000000000000");
	check_line(tally, pid, policy->name, "status", "CapAmb:", "0000000000000000");
	check_line(tally, pid, policy->name, "status", "CapBnd:", "0000000000000000");
	check_line(tally, pid, policy->name, "status", "NoNewPrivs:", "1");
	check_line(tally, pid, policy->name, "status", "Seccomp:", "2");
	check_line(tally, pid, policy->name, "status", "Seccomp_filters:", "1");
	check_line(tally, pid, policy->name, "limits", "Max core file size", "0 0 bytes");
	check_line(tally, pid, policy->name, "limits", "Max processes", "0 0 processes");
	check_line(tally, pid, policy->name, "limits", "Max open files", files);
	/* Not dumpable: its files in /proc are root's. */
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	const bool good = stat(path, &st) == 0 && st.st_uid == 0;
	tally->cells++;
	tally->failures += !good;
	if (!good)
		printf("FAIL  %-16s is dumpable\n", policy->name);
}

/* The rows of design.md, section 1. */
static void check_capability_lists(struct tally *tally)
{
	const struct {
		uint64_t start, steady;
	} wanted[ROLES] = {
	    [LOADER] = {1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYSLOG,
			1ull << CAP_BPF | 1ull << CAP_PERFMON},
	    [OPENER] = {1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH |
			    1ull << CAP_CHECKPOINT_RESTORE,
			1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH |
			    1ull << CAP_CHECKPOINT_RESTORE},
	};

	for (unsigned int role = 0; role < ROLES; role++) {
		const bool good =
		    capability_mask(policies[role]->start_capabilities) == wanted[role].start &&
		    capability_mask(policies[role]->steady_capabilities) == wanted[role].steady;

		tally->cells++;
		tally->failures += !good;
		if (!good)
			printf("FAIL  %-16s its capabilities are not those of the design\n",
			       policies[role]->name);
	}
}

static void check_processes(struct tally *tally)
{
	for (unsigned int role = 0; role < ROLES; role++) {
		int link[2], status;
		char byte;

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
			abort();
		fflush(NULL);
		pid_t child = fork();
		if (child == 0) {
			struct pollfd p = {.fd = link[1], .events = POLLIN};

			close(link[0]);
			alarm(ATTEMPT_SECONDS);
			if (become(policies[role]))
				_exit(EXIT_NOT_SANDBOXED);
			struct iovec part = {.iov_base = "x", .iov_len = 1};
			sendmsg(link[1], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1},
				MSG_NOSIGNAL);
			poll(&p, 1, -1);
			_exit(0);
		}
		close(link[1]);
		if (recv(link[0], &byte, 1, 0) == 1)
			check_process(tally, child, policies[role]);
		close(link[0]);
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		    WEXITSTATUS(status)) {
			printf("FAIL  %-16s did not end by itself\n", policies[role]->name);
			tally->failures++;
		}
	}
}

/* ---- The scene. ---- */

static int scene_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 || fchmod(fd, 0666) < 0 || ftruncate(fd, 4096) < 0)
		abort();
	return fd;
}

static pid_t scene_victim(void)
{
	pid_t victim = fork();

	if (victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return victim;
}

static void scene_init(struct scene *s)
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
	s->regular = scene_file(s->file);
	close(scene_file(s->program));
	s->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pipe2(s->pipe, O_CLOEXEC | O_NONBLOCK) < 0 || s->null < 0 || s->epoll < 0 ||
	    s->memory == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s->sockets) < 0)
		abort();
	s->map = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	s->event = (int)syscall(SYS_perf_event_open, &clock, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	s->victim = scene_victim();
	s->pidfd = (int)syscall(SYS_pidfd_open, s->victim, 0);
	s->identity[0] = open_proc(s->victim, "stat");
	s->identity[1] = open_proc(s->victim, "cgroup");
	s->identity[2] = open_proc(s->victim, "environ");
	if (s->victim < 0 || s->pidfd < 0 || s->identity[0] < 0 || s->identity[1] < 0 ||
	    s->identity[2] < 0)
		abort();
}

static void scene_fini(struct scene *s)
{
	DIR *dir = opendir(s->dir);
	struct dirent *entry;

	kill(s->victim, SIGKILL);
	waitpid(s->victim, NULL, 0);
	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(s->dir);
}

int main(int argc, char **argv)
{
	struct tally tally = {.verbose = argc > 1 && !strcmp(argv[1], "-v")};
	struct scene scene;

	if (geteuid() != 0) {
		printf("skipped: only root can drop what a role drops\n");
		return EXIT_SKIPPED;
	}
	scene_init(&scene);
	check_capability_lists(&tally);
	check_processes(&tally);
	try_work(&tally, &scene);
	try_processes(&tally, &scene);
	try_sockets(&tally, &scene);
	try_bpf(&tally, &scene);
	try_files(&tally, &scene);
	try_descriptors(&tally, &scene);
	try_memory(&tally, &scene);
	try_privileges(&tally, &scene);
	try_landlock(&tally, &scene);
	scene_fini(&scene);
	printf("%u cells, %u failures, %u known holes\n", tally.cells, tally.failures, tally.holes);
	return tally.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

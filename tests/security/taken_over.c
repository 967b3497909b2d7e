/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes an attacker's system calls inside running processes, for
 * tests/e2e/test_taken_over.py.
 *
 *	taken_over OTHER PID...		the processes, and another one that they may not reach
 *	taken_over control		a process of root that has no sandbox
 *	taken_over start N COMMAND...	executes a command that starts N roles; 0: it is a role itself
 *	taken_over labelled LABEL	as "control", restricted by this profile of AppArmor or this
 *					context of SELinux only
 *
 * Only roles that were started in the third way can be attacked (inject_start.c).
 *
 * For each process it prints "process PID", and for each action (actions.h) "NAME: OUTCOME". The
 * outcome is the word works; or the name of the error with which the first call that failed has
 * failed; or the word killed, if it was the filter; or "signal N"; or the word blocked. Then it
 * says whether the targets are unharmed: "memory: unchanged" or "memory: changed", and the same of
 * the secret file.
 *
 * It needs root, and exits with 77 if filters cannot be suspended here, as in a container.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "tests/security/actions.h"
#include "tests/security/inject.h"

enum {
	EXIT_SKIPPED = 77,
	PAGE = 4096,
	NICE = 5, /* of the victim, so that it can be lowered without a capability */
	/* How long a role is stopped, at most and about, before it goes on for this long. */
	STOPPED_MOST_MS = 2000,
	GOES_ON_MS = 100,
};

static const char secret_text[] = "secret";

static void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void add_file(const char *dir, const char *name, mode_t mode, char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, secret_text, sizeof(secret_text)) < 0 || fchmod(fd, mode) < 0)
		fail(path);
	close(fd);
}

/* Puts this process under a profile of AppArmor, or into a context of SELinux, which has colons. */
static void change_label(const char *label)
{
	int fd = open("/proc/thread-self/attr/current", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dprintf(fd, "%s%s", strchr(label, ':') ? "" : "changeprofile ", label) < 0)
		fail(label);
	close(fd);
}

/* Starts a process that waits until this one ends, with this label if not NULL. */
static pid_t add_process(const char *input, const char *label)
{
	int ready[2];

	if (pipe2(ready, O_CLOEXEC) < 0)
		fail("pipe");
	const pid_t pid = fork();
	if (pid) {
		char byte;

		close(ready[1]);
		/* At its end, too: then the attack fails. */
		(void)!read(ready[0], &byte, 1);
		close(ready[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int fd = open(input, O_RDONLY);
	dup2(fd, STDIN_FILENO);
	if (label)
		change_label(label);
	close(ready[1]);
	for (;;)
		pause();
}

/* Listeners which an attacker may want to reach. They stay open until the end. */
static void add_listeners(struct targets *t)
{
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(here);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    unix_socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(t->abstract, sizeof(t->abstract), "bulkhead-test-%d", (int)getpid());
	snprintf(local.sun_path + 1, sizeof(local.sun_path) - 1, "%s", t->abstract);
	if (bind(tcp, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(tcp, 64) < 0 ||
	    getsockname(tcp, (struct sockaddr *)&here, &length) < 0)
		fail("listen");
	t->port = here.sin_port;
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(t->abstract));
	if (bind(unix_socket, (struct sockaddr *)&local, length) < 0 || listen(unix_socket, 64) < 0)
		fail("listen");
}

static void targets_init(struct targets *t)
{
	char path[128];

	snprintf(t->dir, sizeof(t->dir), "/tmp/bulkhead-taken-XXXXXX");
	if (!mkdtemp(t->dir) || chmod(t->dir, 0777) < 0)
		fail("mkdtemp");
	add_file(t->dir, "file", 0666, t->file, sizeof(t->file));
	add_file(t->dir, "secret", 0400, t->secret, sizeof(t->secret));
	add_file(t->dir, "deleted", 0666, path, sizeof(path));
	add_file(t->dir, "renamed", 0666, path, sizeof(path));
	snprintf(path, sizeof(path), "%s/removed", t->dir);
	if (mkdir(path, 0777) < 0)
		fail("mkdir");
	t->victim = add_process(t->secret, NULL);
	t->mortal = add_process(t->secret, NULL);
	if (!t->other)
		t->other = t->victim;
}

static bool memory_is_unchanged(const struct targets *t)
{
	char found[sizeof(secret_text)];
	struct iovec local = {found, sizeof(found)}, remote = {t->memory, sizeof(found)};

	return process_vm_readv(t->victim, &local, 1, &remote, 1, 0) == sizeof(found) &&
	       !memcmp(found, secret_text, sizeof(found));
}

static bool secret_is_unchanged(const struct targets *t)
{
	char found[sizeof(secret_text) + 1];
	struct stat st;
	int fd = open(t->secret, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));
	const bool unchanged =
	    n == sizeof(secret_text) && !memcmp(found, secret_text, sizeof(secret_text)) &&
	    fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0400 && st.st_uid == 0;

	if (fd >= 0)
		close(fd);
	return unchanged;
}

static void targets_fini(struct targets *t)
{
	int status;

	printf("memory: %s\nsecret: %s\n", memory_is_unchanged(t) ? "unchanged" : "changed",
	       secret_is_unchanged(t) ? "unchanged" : "changed");
	printf("victim: %s\n", waitpid(t->mortal, &status, WNOHANG) == 0 ? "alive" : "ended");
	kill(t->victim, SIGKILL);
	kill(t->mortal, SIGKILL);
	waitpid(t->victim, &status, 0);
	waitpid(t->mortal, &status, 0);
}

/* Makes the calls of one action in a fork of the process. Returns its outcome as text. */
static const char *outcome_of(const struct action *action, struct inject_process *fork)
{
	static char text[32];
	long results[ACTION_CALLS_MAX];

	for (unsigned int i = 0; i < action->call_count; i++) {
		long args[6];

		for (int a = 0; a < 6; a++) {
			const long given = action->calls[i].args[a], call = given - RESULT(0);

			args[a] = call >= 0 && call < (long)i ? results[call] : given;
		}
		switch (inject_call(fork, action->calls[i].number, args, &results[i])) {
		case INJECT_RETURNED:
			break;
		case INJECT_BLOCKED:
			return "blocked";
		case INJECT_ENDED:
			snprintf(text, sizeof(text), "signal %ld", results[i]);
			return results[i] == SIGSYS ? "killed" : text;
		default:
			fail("ptrace");
		}
		if (results[i] < 0 && results[i] > -PAGE)
			return strerrorname_np((int)-results[i]);
	}
	return "works";
}

static void attempt(const struct action *action, struct inject_process *role)
{
	struct inject_process fork;
	int r = inject_fork(role, &fork);

	if (r == -EPERM)
		exit(EXIT_SKIPPED);
	errno = -r;
	if (r < 0)
		fail("fork of the role");
	const char *outcome = outcome_of(action, &fork);
	printf("%s: %s\n", action->name, outcome);
	errno = -inject_end(role, &fork);
	if (errno)
		fail("end of the fork");
}

static void open_role(struct inject_process *role, pid_t pid)
{
	errno = -inject_open(role, pid);
	if (errno)
		fail("ptrace");
}

/* Makes all attempts. In between the role may answer the supervisor, so that it is not taken
 * for one that hangs: on a loaded machine all of them may take longer than a watchdog allows. */
static void attempt_all(const struct actions *actions, pid_t pid)
{
	struct inject_process role;
	uint64_t stopped_ns = clock_monotonic_ns();

	open_role(&role, pid);
	for (unsigned int i = 0; i < actions->count; i++) {
		if (clock_monotonic_ns() - stopped_ns > STOPPED_MOST_MS * NS_PER_MS) {
			inject_close(&role);
			nanosleep(&(struct timespec){.tv_nsec = GOES_ON_MS * NS_PER_MS}, NULL);
			stopped_ns = clock_monotonic_ns();
			open_role(&role, pid);
		}
		attempt(&actions->of[i], &role);
	}
	inject_close(&role);
}

static void attack(pid_t pid, const struct targets *shared)
{
	static struct actions actions;
	struct targets targets = *shared;

	inject_arena_reset();
	actions.count = 0;
	targets_init(&targets);
	actions_add_files(&actions, &targets);
	actions_add_names(&actions, &targets);
	actions_add_network(&actions, &targets);
	actions_add_processes(&actions, &targets);
	actions_add_memory(&actions, &targets);
	actions_add_kernel(&actions, &targets);
	actions_add_privileges(&actions, &targets);
	actions_add_namespaces(&actions, &targets);
	printf("process %d\n", (int)pid);
	attempt_all(&actions, pid);
	targets_fini(&targets);
}

int main(int argc, char **argv)
{
	struct targets targets = {0};
	char *const *pids = argv + 2;

	if (geteuid() != 0)
		return EXIT_SKIPPED;
	if (argc < 2)
		return EXIT_FAILURE;
	if (argc > 3 && !strcmp(argv[1], "start"))
		inject_start(argv + 3, (unsigned int)strtoul(argv[2], NULL, 10));
	setvbuf(stdout, NULL, _IOLBF, 0);
	targets.memory =
	    mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(targets.memory, secret_text, sizeof(secret_text));
	add_listeners(&targets);
	const bool labelled = argc == 3 && !strcmp(argv[1], "labelled");
	if (labelled || !strcmp(argv[1], "control")) {
		/* What it mounts disappears with it. */
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			return EXIT_SKIPPED;
		attack(add_process("/dev/null", labelled ? argv[2] : NULL), &targets);
		return EXIT_SUCCESS;
	}
	targets.other = (pid_t)strtol(argv[1], NULL, 10);
	for (; *pids; pids++)
		attack((pid_t)strtol(*pids, NULL, 10), &targets);
	return EXIT_SUCCESS;
}

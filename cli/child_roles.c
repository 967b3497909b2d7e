/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles of a recording, and of an agent that one command starts, are children of this process.
 *
 * How this works. Each role gets a uid of its own (role_uids.h). The run directory has one
 * subdirectory per role, which belongs to its uid; there the role listens on a socket. All roles
 * are started at once, with the run directory and the uids as arguments. This process connects to
 * each of them as soon as it listens, and then tells each who is there (supervisor_meet.c).
 *
 * A guard, a process that only waits for the end of a pipe, removes the run directory and the pins
 * if this process is killed. Without the directory, roles that still wait for each other end.
 *
 * A process that waits for a file system or a device may not even end when it is killed. Nobody
 * waits for such a role: a second after it was killed it counts as ended and is left alone. It
 * keeps its uid, and roles_collect_others() collects it if it ends some day.
 *
 * The helpers of a role that was killed become children of this process, which collects them. The
 * first process of a container often collects nobody.
 *
 * Example: `bulkhead record` with pid 4711 starts the worker with uid 64187 (the fourth from 61184
 * + 4711 * 8 modulo the range), and /run/bulkhead-4711-TIME as its run directory. A file that the
 * manager reads is on a disk that does not answer. At the end of the recording the manager is
 * killed; a second later the recording ends without it.
 */
#include "control/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/pin_directory.h"
#include "cli/program_path.h"
#include "cli/role_uids.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"

enum {
	/* Roles have a second to end by themselves. */
	STOP_POLLS = 100,
	STOP_POLL_NS = 10000000,
	REMOVE_ATTEMPTS = 100, /* of run_dir_remove(): a role that starts may disturb one */
	CONNECT_POLL_MS = 50,  /* how often it is checked whether a role has ended */
	/* A role that is killed usually ends within milliseconds, or when a disk has answered. */
	LEAVE_ALONE_AFTER_MS = 1000,
};

bool roles_are_services(void)
{
	return false;
}

/* Removes the run directory. A role that is just starting may create its socket between unlink()
 * and rmdir(). Then the directory is not empty, and all is tried again. */
static void run_dir_remove(const char *run_dir)
{
	char path[128];

	for (int i = 0; i < REMOVE_ATTEMPTS; i++) {
		for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
			snprintf(path, sizeof(path), "%s/%s/sock", run_dir,
				 role_names[role].directory);
			unlink(path);
			*strrchr(path, '/') = 0;
			rmdir(path);
		}
		if (rmdir(run_dir) == 0 || errno != ENOTEMPTY)
			return;
	}
}

/* Removes the pins of a loader that was killed, and their directory. */
static void pins_remove(const struct roles *roles)
{
	if (!roles->has_pin_directory)
		return;
	pin_directory_clear(roles->pin_directory);
	rmdir(roles->pin_directory);
}

/* Makes the directory for pins. Without it the agent works, too. */
static void pins_prepare(struct roles *roles)
{
	const int r = roles->pin_directory
			  ? pin_directory_make(roles->pin_directory, roles->uids.uid[ROLE_LOADER])
			  : -ENOENT;

	roles->has_pin_directory = !r;
	if (r < 0 && roles->pin_directory)
		log_info("nothing is pinned, so all roles start again if the loader ends: path=%s "
			 "error=%s",
			 roles->pin_directory, strerror(-r));
}

/* Starts the guard, a child that waits until the other end of its pipe is closed, and then removes
 * the run directory. The kernel closes that end even if this process is killed, so no file is
 * left. */
static int roles_start_guard(struct roles *roles)
{
	int ends[2];
	char unused;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	roles->guard = fork();
	if (roles->guard == 0) {
		close(ends[1]);
		prctl(PR_SET_NAME, "bulkhead-guard");
		while (read(ends[0], &unused, 1) < 0 && errno == EINTR)
			;
		run_dir_remove(roles->run_dir);
		pins_remove(roles);
		_exit(0);
	}
	close(ends[0]);
	roles->guard_fd = ends[1];
	return roles->guard < 0 ? -errno : 0;
}

static int roles_make_run_dir(struct roles *roles, const char *agent_run_dir)
{
	char path[128];

	if (agent_run_dir)
		snprintf(roles->run_dir, sizeof(roles->run_dir), "%s", agent_run_dir);
	else
		snprintf(roles->run_dir, sizeof(roles->run_dir), "/run/bulkhead-%d-%llx", getpid(),
			 (unsigned long long)clock_monotonic_ns());
	/* The guard is started before there is anything to remove: it may find nothing. */
	int r = roles_start_guard(roles);
	if (r < 0)
		return r;
	/* An earlier agent may have been killed together with its guard. */
	if (agent_run_dir)
		run_dir_remove(agent_run_dir);
	/* Other users may reach a socket below, which refuses unexpected uids, but cannot list the
	 * directory: mode 0711. */
	if (mkdir(roles->run_dir, 0711) < 0 && !(agent_run_dir && errno == EEXIST))
		return -errno;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		snprintf(path, sizeof(path), "%s/%s", roles->run_dir, role_names[role].directory);
		if (mkdir(path, 0711) < 0 ||
		    chown(path, roles->uids.uid[role], (gid_t)roles->uids.uid[role]) < 0)
			return -errno;
	}
	return 0;
}

static void roles_remove_run_dir(struct roles *roles)
{
	if (roles->guard <= 0)
		return;
	close(roles->guard_fd);
	waitpid(roles->guard, NULL, 0);
	roles->guard = 0;
}

/* Executes the program of a role, in the child. Of the caller's descriptors and environment the
 * role only gets stderr and BULKHEAD_LOG. The directory may be below one that the role cannot
 * enter. NULL: it stays where the caller is. */
static void __attribute__((noreturn))
roles_exec(const char *program, char *const argv[], const char *directory)
{
	const int null = open("/dev/null", O_RDWR);
	const char *log = getenv("BULKHEAD_LOG");
	char level[64];
	char *environment[] = {NULL, NULL};
	sigset_t none;

	/* The caller's environment may hold secrets. */
	if (log && (size_t)snprintf(level, sizeof(level), "BULKHEAD_LOG=%s", log) < sizeof(level))
		environment[0] = level;
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (directory && chdir(directory) < 0) {
		fprintf(stderr, "bulkhead: cannot enter agent.pin_directory: path=%s error=%s\n",
			directory, strerror(errno));
		_exit(STATUS_FAILED);
	}
	execve(program, argv, environment);
	fprintf(stderr, "bulkhead: cannot start %s: %s; reinstall bulkhead\n", program,
		strerror(errno));
	_exit(STATUS_FAILED);
}

static int roles_spawn(struct roles *roles, enum role_id role)
{
	char program[PATH_MAX], uids[128];
	size_t used = 0;

	for (int i = 0; i < ROLE_COUNT; i++)
		used += (size_t)snprintf(uids + used, sizeof(uids) - used, "%s%u", i ? "," : "",
					 (unsigned int)roles->uids.uid[i]);
	const char *name = roles->agent ? role_names[role].agent_program : role_names[role].program;
	program_path(name, program, sizeof(program));
	char *argv[] = {(char *)(uintptr_t)name,
			(char *)(uintptr_t) "--run-dir",
			roles->run_dir,
			(char *)(uintptr_t) "--uids",
			uids,
			NULL,
			NULL,
			NULL,
			NULL};
	const char *directory =
	    role == ROLE_LOADER && roles->has_pin_directory ? roles->pin_directory : NULL;
	size_t count = 5;
	if (roles->agent)
		argv[count++] = (char *)(uintptr_t) "--agent";
	if (roles->strict_memory && (role == ROLE_OPENER || role == ROLE_WORKER))
		argv[count++] = (char *)(uintptr_t) "--strict-memory";
	if (directory) {
		argv[count++] = (char *)(uintptr_t) "--pin-directory";
		argv[count++] = (char *)(uintptr_t) ".";
	}
	pid_t pid = fork();
	if (pid == 0)
		roles_exec(program, argv, directory);
	if (pid < 0)
		return -errno;
	roles->processes[role] = (struct role_process){.pid = pid, .started = pid};
	return 0;
}

void roles_kill(struct roles *roles, enum role_id role)
{
	struct role_process *child = &roles->processes[role];

	if (!child->pid || child->killed_ns)
		return;
	child->killed_ns = clock_monotonic_ns();
	kill(child->pid, SIGKILL);
}

/* Counts a role as ended by SIGKILL that was sent this signal and did not end. */
static void role_leave_alone(struct roles *roles, enum role_id role)
{
	struct role_process *child = &roles->processes[role];

	log_error(
	    "a role was killed and does not end, so it is left alone; it probably waits for a "
	    "file system or a device that does not answer: role=%s pid=%d",
	    role_names[role].process, child->pid);
	/* roles_prepare() keeps room for all. */
	if (roles->left_alone_count < ROLES_LEFT_ALONE_MAX)
		roles->left_alone[roles->left_alone_count++] = child->pid;
	child->left_alone = true;
	child->wait_status = W_EXITCODE(0, SIGKILL);
	child->pid = 0;
}

static void collect_left_alone(struct roles *roles)
{
	size_t kept = 0;

	for (size_t i = 0; i < roles->left_alone_count; i++) {
		const pid_t pid = roles->left_alone[i];

		if (waitpid(pid, NULL, WNOHANG) == 0)
			roles->left_alone[kept++] = pid;
		else
			log_info("a role that was left alone has ended: pid=%d", pid);
	}
	roles->left_alone_count = kept;
}

/* Starts another guard if somebody has killed it. */
static void guard_replace(struct roles *roles)
{
	if (roles->guard <= 0 || waitpid(roles->guard, NULL, WNOHANG) != roles->guard)
		return;
	close(roles->guard_fd);
	roles->guard = 0;
	const int r = roles_start_guard(roles);
	if (r < 0)
		log_error("no process removes the run directory if this one is killed: dir=%s "
			  "error=%s",
			  roles->run_dir, strerror(-r));
}

/* Returns whether the end of this child means something to somebody, who collects it then. */
static bool is_known(const struct roles *roles, pid_t pid)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (roles->processes[role].pid == pid)
			return true;
	}
	return pid == roles->guard || pid == roles->command;
}

void roles_collect_others(struct roles *roles)
{
	siginfo_t info = {0};

	collect_left_alone(roles);
	guard_replace(roles);
	/* One that is known hides those after it, until it is collected too. */
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
	       !is_known(roles, info.si_pid))
		waitpid(info.si_pid, NULL, 0);
}

enum role_id roles_reap(struct roles *roles)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		struct role_process *child = &roles->processes[role];

		if (!child->pid)
			continue;
		if (wait4(child->pid, &child->wait_status, WNOHANG, &child->usage) == child->pid) {
			child->pid = 0;
			return (enum role_id)role;
		}
		if (child->killed_ns &&
		    clock_monotonic_ns() - child->killed_ns >= LEAVE_ALONE_AFTER_MS * NS_PER_MS) {
			role_leave_alone(roles, (enum role_id)role);
			return (enum role_id)role;
		}
	}
	return ROLE_COUNT;
}

static bool roles_any_left(struct roles *roles)
{
	while (roles_reap(roles) != ROLE_COUNT)
		;
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (roles->processes[role].pid)
			return true;
	}
	return false;
}

static void wait_for_ends(struct roles *roles, int polls)
{
	for (int i = 0; i < polls && roles_any_left(roles); i++)
		nanosleep(&(struct timespec){.tv_nsec = STOP_POLL_NS}, NULL);
}

/*
 * When one role ends, the others notice within moments that their peer is gone, and exit with
 * STATUS_FAILED. So the role that failed first is one that was killed, or one whose exit status
 * says more than STATUS_FAILED. If there is none, it is the first with STATUS_FAILED.
 */
int roles_find_first_failure(struct roles *roles, enum role_id *first)
{
	enum role_id failed = ROLE_COUNT;

	for (int role = 0; role < ROLE_COUNT; role++)
		peer_close(&roles->peers[role]);
	wait_for_ends(roles, STOP_POLLS);
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct role_process *child = &roles->processes[role];

		if (child->pid || !child->started)
			continue;
		*first = (enum role_id)role;
		if (WIFSIGNALED(child->wait_status))
			return STATUS_FAILED;
		if (WEXITSTATUS(child->wait_status) > STATUS_FAILED)
			return WEXITSTATUS(child->wait_status);
		if (WEXITSTATUS(child->wait_status) && failed == ROLE_COUNT)
			failed = (enum role_id)role;
	}
	*first = failed;
	return STATUS_FAILED;
}

static int connect_child(struct roles *roles, enum role_id role)
{
	for (int waited_ms = 0; waited_ms < LIMIT_CONNECT_MS; waited_ms += CONNECT_POLL_MS) {
		int r = peer_connect(&roles->peers[role], roles->run_dir, ROLE_CONTROL, role,
				     &roles->uids, CONNECT_POLL_MS);

		if (r == 0)
			return STATUS_DONE;
		enum role_id first;
		if (roles_reap(roles) != ROLE_COUNT)
			return roles_find_first_failure(roles, &first);
		if (r != -ETIMEDOUT) {
			log_error("cannot connect to a role; nothing is sampled: role=%s error=%s",
				  role_names[role].process, strerror(-r));
			return STATUS_FAILED;
		}
	}
	log_error("a role did not open its socket within %d s, so nothing is sampled; the machine "
		  "may be overloaded: role=%s",
		  LIMIT_CONNECT_MS / 1000, role_names[role].process);
	return STATUS_FAILED;
}

int roles_start_again(struct roles *roles, enum role_id role)
{
	peer_close(&roles->peers[role]);
	return roles_spawn(roles, role);
}

int roles_connect(struct roles *roles, enum role_id role)
{
	int r =
	    peer_connect(&roles->peers[role], roles->run_dir, ROLE_CONTROL, role, &roles->uids, 0);

	return r == -ETIMEDOUT ? -EAGAIN : r;
}

int roles_prepare(struct roles *roles, bool agent, bool strict_memory)
{
	roles_collect_others(roles);
	roles->agent = agent;
	roles->strict_memory = strict_memory;
	for (int role = 0; role < ROLE_COUNT; role++) {
		roles->processes[role] = (struct role_process){0};
		roles->peers[role] = (struct peer){.fd = -1};
	}
	if (roles->left_alone_count + ROLE_COUNT > ROLES_LEFT_ALONE_MAX) {
		log_error("too many roles were killed and have not ended, so none is started: "
			  "roles=%zu",
			  roles->left_alone_count);
		return STATUS_FAILED;
	}
	int r = role_uids_choose("/proc", agent, &roles->uids);
	if (r < 0) {
		log_error("cannot find a free uid for each role; nothing is sampled: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

int roles_start(struct roles *roles, const char *agent_run_dir)
{
	/* For roles_collect_others(). */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pins_prepare(roles);
	int r = roles_make_run_dir(roles, agent_run_dir);
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT && !r; role++)
		r = roles_spawn(roles, (enum role_id)role);
	if (r < 0) {
		log_error("cannot start the roles; nothing is sampled: dir=%s error=%s",
			  roles->run_dir, strerror(-r));
		return STATUS_FAILED;
	}
	int status = STATUS_DONE;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT && !status; role++)
		status = connect_child(roles, (enum role_id)role);
	return status;
}

static void role_measure(struct role_process *child)
{
	char path[64], line[256];
	unsigned long kib;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", child->pid);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *value = strchr(line, ':');

		kib = value ? strtoul(value + 1, NULL, 10) : 0;
		if (!strncmp(line, "Rss:", 4))
			child->rss_bytes = kib << 10;
		else if (!strncmp(line, "Pss:", 4))
			child->pss_bytes = kib << 10;
	}
}

void roles_measure(struct roles *roles)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (roles->processes[role].pid)
			role_measure(&roles->processes[role]);
	}
}

void roles_stop(struct roles *roles)
{
	for (int role = 0; role < ROLE_COUNT; role++)
		peer_close(&roles->peers[role]);
	roles_remove_run_dir(roles);
	wait_for_ends(roles, STOP_POLLS);
	for (int role = 0; role < ROLE_COUNT; role++)
		roles_kill(roles, (enum role_id)role);
	/* After LEAVE_ALONE_AFTER_MS none is left. */
	wait_for_ends(roles, INT_MAX);
	pins_remove(roles);
	roles->has_pin_directory = false;
}

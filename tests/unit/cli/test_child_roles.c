/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of roles. Here kill() has no effect, as with a process that waits for a file system. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/roles.h"
#include "common/clock.h"
#include "common/time_units.h"

int __wrap_kill(pid_t pid, int signal_number);
int __real_kill(pid_t pid, int signal_number);

static unsigned int kills;

int __wrap_kill(pid_t pid, int signal_number)
{
	(void)pid;
	cr_expect_eq(signal_number, SIGKILL);
	kills++;
	return 0;
}

static struct roles made;

/* Makes `role` run: a process that does nothing. */
static pid_t start(enum role_id role)
{
	const pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		for (;;)
			pause();
	}
	made.processes[role].pid = made.processes[role].started = pid;
	return pid;
}

static void clear(void)
{
	made = (struct roles){0};
	for (int role = 0; role < ROLE_COUNT; role++)
		made.peers[role].fd = -1;
}

TestSuite(roles, .init = clear);

static enum role_id reap_until(uint64_t ns)
{
	enum role_id role = ROLE_COUNT;

	for (uint64_t start_ns = clock_monotonic_ns();
	     role == ROLE_COUNT && clock_monotonic_ns() - start_ns < ns;) {
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		role = roles_reap(&made);
	}
	return role;
}

static void end(pid_t pid)
{
	__real_kill(pid, SIGKILL);
	/* It stays a zombie, for the functions under test. */
	cr_assert_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
}

Test(roles, one_that_is_killed_and_ends_is_collected)
{
	const pid_t pid = start(ROLE_WORKER);

	cr_expect_eq(roles_reap(&made), ROLE_COUNT);
	roles_kill(&made, ROLE_WORKER);
	end(pid);
	cr_expect_eq(roles_reap(&made), ROLE_WORKER);
	cr_expect(WIFSIGNALED(made.processes[ROLE_WORKER].wait_status));
	cr_expect_not(made.processes[ROLE_WORKER].left_alone);
	cr_expect_eq(made.left_alone_count, 0);
	cr_expect_eq(waitpid(pid, NULL, WNOHANG), -1, "it was not collected");
}

Test(roles, one_that_is_killed_and_does_not_end_counts_as_ended)
{
	const pid_t pid = start(ROLE_OPENER);
	const struct role_process *opener = &made.processes[ROLE_OPENER];

	roles_kill(&made, ROLE_OPENER);
	roles_kill(&made, ROLE_OPENER);
	cr_expect_eq(kills, 1);
	cr_expect_eq(roles_reap(&made), ROLE_COUNT, "it has some time to end");
	cr_expect_eq(reap_until(60 * NS_PER_S), ROLE_OPENER);
	cr_expect_eq(opener->pid, 0);
	cr_expect(opener->left_alone);
	cr_expect(WIFSIGNALED(opener->wait_status));
	cr_expect_eq(WTERMSIG(opener->wait_status), SIGKILL);
	cr_expect_eq(roles_reap(&made), ROLE_COUNT, "it is reported once");

	roles_collect_others(&made);
	cr_expect_eq(made.left_alone_count, 1);
	cr_expect_eq(made.left_alone[0], pid);
	end(pid);
	roles_collect_others(&made);
	cr_expect_eq(made.left_alone_count, 0);
	cr_expect_eq(waitpid(pid, NULL, WNOHANG), -1, "it was not collected");
}

Test(roles, a_stop_does_not_wait_for_one_that_does_not_end)
{
	const pid_t worker = start(ROLE_WORKER), opener = start(ROLE_OPENER);

	end(worker);
	roles_stop(&made);
	cr_expect_eq(made.processes[ROLE_WORKER].pid, 0);
	cr_expect_not(made.processes[ROLE_WORKER].left_alone);
	cr_expect_eq(made.processes[ROLE_OPENER].pid, 0);
	cr_expect_eq(made.left_alone_count, 1);
	cr_expect_eq(made.left_alone[0], opener);
	end(opener);
	roles_collect_others(&made);
}

/* Starts a child that starts another one and ends. Returns the other one, which is a zombie. */
static pid_t start_orphan(void)
{
	int ends[2];
	pid_t orphan;

	cr_assert_eq(pipe(ends), 0);
	const pid_t parent = fork();
	if (!parent) {
		orphan = fork();
		if (!orphan)
			_exit(0);
		if (write(ends[1], &orphan, sizeof(orphan)) != sizeof(orphan))
			_exit(1);
		_exit(0);
	}
	cr_assert_eq(read(ends[0], &orphan, sizeof(orphan)), sizeof(orphan));
	cr_assert_eq(waitpid(parent, NULL, 0), parent);
	cr_assert_eq(waitid(P_PID, (id_t)orphan, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	close(ends[0]);
	close(ends[1]);
	return orphan;
}

Test(roles, helpers_of_a_role_that_has_ended_are_collected)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	const pid_t first = start_orphan(), worker = start(ROLE_WORKER), second = start_orphan();

	end(worker);
	made.command = start(ROLE_OPENER);
	made.processes[ROLE_OPENER] = (struct role_process){0};
	end(made.command);
	roles_collect_others(&made);
	cr_expect_eq(waitpid(first, NULL, WNOHANG), -1, "it was not collected");
	cr_expect_eq(roles_reap(&made), ROLE_WORKER, "a role is not collected like a helper");
	cr_expect_eq(waitpid(made.command, NULL, WNOHANG), made.command, "nor is the command");
	roles_collect_others(&made);
	cr_expect_eq(waitpid(second, NULL, WNOHANG), -1, "it was not collected");
}

Test(roles, a_guard_that_was_killed_is_replaced)
{
	const pid_t guard = start(ROLE_LOADER);

	made.processes[ROLE_LOADER] = (struct role_process){0};
	snprintf(made.run_dir, sizeof(made.run_dir), "/run/bulkhead-test-%d", getpid());
	made.guard = guard;
	made.guard_fd = dup(STDERR_FILENO);
	roles_collect_others(&made);
	cr_expect_eq(made.guard, guard);
	end(guard);
	roles_collect_others(&made);
	cr_expect_gt(made.guard, 0);
	cr_expect_neq(made.guard, guard);
	close(made.guard_fd);
	cr_expect_eq(waitpid(made.guard, NULL, 0), made.guard, "it ends when its pipe is closed");
}

Test(roles, another_start_knows_those_that_were_left_alone)
{
	const pid_t opener = start(ROLE_OPENER);

	roles_kill(&made, ROLE_OPENER);
	cr_assert_eq(reap_until(60 * NS_PER_S), ROLE_OPENER);
	cr_assert_eq(roles_prepare(&made, true, true), 0);
	cr_expect_eq(made.left_alone_count, 1);
	cr_expect_not(made.processes[ROLE_OPENER].left_alone);
	cr_expect(made.agent && made.strict_memory);
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		cr_expect_eq(made.peers[role].fd, -1);
		cr_expect_neq(made.uids.uid[role], 0);
	}
	end(opener);
	roles_collect_others(&made);
}

Test(roles, with_too_many_left_alone_none_is_started)
{
	made.left_alone_count = ROLES_LEFT_ALONE_MAX;
	for (int i = 0; i < ROLES_LEFT_ALONE_MAX; i++)
		made.left_alone[i] = start(ROLE_OPENER);
	cr_expect_neq(roles_prepare(&made, true, false), 0);
	for (int i = 0; i < ROLES_LEFT_ALONE_MAX; i++)
		end(made.left_alone[i]);
	cr_expect_eq(roles_prepare(&made, true, false), 0);
	cr_expect_eq(made.left_alone_count, 0);
}

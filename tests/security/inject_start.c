/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A role may have no more processes (RLIMIT_NPROC), and not every root may raise
 * the limit of another process (CAP_SYS_RESOURCE). So the limit is kept from becoming final when
 * the role sets it: a tracer changes the hard limit in the role's own call. The soft limit, which
 * is what counts, is the one that the role wants. The role calls prlimit64() with a limit in its
 * memory; when it enters the call, the tracer overwrites the second word.
 *
 * Example: the worker calls prlimit64(0, RLIMIT_NPROC, {0, 0}). It gets {0, 1000}, and is left
 * alone from then on. inject_fork() raises the soft limit for a moment; the fork has {0, 0}.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/security/inject.h"

#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

/* If this is the call that sets the limit, changes it. Returns whether it is. */
static bool raise_hard_limit(pid_t pid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0 || regs.orig_rax != SYS_prlimit64 ||
	    regs.rdi != 0 || regs.rsi != RLIMIT_NPROC || !regs.rdx)
		return false;
	/* The call is entered only once: when it has returned, nobody looks any more. */
	return ptrace(PTRACE_POKEDATA, pid, regs.rdx + offsetof(struct rlimit, rlim_max),
		      (long)INJECT_FORKS_MAX) == 0;
}

/* Follows a process and all that it starts, until `roles` of them have set their limit; with 0,
 * until it has done so itself. */
static void follow(pid_t command, unsigned int roles)
{
	const bool is_role = !roles;

	/* The command itself is only of interest when it starts a process, unless it is a role. */
	const pid_t ignored = is_role ? 0 : command;

	for (roles += is_role; roles;) {
		int status, signal = 0;
		const pid_t pid = waitpid(-1, &status, __WALL);

		if (pid < 0)
			return;
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (pid != ignored && raise_hard_limit(pid)) {
				roles--;
				ptrace(PTRACE_DETACH, pid, 0, 0);
				continue;
			}
		} else if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
			ptrace(PTRACE_LISTEN, pid, 0, 0);
			continue;
		} else if (!(status >> 16)) {
			signal = WSTOPSIG(status);
		}
		ptrace(pid == ignored ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, (long)signal);
	}
	/* Only a stopped process can be released. At the end of this process, the kernel releases
	 * it, too. */
}

void inject_start(char **command, unsigned int roles)
{
	const pid_t target = getpid();
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		exit(EXIT_FAILURE);
	const pid_t first = fork();
	if (first == 0) {
		/* The tracer is no child of the command, which knows nothing of it. */
		if (fork() > 0)
			_exit(0);
		const bool traced = ptrace(PTRACE_SEIZE, target, 0, OPTIONS) == 0 &&
				    ptrace(PTRACE_INTERRUPT, target, 0, 0) == 0;
		if (write(ready[1], traced ? "y" : "n", 1) < 0 || !traced)
			_exit(1);
		close(ready[0]);
		close(ready[1]);
		follow(target, roles);
		_exit(0);
	}
	waitpid(first, NULL, 0);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || byte != 'y')
		exit(EXIT_FAILURE);
	close(ready[0]);
	execv(command[0], command);
	perror(command[0]);
	exit(EXIT_FAILURE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that a running process is made to execute, as if an attacker's code ran inside it.
 *
 * How this works. ptrace(2) stops the first thread of the process. Its registers are set to a
 * system call, its instruction pointer to a `syscall` instruction of its vDSO, and it continues
 * until the call has returned. The program itself needs nothing for that and notices nothing.
 *
 * A forbidden call kills a role. So each attempt is made in a fork of the role. The fork has
 * everything that the role has: uid, capabilities, filter, Landlock, limits, descriptors, memory.
 * Roles may not fork, so the filter is suspended (PTRACE_O_SUSPEND_SECCOMP) while the role forks,
 * and is in force again, in the fork, before the attempt.
 *
 * Memory that the calls point to is prepared in an arena, which has the same address in this
 * process and in the fork. So a pointer is the same number in both.
 *
 * Example: inject_open(&role, pid); inject_fork(&role, &fork); inject_call(&fork, SYS_socket,
 * (long[6]){AF_INET, SOCK_STREAM}, &result) returns INJECT_ENDED, because the fork was killed;
 * inject_end(&role, &fork); inject_close(&role).
 */
#ifndef TESTS_SECURITY_INJECT_H
#define TESTS_SECURITY_INJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/user.h>

enum {
	INJECT_FORKS_MAX =
	    1000 /* the hard limit of processes of a role that inject_start() has started */
};

struct inject_process {
	pid_t pid;
	uint64_t syscall_at;	      /* address of a `syscall` instruction */
	struct user_regs_struct regs; /* those that it had before */
	rlim_t processes;	      /* its soft limit, RLIMIT_NPROC */
};

enum inject_outcome {
	INJECT_RETURNED,
	INJECT_ENDED,	/* the process was killed; `result` is the signal */
	INJECT_BLOCKED, /* the call did not return in time */
	INJECT_FAILED	/* ptrace failed; `result` is the errno */
};

/* The arena. What is added stays valid until inject_arena_reset(). */
void inject_arena_reset(void);
void *inject_arena_copy(const void *data, size_t bytes);
char *inject_arena_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Executes a command that starts roles, as many as given. They can be forked afterwards. Does not
 * return. */
_Noreturn void inject_start(char **command, unsigned int roles);

/* Stops a process. Returns 0 or a negative errno. */
int inject_open(struct inject_process *role, pid_t pid);

/* Forks the stopped process. Its filter is in force in the fork, and the arena is there. Returns 0;
 * or a negative errno, such as -EPERM if this process may not suspend filters. */
int inject_fork(struct inject_process *role, struct inject_process *fork);

/* Makes a process execute one call. */
enum inject_outcome inject_call(struct inject_process *process, long number, const long args[6],
				long *result);

/* Kills the fork, and removes every trace of it from its parent. */
int inject_end(struct inject_process *role, struct inject_process *fork);

/* Lets the process continue as if nothing had happened. */
void inject_close(struct inject_process *role);

#endif

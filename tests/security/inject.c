/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see inject.h. */
#include "tests/security/inject.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ARENA_BYTES = 64 << 10,
	ALIGNMENT = 16,
	CALL_SECONDS = 5,
	BELOW_STACK = 512, /* bytes: a function may use 128 bytes below its stack pointer (System V
			      ABI, AMD64) */
	/* What the kernel leaves in rax if a call that was interrupted is to be restarted
	 * (include/linux/errno.h). */
	RESTART_FIRST = 512,
	RESTART_BLOCK = 516
};

/* Between the program and its libraries, where no process has anything. */
#define ARENA_ADDRESS 0x200000000000ul
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
	 PTRACE_O_EXITKILL)
#define SUSPEND_FILTER (1 << 21) /* PTRACE_O_SUSPEND_SECCOMP */

static uint8_t *arena;
static size_t arena_used;

void inject_arena_reset(void)
{
	if (!arena) {
		arena = mmap((void *)ARENA_ADDRESS, ARENA_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (arena != (uint8_t *)ARENA_ADDRESS)
			abort();
	}
	memset(arena, 0, ARENA_BYTES);
	arena_used = 0;
}

void *inject_arena_copy(const void *data, size_t bytes)
{
	uint8_t *at = arena + arena_used;

	arena_used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (arena_used > ARENA_BYTES)
		abort();
	if (data)
		memcpy(at, data, bytes);
	return at;
}

char *inject_arena_text(const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	int n = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (n < 0 || (size_t)n >= sizeof(text))
		abort();
	return inject_arena_copy(text, (size_t)n + 1);
}

static void on_alarm(int number)
{
	(void)number;
}

/* Waits for the next stop or the end of a process. Returns false if there is none in time. */
static bool wait_stop(pid_t pid, int *status)
{
	const struct sigaction action = {.sa_handler = on_alarm};

	sigaction(SIGALRM, &action, NULL);
	alarm(CALL_SECONDS);
	const bool stopped = waitpid(pid, status, __WALL) == pid;
	alarm(0);
	return stopped;
}

static int event_of(int status)
{
	return status >> 16;
}

static int set_options(pid_t pid, long options)
{
	return ptrace(PTRACE_SETOPTIONS, pid, 0, options) < 0 ? -errno : 0;
}

/* Finds a `syscall` instruction (0f 05) in the vDSO of a process. Returns its address or 0. */
static uint64_t find_syscall(pid_t pid)
{
	char path[64], line[512];
	unsigned long start = 0, end = 0;
	static uint8_t code[64 << 10];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		char *rest;

		if (!strstr(line, "[vdso]"))
			continue;
		start = strtoul(line, &rest, 16);
		end = strtoul(rest + 1, NULL, 16);
	}
	fclose(f);
	if (end - start > sizeof(code) || end <= start)
		return 0;
	struct iovec local = {code, end - start}, remote = {(void *)start, end - start};
	const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	for (ssize_t i = 0; i + 1 < n; i++) {
		if (code[i] == 0x0f && code[i + 1] == 0x05)
			return start + (uint64_t)i;
	}
	return 0;
}

/* Returns the soft limit of the processes of a process. */
static rlim_t read_limit(pid_t pid)
{
	static const char name[] = "Max processes";
	char path[64], line[256];
	rlim_t limit = RLIM_INFINITY;

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return limit;
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, sizeof(name) - 1) && !strstr(line, "unlimited"))
			limit = strtoul(line + sizeof(name) - 1, NULL, 10);
	}
	fclose(f);
	return limit;
}

int inject_open(struct inject_process *role, pid_t pid)
{
	int status;

	*role = (struct inject_process){.pid = pid, .syscall_at = find_syscall(pid)};
	if (!role->syscall_at)
		return -ENOENT;
	if (ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) < 0 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
		return -errno;
	if (!wait_stop(pid, &status) || !WIFSTOPPED(status) ||
	    event_of(status) != PTRACE_EVENT_STOP)
		return -ESRCH;
	if (ptrace(PTRACE_GETREGS, pid, 0, &role->regs) < 0)
		return -errno;
	role->processes = read_limit(pid);
	return 0;
}

/* Ends a process that an attempt has created. */
static void end_child(pid_t pid)
{
	unsigned long child = 0;
	int status;

	ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
	kill((pid_t)child, SIGKILL);
	while (waitpid((pid_t)child, &status, __WALL) == (pid_t)child && !WIFEXITED(status) &&
	       !WIFSIGNALED(status))
		ptrace(PTRACE_CONT, (pid_t)child, 0, 0);
}

/* Runs a process to its next stop in a system call. `child`, if it is not NULL, is set to the
 * process that it creates. */
static enum inject_outcome run_to_stop(pid_t pid, pid_t *child, long *result)
{
	int status, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, 0, (long)signal) < 0) {
			*result = errno;
			return INJECT_FAILED;
		}
		if (!wait_stop(pid, &status))
			return INJECT_BLOCKED;
		if (WIFSIGNALED(status) || WIFEXITED(status)) {
			*result = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
			return INJECT_ENDED;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return INJECT_RETURNED;
		signal = event_of(status) ? 0 : WSTOPSIG(status);
		if (event_of(status) != PTRACE_EVENT_FORK &&
		    event_of(status) != PTRACE_EVENT_VFORK &&
		    event_of(status) != PTRACE_EVENT_CLONE)
			continue;
		unsigned long created = 0;
		if (child && ptrace(PTRACE_GETEVENTMSG, pid, 0, &created) == 0)
			*child = (pid_t)created;
		else
			end_child(pid);
	}
}

/* Executes one instruction of the program itself, with its own registers: a process that the filter
 * kills seems to return from the call first. */
static enum inject_outcome confirm(const struct inject_process *process, long *result)
{
	int status, signal = 0;

	if (ptrace(PTRACE_SETREGS, process->pid, 0, &process->regs) < 0)
		return INJECT_FAILED;
	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, process->pid, 0, (long)signal) < 0 ||
		    !wait_stop(process->pid, &status))
			return INJECT_FAILED;
		if (WIFSIGNALED(status) || WIFEXITED(status)) {
			*result = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
			return INJECT_ENDED;
		}
		/* Before Linux 5.16 the tracer sees this signal before it kills. Another one means
		 * that the program is not there any more (execve). */
		if (WSTOPSIG(status) != SIGSYS)
			return INJECT_RETURNED;
		signal = SIGSYS;
	}
}

static enum inject_outcome call_with_child(struct inject_process *process, long number,
					   const long args[6], pid_t *child, long *result)
{
	struct user_regs_struct regs = process->regs;

	regs.rip = process->syscall_at;
	regs.rax = (unsigned long)number;
	/* Otherwise the kernel may take this for a call that is to be restarted. */
	regs.orig_rax = -1ul;
	regs.rdi = (unsigned long)args[0];
	regs.rsi = (unsigned long)args[1];
	regs.rdx = (unsigned long)args[2];
	regs.r10 = (unsigned long)args[3];
	regs.r8 = (unsigned long)args[4];
	regs.r9 = (unsigned long)args[5];
	*result = 0;
	if (ptrace(PTRACE_SETREGS, process->pid, 0, &regs) < 0) {
		*result = errno;
		return INJECT_FAILED;
	}
	/* It stops when it enters the call, and when it returns. */
	enum inject_outcome outcome = run_to_stop(process->pid, child, result);
	if (outcome == INJECT_RETURNED)
		outcome = run_to_stop(process->pid, child, result);
	if (outcome != INJECT_RETURNED)
		return outcome;
	if (ptrace(PTRACE_GETREGS, process->pid, 0, &regs) < 0)
		return INJECT_FAILED;
	outcome = confirm(process, result);
	if (outcome == INJECT_RETURNED)
		*result = (long)regs.rax;
	return outcome;
}

enum inject_outcome inject_call(struct inject_process *process, long number, const long args[6],
				long *result)
{
	return call_with_child(process, number, args, NULL, result);
}

/* Puts the arena into a fork whose filter is still suspended. Returns 0 or a negative errno. */
static int add_arena(struct inject_process *fork)
{
	const long args[6] = {(long)ARENA_ADDRESS,
			      ARENA_BYTES,
			      PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			      -1,
			      0};
	struct iovec both = {arena, ARENA_BYTES};
	long at;

	/* A process that this program has forked has it already. */
	if (inject_call(fork, SYS_mmap, args, &at) != INJECT_RETURNED ||
	    (at != (long)ARENA_ADDRESS && at != -EEXIST))
		return -ENOMEM;
	return process_vm_writev(fork->pid, &both, 1, &both, 1, 0) == ARENA_BYTES ? 0 : -EFAULT;
}

/* Sets the limit of processes of a process whose filter is suspended, with memory below its stack.
 * Returns 0 or a negative errno. */
static int set_limit(struct inject_process *process, rlim_t soft, rlim_t hard)
{
	struct rlimit limit = {soft, hard};
	const uint64_t at = (process->regs.rsp - BELOW_STACK) & ~15ul;
	struct iovec local = {&limit, sizeof(limit)}, remote = {(void *)at, sizeof(limit)};
	long result;

	/* The control has no limit worth changing. */
	if (process->processes >= INJECT_FORKS_MAX)
		return 0;
	if (process_vm_writev(process->pid, &local, 1, &remote, 1, 0) != sizeof(limit))
		return -errno;
	if (inject_call(process, SYS_prlimit64, (long[6]){0, RLIMIT_NPROC, (long)at}, &result) !=
	    INJECT_RETURNED)
		return -EIO;
	return (int)result;
}

/* Forks a process whose filter is suspended. The filter of the fork is suspended, too. Returns its
 * pid or a negative errno. */
static pid_t fork_suspended(struct inject_process *role)
{
	/* Without an exit signal, the role is not informed when the fork ends. */
	const long args[6] = {0};
	pid_t child = 0;
	long result;
	int status;
	const int raised = set_limit(role, INJECT_FORKS_MAX, INJECT_FORKS_MAX);

	if (raised)
		return raised;
	const enum inject_outcome outcome = call_with_child(role, SYS_clone, args, &child, &result);
	const int lowered = set_limit(role, role->processes, INJECT_FORKS_MAX);
	if (outcome != INJECT_RETURNED || result <= 0 || !child)
		return outcome == INJECT_RETURNED && result < 0 ? (int)result : -ECHILD;
	if (!wait_stop(child, &status) || !WIFSTOPPED(status))
		return -ESRCH;
	return lowered ? lowered : child;
}

int inject_fork(struct inject_process *role, struct inject_process *fork)
{
	const int suspended = set_options(role->pid, OPTIONS | SUSPEND_FILTER);

	if (suspended)
		return suspended;
	const pid_t child = fork_suspended(role);
	int r = set_options(role->pid, OPTIONS);
	if (child < 0 || r)
		return child < 0 ? child : r;
	*fork = *role;
	fork->pid = child;
	r = set_limit(fork, role->processes, role->processes);
	if (!r)
		r = add_arena(fork);
	return r ? r : set_options(child, OPTIONS);
}

int inject_end(struct inject_process *role, struct inject_process *fork)
{
	const long args[6] = {fork->pid, 0, __WALL};
	long result;
	int status;

	/* If it has ended already, it was waited for. */
	if (kill(fork->pid, SIGKILL) == 0) {
		while (waitpid(fork->pid, &status, __WALL) == fork->pid && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, fork->pid, 0, 0);
	}
	int r = set_options(role->pid, OPTIONS | SUSPEND_FILTER);
	if (r)
		return r;
	const enum inject_outcome outcome = inject_call(role, SYS_wait4, args, &result);
	r = set_options(role->pid, OPTIONS);
	return r || outcome != INJECT_RETURNED || result != fork->pid ? -ECHILD : 0;
}

void inject_close(struct inject_process *role)
{
	const long result = (long)role->regs.rax;

	/* A call that was interrupted is executed again, as the kernel would have done. */
	if ((long)role->regs.orig_rax >= 0 && -result >= RESTART_FIRST &&
	    -result <= RESTART_BLOCK) {
		role->regs.rip -= 2;
		role->regs.rax =
		    -result == RESTART_BLOCK ? SYS_restart_syscall : role->regs.orig_rax;
	}
	role->regs.orig_rax = -1ul;
	ptrace(PTRACE_SETREGS, role->pid, 0, &role->regs);
	ptrace(PTRACE_DETACH, role->pid, 0, 0);
}

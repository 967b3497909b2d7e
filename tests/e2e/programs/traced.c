/* SPDX-License-Identifier: Apache-2.0 */
/* A process that executes one instruction after the other under ptrace, and is looked at before each. */
#include <sys/ptrace.h>
#include <sys/user.h>

#include "attack.h"

static volatile unsigned long sink;

int main(void)
{
	attack_contain();
	attack_drop_privileges();
	const pid_t tracee = fork();
	if (!tracee) {
		attack_die_with_parent();
		prctl(PR_SET_NAME, "tracee");
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (;;)
			sink++;
	}
	prctl(PR_SET_NAME, "tracer");
	attack_say_ready();
	for (;;) {
		struct user_regs_struct registers;
		int status;

		if (waitpid(tracee, &status, 0) != tracee || !WIFSTOPPED(status))
			attack_fail("tracee");
		if (ptrace(PTRACE_GETREGS, tracee, NULL, &registers) < 0 || ptrace(PTRACE_SINGLESTEP, tracee, NULL, NULL) < 0)
			attack_fail("ptrace");
	}
}

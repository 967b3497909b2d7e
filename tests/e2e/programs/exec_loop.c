/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes itself as fast as it can, in a process for each CPU.
 *
 *	exec_loop [again]
 */
#include "attack.h"

int main(int argc, char **argv)
{
	if (argc == 1) {
		attack_contain();
		attack_drop_privileges();
		for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; i--)
			if (!fork())
				execl("/proc/self/exe", argv[0], "again", NULL);
		attack_say_ready();
		for (;;)
			pause();
	}
	execl("/proc/self/exe", argv[0], "again", NULL);
	attack_fail("exec");
}

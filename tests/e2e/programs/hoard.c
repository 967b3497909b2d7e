/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the files hoard/0 to hoard/COUNT-1 as code, and waits.
 *
 *	hoard COUNT
 *
 * It takes three processes, because one may have 4,095 executable mappings.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "attack.h"

int main(int argc, char **argv)
{
	const int count = argc > 1 ? atoi(argv[1]) : 0, part = count / 3;
	int first = 0, last = part;

	for (int i = 1; i < 3; i++) {
		const pid_t parent = getpid();

		if (fork())
			break;
		attack_die_with_parent();
		if (getppid() != parent)
			return 0;
		first = last;
		last = i < 2 ? last + part : count;
	}
	for (int i = first; i < last; i++) {
		char name[32];

		snprintf(name, sizeof(name), "hoard/%d", i);
		const int fd = open(name, O_RDONLY);
		if (fd < 0 || mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			attack_fail(name);
		close(fd);
	}
	attack_say_ready();
	for (;;)
		usleep(1000);
}

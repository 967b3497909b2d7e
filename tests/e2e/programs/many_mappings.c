/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has as many mappings as the kernel allows (vm.max_map_count), every second one executable, and uses
 * CPU time. /proc/PID/maps has more bytes than the manager reads of it.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "attack.h"

enum {
	SPARE = 16, /* mappings that libc may still need */
};

static volatile unsigned long sink;

int main(void)
{
	const int file = open("/proc/self/exe", O_RDONLY);
	void *last[SPARE] = {NULL};
	unsigned int count = 0;

	attack_contain();
	attack_drop_privileges();
	if (file < 0)
		attack_fail("executable");
	/* All of them begin at the same place of the file, so that the kernel does not merge them. */
	for (;; count++) {
		void *page = mmap(NULL, ATTACK_PAGE, count & 1 ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, file, 0);

		if (page == MAP_FAILED)
			break;
		last[count % SPARE] = page;
	}
	for (unsigned int i = 0; i < SPARE; i++)
		munmap(last[i], ATTACK_PAGE);
	if (count < 1000)
		attack_fail("mappings");
	attack_say_ready();
	for (;;)
		sink++;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps and unmaps executable memory at full speed, in a process for each CPU: a page of a file and a page
 * without a file in turn. The last WINDOW of them exist, so the process has about 1,000 executable mappings,
 * which change all the time.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "attack.h"

enum {
	WINDOW = 1000,
};

static void churn(int file)
{
	static void *pages[WINDOW];

	for (unsigned int i = 0;; i++) {
		void **page = &pages[i % WINDOW];

		if (*page)
			munmap(*page, ATTACK_PAGE);
		*page = i & 1 ? mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0)
			      : mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (*page == MAP_FAILED)
			attack_fail("page");
	}
}

int main(void)
{
	const int file = open("/proc/self/exe", O_RDONLY);

	if (file < 0)
		attack_fail("executable");
	attack_contain();
	attack_drop_privileges();
	for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; i--)
		if (!fork())
			churn(file);
	attack_say_ready();
	for (;;)
		pause();
}

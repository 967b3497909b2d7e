/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the files DIRECTORY/0 to DIRECTORY/COUNT-1 as code, one after the other and again and again, and uses
 * CPU time in each. Each time a file counts as changed, so what was found in it before is not used.
 *
 *	forged_files DIRECTORY COUNT
 *
 * The code is at the start of a file's second page, and counts down from its argument.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "attack.h"

enum {
	MS = 10, /* in each file */
};

static void use_file(const char *name)
{
	struct stat stat;
	const int file = open(name, O_RDONLY);

	if (file < 0 || fstat(file, &stat) < 0)
		attack_fail(name);
	futimens(file, NULL);
	unsigned char *memory = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (memory == MAP_FAILED)
		attack_fail("mapping");
	close(file);
	attack_call_code(memory + ATTACK_PAGE, MS);
	munmap(memory, (size_t)stat.st_size);
}

int main(int argc, char **argv)
{
	const int count = argc == 3 ? atoi(argv[2]) : 0;

	if (!count || chdir(argv[1]) < 0)
		attack_fail("directory");
	attack_contain();
	attack_drop_privileges();
	attack_say_ready();
	for (int i = 0;; i = (i + 1) % count) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		use_file(name);
	}
}

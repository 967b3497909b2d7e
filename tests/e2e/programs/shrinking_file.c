/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a file as code and uses CPU time in it, while another process truncates the file and writes it again all
 * the time.
 *
 *	shrinking_file FILE
 *
 * The code is at the start of the second page, which stays, and counts down from its argument.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "attack.h"

enum {
	MS = 10,
	KEPT = 2 * ATTACK_PAGE,
};

static void truncate_and_write(int file, const unsigned char *bytes, size_t size)
{
	for (unsigned int i = 0;; i++) {
		if (ftruncate(file, (off_t)(KEPT + i * 997 % (size - KEPT))) < 0)
			attack_fail("truncate");
		usleep(100);
		if (pwrite(file, bytes, size, 0) != (ssize_t)size)
			attack_fail("write");
		usleep(100);
	}
}

int main(int argc, char **argv)
{
	const int file = open(argc == 2 ? argv[1] : "", O_RDWR);
	struct stat stat;

	if (file < 0 || fstat(file, &stat) < 0 || stat.st_size <= KEPT)
		attack_fail("file");
	const size_t size = (size_t)stat.st_size;
	unsigned char *bytes = malloc(size);
	if (!bytes || pread(file, bytes, size, 0) != (ssize_t)size)
		attack_fail("content");
	attack_contain();
	attack_drop_privileges();
	if (!fork())
		truncate_and_write(file, bytes, size);
	attack_say_ready();
	for (;;) {
		unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

		if (memory == MAP_FAILED)
			attack_fail("mapping");
		attack_call_code(memory + ATTACK_PAGE, MS);
		munmap(memory, size);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings change | mappings keep COUNT | mappings flood DIRECTORY: processes that have as many executable mappings as the
 * kernel allows, or that map memory all the time. Each says "ready" when it begins, and is killed in the end.
 *
 *	change	has all the mappings, and replaces the one at the lowest address all the time
 *	keep	COUNT processes have all the mappings, and sleep
 *	flood	maps a file whose path has nearly 4,096 bytes, so that 64 records fill a ring of the sideband
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	PAIRS = 32600, /* executable, and not: the default of vm.max_map_count is 65,530 */
	DIRECTORIES = 15,
};

static void map(void *at, int fd)
{
	if (mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0) == MAP_FAILED)
		exit(1);
}

/* Below the program, so that a list that ends with the lowest addresses does not have it. Returns the lowest address. */
static char *map_many(int fd)
{
	char *at = mmap((void *)0x100000000, 2ul * PAIRS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == MAP_FAILED)
		exit(1);
	for (int i = 0; i < PAIRS; i++)
		map(at + 2l * i * PAGE, i % 2 ? fd : -1);
	return at;
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void keep(int count)
{
	const pid_t parent = getpid();

	for (int i = 1; i < count; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		for (;;)
			pause();
	}
	say_ready();
	for (;;)
		pause();
}

static int open_long_path(const char *directory)
{
	char name[251];

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	if (chdir(directory))
		exit(1);
	for (int i = 0; i < DIRECTORIES; i++) {
		if (mkdir(name, 0755) || chdir(name))
			exit(1);
	}
	return open("file", O_RDWR | O_CREAT | O_EXCL, 0755);
}

int main(int argc, char **argv)
{
	const int flood = argc == 3 && !strcmp(argv[1], "flood");
	const int fd = flood ? open_long_path(argv[2]) : open("/proc/self/exe", O_RDONLY);
	char *at = flood ? mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : map_many(fd);

	if (argc == 3 && !flood)
		keep(atoi(argv[2]));
	say_ready();
	for (unsigned int i = 0;; i++)
		map(at, flood || i % 2 ? fd : -1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that do at random whatever the sideband reports: they fork, end, execute themselves, and map and unmap code, as fast as
 * they can, in a process for each CPU.
 *
 *	event_storm SEED
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "attack.h"

enum {
	KEPT = 16, /* mappings of a process */
};

static unsigned long state;

static unsigned int draw(unsigned int range)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned int)(state >> 33) % range;
}

static void execute_again(char **argv)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", state);
	execl("/proc/self/exe", argv[0], text, "again", NULL);
	attack_fail("exec");
}

/* Maps a page of the program itself or of anonymous memory, in the place of an older one. */
static void map(int fd, void **kept)
{
	void **at = &kept[draw(KEPT)];

	if (*at)
		munmap(*at, ATTACK_PAGE);
	*at = mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (*at == MAP_FAILED)
		attack_fail("mmap");
}

static void storm(char **argv)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *kept[KEPT] = {0};

	for (;;) {
		const unsigned int what = draw(64);

		if (what == 0)
			execute_again(argv);
		if (what < 12) {
			const pid_t child = fork();
			if (!child && what < 6)
				execl("/proc/self/exe", argv[0], NULL);
			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
		} else {
			map(what % 2 ? fd : -1, kept);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	state = strtoul(argv[1], NULL, 10);
	if (argc == 3)
		storm(argv);
	attack_contain();
	attack_drop_privileges();
	for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; i--) {
		state += (unsigned long)i;
		if (!fork())
			storm(argv);
	}
	attack_say_ready();
	for (;;)
		pause();
}

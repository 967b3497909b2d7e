/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that use CPU time in a file of code, each under a name of its own.
 *
 *	names FILE COMM...
 *
 * FILE has the code at the start of its second page: a function that counts down from its argument. The test
 * replaces the names of the functions that call it, in the symbol table.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "attack.h"

enum {
	NICE = 10, /* the threads shall leave CPU time for others */
	LOOPS = 10000000,
};

static void (*code)(long loops);

#define KEEP __attribute__((noinline, noclone, noipa))
#define FUNCTION(name, callee)                                                                     \
	KEEP void name(long n);                                                                    \
	KEEP void name(long n)                                                                     \
	{                                                                                          \
		callee(n);                                                                         \
		__asm__ volatile("");                                                              \
	}

FUNCTION(name_0_________________________________, code)
FUNCTION(name_1_________________________________, name_0_________________________________)
FUNCTION(name_2_________________________________, name_1_________________________________)
FUNCTION(name_3_________________________________, name_2_________________________________)
FUNCTION(name_4_________________________________, name_3_________________________________)
FUNCTION(name_5_________________________________, name_4_________________________________)
FUNCTION(name_6_________________________________, name_5_________________________________)
FUNCTION(name_7_________________________________, name_6_________________________________)

static void *run(void *name)
{
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	prctl(PR_SET_NAME, name);
	for (;;)
		name_7_________________________________(LOOPS);
	return NULL;
}

int main(int argc, char **argv)
{
	const int file = open(argc > 2 ? argv[1] : "", O_RDONLY);
	void *page = mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, ATTACK_PAGE);

	if (file < 0 || page == MAP_FAILED)
		attack_fail("code");
	code = (void (*)(long))page;
	attack_contain();
	attack_drop_privileges();
	prctl(PR_SET_NAME, argv[2]);
	for (int i = 2; i < argc; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, argv[i]))
			attack_fail("thread");
	}
	attack_say_ready();
	for (;;)
		pause();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attack programs share. Each prints "ready" when its attack has begun, and goes on until it is
 * killed (tests/e2e/attack.py). Then nothing of it may be left: attack_contain() gives it a pid
 * namespace, so all its descendants end with it.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	NOBODY = 65534,		/* the uid of the attackers */
	ATTACK_LOOPS = 20000,	/* of one call of attack_call_code(): some 10 us */
	ATTACK_PAGE = 4096,
};

static inline void attack_fail(const char *what)
{
	perror(what);
	exit(1);
}

static inline void attack_die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* A change of the uid resets the signal that comes with the end of the parent. */
static inline void attack_drop_privileges(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
		attack_fail("user");
	attack_die_with_parent();
}

/* Continues in the first process of a pid namespace. The kernel kills all of the namespace with it. */
static inline void attack_contain(void)
{
	if (unshare(CLONE_NEWPID) < 0)
		attack_fail("pid namespace");
	const pid_t first = fork();
	if (first) {
		waitpid(first, NULL, 0);
		exit(1);
	}
	attack_die_with_parent();
}

static inline uint64_t attack_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Calls code that counts down from its argument, for this long. */
static inline void attack_call_code(const void *code, unsigned int ms)
{
	const uint64_t end = attack_now_ns() + ms * UINT64_C(1000000);

	while (attack_now_ns() < end)
		((void (*)(long))code)(ATTACK_LOOPS);
}

static inline void attack_say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every program here knows its own call chain: it says it as one line of JSON on stdout, then burns
 * CPU at the end of it until it is killed. tests/e2e/lib.py (Expectation) reads the line:
 *
 *   {"chains": [CHAIN, ...], "threads": {COMM: [CHAIN, ...]}, "need": {REGEX: SHARE}}
 *
 * A sample is right when all its user frames, leaf first, match one CHAIN from end to end. Each entry
 * of a CHAIN is
 *   "name"                                  one frame of exactly that name
 *   {"name": "name", "times": N}            N of them
 *   {"re": "regex", "min": A, "max": B}     A to B frames whose whole name matches (1 and 1 if left out)
 *   "@start"                                the two frames of libc and "_start"
 *   "@thread"                               the two frames of libc in which a thread begins
 *   "@musl_start", "@musl_thread"           the same of musl, which has one before main
 * "threads" replaces "chains" for samples with that comm. "need" is the least share of samples with a
 * frame that matches: a test of exceptions in which nothing was thrown must not pass.
 */
#ifndef CHAIN_H
#define CHAIN_H

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined(__GNUC__) && !defined(__clang__)
#define KEEP __attribute__((noinline, noclone, noipa))
#else
#define KEEP __attribute__((noinline))
#endif

#ifdef __cplusplus
#define CHAIN_C extern "C"
#else
#define CHAIN_C
#endif

extern volatile unsigned long chain_sink;
extern volatile int chain_stop;

/* The end of a chain: a loop without calls and without a frame of its own. */
#define CHAIN_BURN()                                                                               \
	do {                                                                                       \
		while (!chain_stop)                                                                \
			chain_sink++;                                                              \
	} while (0)

/*
 * Reads the arguments `program SECONDS [MORE]`, and makes sure that the process ends after SECONDS
 * or with its parent, whatever happens to the test. Returns argv[2] as a number, or def.
 */
static inline long chain_start(int argc, char **argv, long def)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 60);
	return argc > 2 ? strtol(argv[2], NULL, 10) : def;
}

/* JSON with ' for ", for the sake of the reader. */
__attribute__((format(printf, 1, 2))) static inline void chain_say(const char *format, ...)
{
	static char line[65536];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	for (char *c = line; *c; c++)
		if (*c == '\'')
			*c = '"';
	puts(line);
	fflush(stdout);
}

/* Of programs that are linked with more than one C library. */
#ifndef CHAIN_START
#define CHAIN_START "'@start'"
#endif

#define CHAIN_GLOBALS                                                                              \
	volatile unsigned long chain_sink;                                                         \
	volatile int chain_stop

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every program here announces its own call chain as one line of JSON on stdout, and then uses CPU
 * time at the end of the chain until it is killed. tests/e2e/lib.py (Expectation) reads the line:
 *
 *   {"chains": [CHAIN, ...], "threads": {COMM: [CHAIN, ...]}, "need": {REGEX: SHARE}}
 *
 * A sample is right if all its user frames, leaf first, match one CHAIN completely. Each entry of a
 * CHAIN is
 *   "name"                                  one frame of exactly that name
 *   {"name": "name", "times": N}            N frames of that name
 *   {"re": "regex", "min": A, "max": B}     A to B frames whose whole name matches (1 and 1 if left out)
 *   "@start"                                the two frames of libc and "_start"
 *   "@thread"                               the two frames of libc in which a thread starts
 *   "@musl_start", "@musl_thread"           the same for musl, which has one frame before main
 * "threads" replaces "chains" for samples with that comm. "need" is the least share of samples that
 * must have a matching frame: a test of exceptions must not pass if no exception was thrown.
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

/* Prints a line of JSON. In `format`, ' stands for ", which makes it easier to read. */
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

/* The start of a chain. A program that is linked with another C library defines its own. */
#ifndef CHAIN_START
#define CHAIN_START "'@start'"
#endif

#define CHAIN_GLOBALS                                                                              \
	volatile unsigned long chain_sink;                                                         \
	volatile int chain_stop

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured part of a workload: callgrind counts its instructions, and outside of valgrind its
 * allocations are counted here. What comes before and after costs nothing.
 */
#ifndef TESTS_BENCH_STABLE_MEASURE_H
#define TESTS_BENCH_STABLE_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A workload that does not do what it should is no measure of anything. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Once a process; `items`: how many pieces of work it was. */
void measure_begin(void);
void measure_end(uint64_t items);

/* A size that the workload knows, as one line for compare.py. */
void measure_figure(const char *name, double value, const char *unit);

#endif

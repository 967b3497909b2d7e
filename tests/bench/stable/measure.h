/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured part of a workload: callgrind counts its instructions, and outside of valgrind its
 * allocations are counted here. What happens before and after does not count.
 */
#ifndef TESTS_BENCH_STABLE_MEASURE_H
#define TESTS_BENCH_STABLE_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if a workload does not do what it should: its cost would mean nothing. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Start and end of the measured part, which a process has once. `items` is the number of pieces of
 * work that its costs are divided by. */
void measure_begin(void);
void measure_end(uint64_t items);

/* Prints a size as one line for compare.py. */
void measure_figure(const char *name, double value, const char *unit);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/stable/measure.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <valgrind/callgrind.h>

static struct {
	bool on;
	uint64_t count, bytes;
	int64_t live, peak;
} allocations;

/* ---- The C library's allocator, counted. Calls of libraries are counted too. ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *block);

static void *allocated(void *block, size_t bytes)
{
	allocations.count++;
	allocations.bytes += bytes;
	allocations.live += (int64_t)malloc_usable_size(block);
	if (allocations.live > allocations.peak)
		allocations.peak = allocations.live;
	return block;
}

static void freed(void *block)
{
	allocations.live -= (int64_t)malloc_usable_size(block);
}

void *malloc(size_t size)
{
	void *block = __libc_malloc(size);

	return allocations.on ? allocated(block, size) : block;
}

void *calloc(size_t count, size_t size)
{
	void *block = __libc_calloc(count, size);

	return allocations.on ? allocated(block, count * size) : block;
}

void *realloc(void *old, size_t size)
{
	if (allocations.on)
		freed(old);
	void *block = __libc_realloc(old, size);
	return allocations.on ? allocated(block, size) : block;
}

void free(void *block)
{
	if (allocations.on)
		freed(block);
	__libc_free(block);
}

/* ---- The measured part ---- */

void measure_begin(void)
{
	/* Allocate the output buffer now, so that it does not count as the workload's. */
	fflush(stdout);
	allocations.on = !RUNNING_ON_VALGRIND;
	CALLGRIND_START_INSTRUMENTATION;
}

void measure_end(uint64_t items)
{
	CALLGRIND_STOP_INSTRUMENTATION;
	allocations.on = false;
	measure_figure("items", (double)items, "");
	measure_figure("allocations", (double)allocations.count, "allocations");
	measure_figure("allocated", (double)allocations.bytes, "bytes");
	measure_figure("peak", (double)allocations.peak, "bytes");
}

void measure_figure(const char *name, double value, const char *unit)
{
	printf("%s\t%.10g\t%s\n", name, value, unit);
}

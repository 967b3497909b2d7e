/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail. A test that defines FAILING_MEMORY once, and whose target is listed for
 * bulkhead_failing_memory() in its CMakeLists.txt, sets a member of failing_memory while it calls
 * what has to cope with it.
 *
 * How this works. The linker directs each call of malloc and calloc in the program and in the
 * static libraries under test to the functions below (--wrap). Shared libraries, and with them
 * Criterion and C++, are not affected.
 */
#ifndef TESTS_SUPPORT_FAILING_MEMORY_H
#define TESTS_SUPPORT_FAILING_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

struct failing_memory {
	bool malloc, calloc;
	unsigned int spared; /* this many calls of these still succeed */
};

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

#define FAILING_MEMORY                                                                             \
	static struct failing_memory failing_memory;                                               \
	static bool failing_memory_spares(void)                                                    \
	{                                                                                          \
		return failing_memory.spared && failing_memory.spared--;                           \
	}                                                                                          \
	void *__wrap_malloc(size_t bytes)                                                          \
	{                                                                                          \
		errno = ENOMEM;                                                                    \
		return failing_memory.malloc && !failing_memory_spares() ? NULL                    \
									 : __real_malloc(bytes);   \
	}                                                                                          \
	void *__wrap_calloc(size_t count, size_t bytes)                                            \
	{                                                                                          \
		errno = ENOMEM;                                                                    \
		return failing_memory.calloc && !failing_memory_spares()                           \
			   ? NULL                                                                  \
			   : __real_calloc(count, bytes);                                          \
	}                                                                                          \
	_Static_assert(sizeof(struct failing_memory), "")

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the machine code of CPython's JIT compiler. 3.13 and 3.14 have it if they were configured
 * with --enable-experimental-jit, as Debian's 3.14 is, and run with PYTHON_JIT=1.
 *
 * How this works: what the compiler has made is an executor, an object that owns pages of code. An
 * interpreter has its executors in a doubly linked list (executor_list_head). In 3.14 it has also a
 * list of invalidated ones, which may still run (executor_deletion_list_head). Both lists are read
 * and each executor's pages become a range. Ranges that are near each other are joined, because a
 * process has only RUNTIME_RANGES_MAX of them and the allocator places executors next to each
 * other.
 *
 * Example: executors with code at 0x7f0000 (0x2000 bytes), 0x7f3000 (0x1000) and 0x9a0000 (0x1000)
 * become two ranges, 0x7f0000 - 0x7f4000 and 0x9a0000 - 0x9a1000.
 *
 * The interpreter changes the list while it is read. A link whose `previous` is not the executor
 * that led to it, or whose code is not page-aligned, ends the reading until the next refresh.
 */
#include "symbolizer/runtime/cpython_jit.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/runtime/cpython_image.h"
#include "symbolizer/runtime/limits.h"

enum {
	/* The part of struct _PyExecutorObject that is read starts at vm_data.links and ends after
	 * jit_code. The offset is the same in 3.13 and 3.14 (Include/internal/pycore_optimizer.h).
	 * The others are indexes of words in it. */
	EXECUTOR_LINKS = 72,
	EXECUTOR_BYTES = 48,
	LINK_NEXT = 0,
	LINK_PREVIOUS = 1,
	JIT_SIZE = 4,
	JIT_CODE = 5,
	PAGE = 4096,
	/* Ranges are joined across a gap of at most this many bytes: so small a gap between two
	 * executors is not expected to hold the code of something else. */
	GAP_MAX = 16 * PAGE,
};

static void range_extend(struct runtime_range *range, uint64_t start, uint64_t end)
{
	if (start < range->start)
		range->start = start;
	if (end > range->end)
		range->end = end;
}

static bool range_is_near(const struct runtime_range *range, uint64_t start, uint64_t end)
{
	return start <= range->end + GAP_MAX && range->start <= end + GAP_MAX;
}

/* Adds a piece of code to the range that it is near to, or makes a new range of it. The grown range
 * may now be near others, which are joined with it. Ranges before `first` are not the
 * compiler's. */
static void ranges_add(struct runtime_layout *layout, unsigned int first, uint64_t start,
		       uint64_t end)
{
	unsigned int at = first;

	while (at < layout->range_count && !range_is_near(&layout->ranges[at], start, end))
		at++;
	if (at == RUNTIME_RANGES_MAX)
		return;
	if (at == layout->range_count)
		layout->ranges[layout->range_count++] =
		    (struct runtime_range){.start = start, .end = end, .data = CPYTHON_RANGE_JIT};
	range_extend(&layout->ranges[at], start, end);
	for (unsigned int i = layout->range_count; i-- > at + 1;) {
		const struct runtime_range other = layout->ranges[i];

		if (!range_is_near(&layout->ranges[at], other.start, other.end))
			continue;
		range_extend(&layout->ranges[at], other.start, other.end);
		layout->ranges[i] = layout->ranges[--layout->range_count];
	}
}

/* Adds the code of a list of executors, up to the first one that is not plausible. The word
 * `previous` is only valid, and checked, if the list is `doubly_linked`. */
static void add_executors(const struct runtime_process *process, uint64_t executor,
			  bool doubly_linked, struct runtime_layout *layout, unsigned int first)
{
	uint64_t words[EXECUTOR_BYTES / 8], before = 0;

	for (int i = 0; executor && i < CPYTHON_EXECUTORS_MAX; i++) {
		if (memory_read(process->memory, executor + EXECUTOR_LINKS, words, sizeof(words)) <
		    0)
			return;
		const uint64_t code = words[JIT_CODE], bytes = words[JIT_SIZE];

		/* The executor is in another list, or the list is being changed. */
		if ((doubly_linked && words[LINK_PREVIOUS] != before) || code % PAGE ||
		    bytes > CPYTHON_JIT_CODE_BYTES_MAX || code > UINT64_MAX / 2)
			return;
		if (code && bytes)
			ranges_add(layout, first, code, code + bytes);
		before = executor;
		executor = words[LINK_NEXT];
	}
}

void cpython_jit_add_ranges(const struct runtime_process *process, struct runtime_layout *layout)
{
	const struct cpython_image *image = process->image;
	const unsigned int first = layout->range_count;
	uint64_t interpreter = 0, executor = 0, removed = 0;

	if (!image->executors ||
	    memory_read_u64(process->memory, image->interpreters + process->bias, &interpreter) < 0)
		return;
	for (int i = 0; interpreter && i < CPYTHON_JIT_INTERPRETERS_MAX; i++) {
		if (memory_read_u64(process->memory, interpreter + image->executors, &executor) < 0)
			return;
		add_executors(process, executor, true, layout, first);
		/* An invalidated executor may still be running. */
		if (image->removed_executors &&
		    memory_read_u64(process->memory, interpreter + image->removed_executors,
				    &removed) == 0)
			add_executors(process, removed, false, layout, first);
		if (memory_read_u64(process->memory, interpreter + image->offsets.interpreter_next,
				    &interpreter) < 0)
			return;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's JIT compiler (3.13, 3.14; built in by --enable-experimental-jit, in Debian's 3.14 too,
 * and on if PYTHON_JIT=1): where its code is. Executors are what it has compiled, each with memory
 * of its own; an interpreter has them in a list (Include/internal/pycore_optimizer.h).
 */
#include <errno.h>
#include <string.h>

#include "symbolizer/runtime/cpython.h"

enum {
	INTERPRETERS_MAX = 8,
	EXECUTORS_MAX = 8192,
	/* In struct _PyExecutorObject, from vm_data.links on; the same in 3.13 and 3.14. */
	EXECUTOR_LINKS = 72,
	EXECUTOR_BYTES = 48,
	LINK_NEXT = 0,
	LINK_PREVIOUS = 1,
	JIT_SIZE = 4,
	JIT_CODE = 5,
	JIT_BYTES_MAX = 16 << 20,
	PAGE = 4096,
	/* What lies between two of them is not somebody else's code. */
	GAP_MAX = 16 * PAGE,
};

static void extend(struct runtime_range *range, uint64_t start, uint64_t end)
{
	if (start < range->start)
		range->start = start;
	if (end > range->end)
		range->end = end;
}

static bool near(const struct runtime_range *range, uint64_t start, uint64_t end)
{
	return start <= range->end + GAP_MAX && range->start <= end + GAP_MAX;
}

/* One more piece of code: into the range that it is near to, which may then be near to another. */
static void add(struct runtime_layout *layout, unsigned int first, uint64_t start, uint64_t end)
{
	unsigned int at = first;

	while (at < layout->range_count && !near(&layout->ranges[at], start, end))
		at++;
	if (at == RUNTIME_RANGES_MAX)
		return;
	if (at == layout->range_count)
		layout->ranges[layout->range_count++] =
		    (struct runtime_range){.start = start, .end = end, .data = CPYTHON_RANGE_JIT};
	extend(&layout->ranges[at], start, end);
	for (unsigned int i = layout->range_count; i-- > at + 1;) {
		const struct runtime_range other = layout->ranges[i];

		if (!near(&layout->ranges[at], other.start, other.end))
			continue;
		extend(&layout->ranges[at], other.start, other.end);
		layout->ranges[i] = layout->ranges[--layout->range_count];
	}
}

/* A list of executors; `both_ways`: each knows the one before it. */
static void add_executors(const struct runtime_process *process, uint64_t executor, bool both_ways,
			  struct runtime_layout *layout, unsigned int first)
{
	uint64_t words[EXECUTOR_BYTES / 8], before = 0;

	for (int i = 0; executor && i < EXECUTORS_MAX; i++) {
		if (memory_read(process->memory, executor + EXECUTOR_LINKS, words, sizeof(words)) <
		    0)
			return;
		const uint64_t code = words[JIT_CODE], bytes = words[JIT_SIZE];

		/* It is that list, and not changed at this moment. */
		if ((both_ways && words[LINK_PREVIOUS] != before) || code % PAGE ||
		    bytes > JIT_BYTES_MAX || code > UINT64_MAX / 2)
			return;
		if (code && bytes)
			add(layout, first, code, code + bytes);
		before = executor;
		executor = words[LINK_NEXT];
	}
}

void cpython_jit_ranges(const struct runtime_process *process, struct runtime_layout *layout)
{
	const struct cpython_image *image = process->image;
	const unsigned int first = layout->range_count;
	uint64_t interpreter = 0, executor = 0, removed = 0;

	if (!image->executors ||
	    memory_read_u64(process->memory, image->interpreters + process->bias, &interpreter) < 0)
		return;
	for (int i = 0; interpreter && i < INTERPRETERS_MAX; i++) {
		if (memory_read_u64(process->memory, interpreter + image->executors, &executor) < 0)
			return;
		add_executors(process, executor, true, layout, first);
		/* What is no longer valid may still run. */
		if (image->removed_executors &&
		    memory_read_u64(process->memory, interpreter + image->removed_executors,
				    &removed) == 0)
			add_executors(process, removed, false, layout, first);
		if (memory_read_u64(process->memory, interpreter + image->offsets.interpreter_next,
				    &interpreter) < 0)
			return;
	}
}

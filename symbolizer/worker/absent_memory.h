/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pages of processes that are not present.
 *
 * How this works. Such a page comes from a file, from swap, or from a page of zeros. Usually that
 * takes microseconds. If its file system does not answer, it takes for ever, and not even SIGKILL
 * ends the read. So a helper of the worker (role/helper.h) reads such pages, one at a time. It gets
 * the descriptor with each request. If it does not answer in time, it is dropped, and the process
 * is left alone for a time, as if the worker itself had hung (role/work_page.h).
 *
 * Most names are in pages that are present, so the helper is started when it is needed first.
 *
 * Example: process 42 keeps the names of its functions in a file of a FUSE server that does not
 * answer. The helper hangs. After 100 ms the worker drops it and shows the functions of 42 without
 * names for ten seconds.
 */
#ifndef SYMBOLIZER_WORKER_ABSENT_MEMORY_H
#define SYMBOLIZER_WORKER_ABSENT_MEMORY_H

#include <stdint.h>

#include "role/helper.h"
#include "role/work_page.h"
#include "symbolizer/runtime/memory.h"

struct absent_memory {
	struct helper helper;
	struct work_page *page; /* says for whom is read; may be NULL */
	uint64_t logged_ns;
};

/* Sets up what reads without a helper. */
void absent_memory_init(struct absent_memory *absent, struct loop *loop, struct work_page *page);

/* A memory_read_absent_fn; `absent` is a struct absent_memory. */
ssize_t absent_memory_read(void *absent, const struct memory *memory, uint64_t address,
			   void *buffer, size_t length);

/* Drops the helper, and waits a moment for its end. */
void absent_memory_stop(struct absent_memory *absent);

/* Collects helpers that have ended after they were dropped. */
void absent_memory_tick(struct absent_memory *absent);

#endif

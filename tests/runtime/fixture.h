/* SPDX-License-Identifier: Apache-2.0 */
/* The one way from a thread to the text of its stack, over a live process and over a case: the
 * runtimes attach, the walkers walk, the symbolizers name. */
#ifndef TESTS_RUNTIME_FIXTURE_H
#define TESTS_RUNTIME_FIXTURE_H

#include <stddef.h>

#include "tests/runtime/case_file.h"
#include "tests/runtime/walk_in_process.h"

struct fixture_tables {
	struct walker_tables tables;
	uint32_t mapping_slab, mapping_offset, mapping_count;
};

struct fixture_text {
	char *data; /* lines, NUL-terminated; to be freed */
	size_t used, room;
};

/*
 * The stack of a case's thread: its frames into `result`, into `text` a line for each, leaf first,
 * then how it ended. Native frames are named by the case's modules. The memory is that of
 * `other`, the runtimes' files are those of the case.
 */
void fixture_run(struct case_file *file, struct other_process *other, const struct fixture_tables *tables,
	       struct walk_in_process_result *result, struct fixture_text *text);

/* The runtimes, by enum bh_runtime; [0] is NULL. */
const struct runtime_ops *fixture_runtime_ops(unsigned int runtime);
const char *fixture_runtime_name(unsigned int runtime);

/* Tables out of a case's rules, in which every other place of the code has none; 0 or a negative
 * errno. */
struct fixture_memory;
int fixture_tables_make(const struct case_file *file, struct fixture_tables *tables,
		      struct fixture_memory **memory);
void fixture_tables_free(struct fixture_memory *memory);

#endif

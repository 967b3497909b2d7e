/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture that capture and replay share, from a thread to the text of its stack: the runtimes
 * attach, the walkers walk, and the symbolizers name the frames. */
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
	char *data; /* lines, NUL-terminated; the caller frees it */
	size_t used, room;
};

/* What the runtimes have recognised in the files of a case. That takes most of the time of a run,
 * and is the same in all runs without faults until then. */
struct fixture_images;
struct fixture_images *fixture_images_new(void);
void fixture_images_free(struct fixture_images *images);

/*
 * Walks the stack of the thread of a case. Writes its frames to `result`, and to `text` a line for
 * each of them, leaf first, and how the walk ended. Native frames are named by the modules of the
 * case. The memory is read from `other`, and the files of the runtimes are those of the case.
 * `images` are of this case, and are filled by the first run with them; NULL: the files are read.
 */
void fixture_run(struct case_file *file, struct other_process *other,
		 const struct fixture_tables *tables, struct fixture_images *images,
		 struct walk_in_process_result *result, struct fixture_text *text);

/* Returns a runtime by enum bh_runtime, or NULL for 0. */
const struct runtime_ops *fixture_runtime_ops(unsigned int runtime);
const char *fixture_runtime_name(unsigned int runtime);

/* Builds unwind tables from the rules of a case. All other places in the code have no rule. Returns
 * 0 or a negative errno. */
struct fixture_memory;
int fixture_tables_make(const struct case_file *file, struct fixture_tables *tables,
			struct fixture_memory **memory);
void fixture_tables_free(struct fixture_memory *memory);

#endif

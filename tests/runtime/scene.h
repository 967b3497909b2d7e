/* SPDX-License-Identifier: Apache-2.0 */
/* The one way from a thread to the text of its stack, over a live process and over a case: the
 * runtimes attach, the walkers walk, the symbolizers name. */
#ifndef TESTS_RUNTIME_SCENE_H
#define TESTS_RUNTIME_SCENE_H

#include <stddef.h>

#include "tests/runtime/case_file.h"
#include "tests/runtime/user_walk.h"

struct scene_tables {
	struct walker_tables tables;
	uint32_t mapping_slab, mapping_offset, mapping_count;
};

struct scene_text {
	char *data; /* lines, NUL-terminated; to be freed */
	size_t used, room;
};

/*
 * The stack of a case's thread: its frames into `result`, into `text` a line for each, leaf first,
 * then how it ended. Native frames are named by the case's modules. The memory is that of
 * `foreign`, the runtimes' files are those of the case.
 */
void scene_run(struct case_file *file, struct foreign *foreign, const struct scene_tables *tables,
	       struct user_walk_result *result, struct scene_text *text);

/* The runtimes, by enum bh_runtime; [0] is NULL. */
const struct runtime_ops *scene_runtime_ops(unsigned int runtime);
const char *scene_runtime_name(unsigned int runtime);

/* Tables out of a case's rules, in which every other place of the code has none; 0 or a negative
 * errno. */
struct scene_memory;
int scene_tables_make(const struct case_file *file, struct scene_tables *tables,
		      struct scene_memory **memory);
void scene_tables_free(struct scene_memory *memory);

#endif

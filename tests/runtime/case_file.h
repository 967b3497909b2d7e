/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case: a thread with managed frames as it was once, and all that walkers and symbolizer read of
 * it: NAME.case. What they read of a runtime's file, which is more and the same for all that run
 * it, is beside it, once: FILE-HASH.file. Both are one zstd frame; what is in it, case_file.c says.
 * They are the tree's own, but read as if they were not.
 */
#ifndef TESTS_RUNTIME_CASE_FILE_H
#define TESTS_RUNTIME_CASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "tests/runtime/other_process.h"

enum {
	CASE_NAME_BYTES = 96,
	CASE_MODULES_MAX = 512,
	CASE_MAPPINGS_MAX = (1 << BH_PROCESS_MAPPINGS_BITS) - 1,
	CASE_RULES_MAX = 4096,
	CASE_RUNTIMES_MAX = 4,
	CASE_BYTES_MAX = 64 << 20, /* inflated */
};

/* The same number is slot and number of the module in the walker's tables; 0 is memory without a
 * file. */
struct case_module {
	char
	    name[CASE_NAME_BYTES]; /* without directories: where a case was captured is no matter */
	bool has_table;
};

struct case_mapping {
	uint64_t start, end, bias;
	uint32_t module;
};

struct case_rule {
	uint64_t frame; /* module number and offset, as in a native frame */
	struct bh_rule rule;
};

struct case_runtime {
	char name[CASE_NAME_BYTES]; /* of common/runtimes.def */
	char path[CASE_NAME_BYTES]; /* as of a module */
	uint64_t bias;
	uint64_t hash; /* of the whole file */
	struct other_process_file file;
};

struct case_file {
	uint32_t tgid;
	struct bh_registers registers;
	uint64_t thread_pointer;
	struct case_module modules[CASE_MODULES_MAX];
	unsigned int module_count; /* with 0 */
	struct case_mapping mappings[CASE_MAPPINGS_MAX];
	unsigned int mapping_count;
	struct case_rule rules[CASE_RULES_MAX];
	unsigned int rule_count;
	struct case_runtime runtimes[CASE_RUNTIMES_MAX];
	unsigned int runtime_count;
	struct recording memory;
};

/* Empty; NULL if there is no memory. */
struct case_file *case_new(void);
void case_free(struct case_file *file);

/* 0 or a negative errno; -EBADMSG: this is no case. */
int case_read(struct case_file *file, const char *path);

/* With what was read of the runtimes' files, added to what other cases know of them. */
int case_write(struct case_file *file, const char *path);

#endif

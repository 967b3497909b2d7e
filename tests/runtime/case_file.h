/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case (NAME.case): a thread with managed frames at one moment, and all memory that walkers and
 * symbolizer read for it. What they read of a runtime's file is larger, and the same for all
 * processes that run it. So it is in a second file next to the case, once: FILE-HASH.file. Both are
 * one zstd frame; case_file.c describes the contents. They belong to the source tree, but are read
 * as untrusted data.
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
	CASE_BYTES_MAX = 64 << 20, /* after decompression */
};

/* The index of a module is its slot and its id in the tables of the unwinder. 0 is memory without a
 * file. */
struct case_module {
	char name[CASE_NAME_BYTES]; /* without directories, which differ between machines */
	bool has_table;
};

struct case_mapping {
	uint64_t start, end, bias;
	uint32_t module;
};

struct case_rule {
	uint64_t frame; /* module id and offset, as in a native frame */
	struct bh_rule rule;
};

struct case_runtime {
	char name[CASE_NAME_BYTES]; /* of common/runtimes.def */
	char path[CASE_NAME_BYTES]; /* without directories */
	uint64_t bias;
	uint64_t hash; /* of the whole file */
	struct other_process_file file;
};

struct case_file {
	uint32_t tgid;
	struct bh_registers registers;
	uint64_t thread_pointer;
	struct case_module modules[CASE_MODULES_MAX];
	unsigned int module_count; /* includes the index 0 */
	struct case_mapping mappings[CASE_MAPPINGS_MAX];
	unsigned int mapping_count;
	struct case_rule rules[CASE_RULES_MAX];
	unsigned int rule_count;
	struct case_runtime runtimes[CASE_RUNTIMES_MAX];
	unsigned int runtime_count;
	struct recording memory;
};

/* Returns an empty case, or NULL without memory. case_free() frees it. */
struct case_file *case_new(void);
void case_free(struct case_file *file);

/* Reads a case and the files of its runtimes. Returns 0 or a negative errno; -EBADMSG means that it
 * is no case. */
int case_read(struct case_file *file, const char *path);

/* Writes a case. What was read of the files of the runtimes is added to what other cases have
 * recorded. */
int case_write(struct case_file *file, const char *path);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Copies of what the names of PHP's functions need. Without opcache, functions are freed at the end
 * of each request, and evaluated texts as soon as they have run. What is copied is what
 * symbolizer/runtime/php_names.c reads: the function, and the strings with the names of it, its
 * class and its file.
 */
#ifndef BPF_RUNTIME_PHP_COPY_H
#define BPF_RUNTIME_PHP_COPY_H

#include "bpf/runtime/php.h"
#include "bpf/runtime/walker.h"

/* Bytes of a string with its header. */
enum {
	PHP_COPY_NAME = 256,
	PHP_COPY_PATH = 512,
};

struct php_copy {
	struct bh_memory_copy start;
	struct bh_memory_part head_part;
	uint64_t head[PHP_FUNCTION_BYTES / 8];
	struct bh_memory_part file_part;
	uint64_t file[PHP_FILE_BYTES / 8];
	struct bh_memory_part class_part;
	uint64_t class[1]; /* the name of the class */
	struct bh_memory_part name_part;
	uint8_t name[PHP_COPY_NAME];
	struct bh_memory_part name_end_part; /* distinguishes it, if it is long (text_hash.h) */
	uint64_t name_end[TEXT_END_BYTES / 8];
	struct bh_memory_part class_name_part;
	uint8_t class_name[PHP_COPY_NAME];
	struct bh_memory_part path_part;
	uint8_t path[PHP_COPY_PATH];
};
_Static_assert(sizeof(struct php_copy) <= BH_MEMORY_COPY_MAX, "fits");

#endif

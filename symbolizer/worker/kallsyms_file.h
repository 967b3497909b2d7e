/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How and when the worker reads the kernel's symbols. It takes some 40 ms, as long as all other
 * things that have to be done before sampling begins. So it waits until then, or until the first
 * kernel frame is to be named, and is done in slices (slices.h). What the kernel registers and
 * unregisters meanwhile is kept, and applied when all is read.
 */
#ifndef SYMBOLIZER_WORKER_KALLSYMS_FILE_H
#define SYMBOLIZER_WORKER_KALLSYMS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/slices.h"

struct kernel_symbols;
struct msg_kernel_notes;
struct msg_kernel_text;
struct worker;

struct kallsyms_file {
	int fd; /* until it has been read; then -1 */
	struct slices slices;
	int result; /* of reading it */
	struct kernel_symbols *read;
	struct msg_kernel_text *texts; /* that were announced while it was read */
	size_t text_count, text_capacity;
};

/* Takes the kernel's build id from its notes, and makes the other one that backends want of a
 * module (htlhash). A kernel without a build id has neither. */
void kernel_notes_read(struct worker *worker, const struct msg_kernel_notes *message);

/* Returns whether the symbols were read, or cannot be; begins with it otherwise. When it has ended,
 * the file is closed. If the symbols cannot be read, that is logged, and kernel frames have no
 * names. */
bool kallsyms_file_is_read(struct worker *worker);

/* Goes on with reading, for a slice. Returns whether more is to be done. */
bool kallsyms_file_read_on(struct worker *worker);

/* Handles text that the kernel has registered or unregistered. */
void kallsyms_file_on_text(struct worker *worker, const struct msg_kernel_text *text);

void kallsyms_file_free(struct worker *worker);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker reads the kernel's symbols. It takes some 40 ms, as long as all other things that
 * have to be done before sampling begins. So it waits until then, or until the first kernel frame
 * is to be named. */
#ifndef SYMBOLIZER_WORKER_KALLSYMS_FILE_H
#define SYMBOLIZER_WORKER_KALLSYMS_FILE_H

struct msg_kernel_notes;
struct worker;

/* Takes the kernel's build id from its notes, and makes the other one that backends want of a
 * module (htlhash). A kernel without a build id has neither. */
void kernel_notes_read(struct worker *worker, const struct msg_kernel_notes *message);

/* Reads the symbols, unless that was done, and closes the file. If they cannot be read, that is
 * logged, and kernel frames have no names. */
void kallsyms_file_read(struct worker *worker);

#endif

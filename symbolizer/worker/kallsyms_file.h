/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker reads the kernel's symbols. It takes some 40 ms, as long as all other things that
 * have to be done before sampling begins. So it waits until then, or until the first kernel frame
 * is to be named. */
#ifndef SYMBOLIZER_WORKER_KALLSYMS_FILE_H
#define SYMBOLIZER_WORKER_KALLSYMS_FILE_H

struct worker;

/* Reads the symbols, unless that was done, and closes the file. If they cannot be read, that is
 * logged, and kernel frames have no names. */
void kallsyms_file_read(struct worker *worker);

#endif

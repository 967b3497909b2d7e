/* SPDX-License-Identifier: Apache-2.0 */
/* What the opener's answers about files mean for the mappings of processes (modules.h). */
#ifndef UNWINDER_MGR_PROCESS_FILES_H
#define UNWINDER_MGR_PROCESS_FILES_H

#include <stdint.h>

#include "ipc/messages.h"

struct manager;

/* Handles the opener's answer to a request for a file; `fd`, -1 if there is none, is taken over.
 * The process through which the file was opened waits for one file less, and its user is known. The
 * mappings of all processes are changed as the answer requires. */
void process_files_on_answer(struct manager *manager, const struct msg_file *answer, int fd);

/* Requests files again that could not be opened when a process had just mapped them, each for the
 * process that maps it for longest, then for the next ones. Programs that are executed at full
 * speed, as in a build, are often gone when the opener comes to them; the C library, for example,
 * is mapped by older ones too. During a scan of the running processes, one may still be found. */
void process_files_request_elsewhere(struct manager *manager);

/* Has the lists of processes published again that map files which have turned out to be no
 * programs, but memory for generated code (is_memory). */
void process_files_publish_memory(struct manager *manager);

/* Requests files that could not be opened again, each for a running process that maps it, when that
 * is due (module_is_due). */
void process_files_request_missing(struct manager *manager, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the worker where a process has executable memory that is in no program or library. JIT
 * compilers write their code there, and not all of them have a variable that says where.
 *
 * How this works. The kernel reports each such mapping at once, and a change of its protection too,
 * so it is in the process's mapping list (processes.h). All of it goes into one message, which is
 * only sent if it differs from the last one. There are two kinds: memory without a file, and memory
 * for which the kernel has a name like that of a file (common/memory_path.h). Neighbours with the
 * same label become one area. If there are too many areas, those with small gaps between them
 * become one.
 *
 * Example (Node 24 that may use 512 MiB of memory): V8 maps 0x7f7fac000000 to 0x7f7fcc000000
 * executable, for its code. The message has this one area, with the label "".
 */
#ifndef UNWINDER_MGR_CODE_MEMORY_H
#define UNWINDER_MGR_CODE_MEMORY_H

#include "ipc/messages.h"
#include "unwinder-mgr/mapping_list.h"

struct manager;
struct process;

/* Fills in count and areas of the message. */
void code_memory_collect(const struct mapping_list *list, struct msg_code_memory *message);

/* Sends the message if something has changed since the last one: the memory, or how many mappings
 * of runtimes were `reported` just now. The worker drops the message for a process that it does not
 * know, and knows it from one of those mappings on. Returns 0, or -EAGAIN if the worker cannot take
 * it yet. */
int code_memory_report(struct manager *manager, struct process *process, unsigned int reported);

#endif

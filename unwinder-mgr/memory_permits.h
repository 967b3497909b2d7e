/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes' memory the opener may hand out to the worker.
 *
 * How this works. Before the manager reports to the worker that a process maps a language runtime
 * (MAPPED), it allows the opener to hand out that process's memory (ALLOW_MEMORY). The permission
 * names the mapping and its file, so that the opener can check it against the process itself. It
 * ends when the process executes another program, exits, or maps another file there
 * (FORBID_MEMORY). The kernel does not report munmap; the opener's check covers that case.
 *
 * The kernel side, too, walks managed frames of a process and copies what their names need only
 * while it maps such a file (runtime_allowed in struct bh_process). Otherwise the worker, which
 * writes the table of runtimes, could have it read any memory of any process.
 *
 * Of a runtime whose names come with the samples (RUNTIME_ACCESS_WALK), the opener hands out no
 * memory: for such a process there is nothing but runtime_allowed.
 *
 * Example: process 42, generation 7, maps python3.11, which the worker watches.
 *
 *	publish	ALLOW_MEMORY {42, 7, 0x420000 to 0x6b0000, device 8:1, inode 77}, then MAPPED
 *	publish	the same mapping: nothing is sent
 *	exec	FORBID_MEMORY {42, 7}
 */
#ifndef UNWINDER_MGR_MEMORY_PERMITS_H
#define UNWINDER_MGR_MEMORY_PERMITS_H

struct manager;
struct process;

/* Allows the memory of a process that maps a watched module whose processes may be read, or ends
 * the permission if it no longer maps any, and publishes in the entry of the process whether it
 * maps a watched module. Returns 0; or -EAGAIN if the opener cannot take the message now, and then
 * the process must not be reported to the worker. */
int memory_permit_update(struct manager *manager, struct process *process);

/* Ends what memory_permit_update() has allowed. */
void memory_permit_withdraw(struct manager *manager, struct process *process);

#endif

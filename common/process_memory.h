/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process. */
#ifndef COMMON_PROCESS_MEMORY_H
#define COMMON_PROCESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to `length` bytes at `address` from the descriptor of /proc/PID/mem or, if that is less
 * than 0, with process_vm_readv(2) of `pid`. Returns how many, 0 if the address space of the
 * descriptor no longer exists, or a negative errno. The process can make this wait for ever. */
ssize_t process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of another process, as the worker reads it: every byte may be forged and may change
 * between two reads, every pointer may lead anywhere, in circles too. So each operation on it has
 * a budget of reads and bytes, and they all come through here.
 */
#ifndef SYMBOLIZER_RUNTIME_MEMORY_H
#define SYMBOLIZER_RUNTIME_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct memory {
	int fd; /* /proc/PID/mem; -1: process_vm_readv of `pid` (strict mode) */
	pid_t pid;
	unsigned int reads_left;
	size_t bytes_left;
};

/* Begin an operation that may make `reads` reads of `bytes` bytes in all. */
void memory_allow(struct memory *memory, unsigned int reads, size_t bytes);

/* Exactly `length` bytes at `address`: 0; -EFAULT: not all of it can be read; -ESRCH: the process
 * has ended, or executed another program; -EDQUOT: the budget is used up. */
int memory_read(struct memory *memory, uint64_t address, void *buffer, size_t length);

int memory_read_u8(struct memory *memory, uint64_t address, uint8_t *value);
int memory_read_u16(struct memory *memory, uint64_t address, uint16_t *value);
int memory_read_u32(struct memory *memory, uint64_t address, uint32_t *value);
int memory_read_u64(struct memory *memory, uint64_t address, uint64_t *value);

/* A NUL-terminated string into `text`, cut at `size` - 1 bytes. Its length, or as memory_read. */
ssize_t memory_read_string(struct memory *memory, uint64_t address, char *text, size_t size);

#endif

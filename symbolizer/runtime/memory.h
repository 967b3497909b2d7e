/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the memory of a profiled process.
 *
 * How this works: the process may forge every byte, may change it between two reads, and may link
 * its structures into circles. So every read is a copy, of exactly the requested length, and every
 * operation that follows pointers has a budget of reads and bytes. Readers do not count their
 * steps: when the budget is used up, the next read fails with -EDQUOT and the operation ends.
 *
 * Example: naming a frame calls memory_allow(m, 2048, 4 << 20) and then follows a list. If the list
 * is a circle, read 2049 returns -EDQUOT. Nothing is retried with the same budget.
 *
 * Instead of the process's memory, a copy of parts of it may be read (struct bh_memory_copy), which
 * the kernel side made when a sample was taken. It is never mixed with the present memory: what is
 * not in the copy cannot be read.
 *
 * An operation that reads many small pieces of tables may use a cache of whole pages, which saves
 * nine of ten system calls. What it reads is as old as the first read of that page. So it is only
 * for what does not change, and never for checking whether something has changed.
 *
 * The memory is read through /proc/PID/mem where the worker has received that descriptor. It names
 * the address space, not the pid: after exec or exit it returns end of file (-ESRCH) and can never
 * reach another process. In strict mode there is no such descriptor and process_vm_readv(2) is
 * used.
 *
 * Reading may have to wait for ever: for a page that is in a file system that does not answer, or
 * for the lock of the address space, which the process itself can hold. The worker gives up an
 * operation that does not come back from a read (role/process_work.h), and leaves the process
 * alone.
 */
#ifndef SYMBOLIZER_RUNTIME_MEMORY_H
#define SYMBOLIZER_RUNTIME_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	MEMORY_PAGE_BYTES = 4096,
	MEMORY_CACHE_PAGES = 16 /* of the tables of a JVM: more save little */
};

struct memory;

/* Reads up to `length` bytes of the process. Returns how many, 0 if the address space no longer
 * exists, -ETIMEDOUT if the process makes its readers wait, or another negative errno. */
typedef ssize_t memory_read_fn(void *context, const struct memory *memory, uint64_t address,
			       void *buffer, size_t length);

/* To be filled with zeros before its use. */
struct memory_cache {
	struct memory_page {
		uint64_t address;
		bool filled;
		uint8_t bytes[MEMORY_PAGE_BYTES];
	} pages[MEMORY_CACHE_PAGES];
};

struct memory {
	int fd; /* /proc/PID/mem, borrowed; -1: process_vm_readv() of `pid` (strict mode) */
	pid_t pid;
	/* The parts of a struct bh_memory_copy (borrowed), which are read instead, or NULL. */
	const uint8_t *copy;
	size_t copy_bytes;
	struct memory_cache *cache; /* borrowed; NULL: each read is a system call */
	memory_read_fn *read;	    /* NULL: read at once, however long that takes */
	void *read_context;
	bool timed_out; /* this operation has waited for too long: nothing more is read */
	unsigned int reads_left;
	size_t bytes_left;
};

/* Starts an operation that may make `reads` reads, of `bytes` bytes in total. */
void memory_allow(struct memory *memory, unsigned int reads, size_t bytes);

/* Reads exactly `length` bytes at `address`. Returns 0; -EFAULT: a part of it is not mapped or not
 * readable; -ESTALE: it is not in the copy; -ESRCH: the process has ended or has executed another
 * program; -EDQUOT: the budget is used up; -ETIMEDOUT: the process makes its readers wait. After an
 * error `buffer` is undefined. */
int memory_read(struct memory *memory, uint64_t address, void *buffer, size_t length);

/* Returns how many of `length` bytes at `address` can be read at all: of a copy, perhaps only the
 * first ones. */
size_t memory_has(const struct memory *memory, uint64_t address, size_t length);

int memory_read_u8(struct memory *memory, uint64_t address, uint8_t *value);
int memory_read_u16(struct memory *memory, uint64_t address, uint16_t *value);
int memory_read_u32(struct memory *memory, uint64_t address, uint32_t *value);
int memory_read_u64(struct memory *memory, uint64_t address, uint64_t *value);

/* Reads a NUL-terminated string into `text`, cut at `size` - 1 bytes and always terminated.
 * Returns its length, or an error of memory_read(). */
ssize_t memory_read_string(struct memory *memory, uint64_t address, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading from files that somebody may truncate or change at any moment, and that are therefore
 * never mapped. All functions continue after a short read and after EINTR.
 */
#ifndef COMMON_FILE_READ_H
#define COMMON_FILE_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Reads from the descriptor's position until `size` bytes are there or the file ends. Returns the
 * number of bytes, or the negative errno of read(2). */
ssize_t file_read_fully(int fd, void *buffer, size_t size);

/* Reads in the same way at `offset`, with pread(2). The descriptor's position does not change. Work
 * that is done in slices may pause here (slices.h), and so in the functions that use this one. */
ssize_t file_read_fully_at(int fd, uint64_t offset, void *buffer, size_t size);

/* Reads exactly `length` bytes at `offset`. Returns 0, -ENODATA if the file ends before, or the
 * negative errno of pread(2). */
int file_read_exactly(int fd, uint64_t offset, void *buffer, size_t length);

/* Does the same with the descriptor to which `fd`, a const int *, points: for the parsers, which
 * read what they parse by a function with a context (struct elf_source). */
int file_read_from(void *fd, uint64_t offset, void *buffer, size_t length);

/* Finds out what a descriptor refers to, by the system call fstat. The C library's fstat() makes
 * another one, newfstatat with an empty name. A filter that allows that one allows every name,
 * because it cannot read strings. Returns 0, or the negative errno of fstat(2). */
int file_read_status(int fd, struct stat *status);

/* Reads from the descriptor's position to the end of the file, at most `max` bytes. The memory
 * starts with `first` bytes and doubles. Returns 0; 1 if the file is longer, and the data is its
 * first `max` bytes; -ENOMEM; or the negative errno of read(2). Where the result is not negative,
 * `*data` is the caller's, to be freed, and the byte after `*length` is NUL. */
int file_read_all(int fd, size_t first, size_t max, uint8_t **data, size_t *length);

/* Reads as file_read_fully_at() does, from what `context` stands for. */
typedef ssize_t file_read_fn(void *context, uint64_t offset, void *buffer, size_t size);

/* Does the same as file_read_all() from the start of what `read_at` reads. */
int file_read_all_by(file_read_fn *read_at, void *context, size_t first, size_t max, uint8_t **data,
		     size_t *length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of a file that somebody may truncate or change at any moment, and that is therefore never
 * mapped. */
#ifndef COMMON_FILE_READ_H
#define COMMON_FILE_READ_H

#include <stddef.h>
#include <stdint.h>

/* Exactly `length` bytes at `offset`: 0, -ENODATA past the end, or what pread gave. */
int file_read_exactly(int fd, uint64_t offset, void *buffer, size_t length);

#endif

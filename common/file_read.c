/* SPDX-License-Identifier: Apache-2.0 */
#include "common/file_read.h"

#include <errno.h>
#include <unistd.h>

int file_read_exactly(int fd, uint64_t offset, void *buffer, size_t length)
{
	uint8_t *at = buffer;

	if (offset > INT64_MAX || length > INT64_MAX - offset)
		return -ENODATA;
	while (length > 0) {
		ssize_t n = pread(fd, at, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

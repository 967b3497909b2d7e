/* SPDX-License-Identifier: Apache-2.0 */
#include "common/file_read.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/slices.h"

enum {
	PIECE_BYTES = 1 << 20, /* of what is read at an offset, between two pauses */
};

ssize_t file_read_fully(int fd, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		const ssize_t n = read(fd, (uint8_t *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t file_read_fully_at(int fd, uint64_t offset, void *buffer, size_t size)
{
	size_t done = 0;

	/* No file is that long: off_t is signed. */
	if (offset > INT64_MAX || size > INT64_MAX - offset)
		return 0;
	while (done < size) {
		const size_t piece = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;

		slices_pause_when_due();
		const ssize_t n =
		    pread(fd, (uint8_t *)buffer + done, piece, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int file_read_exactly(int fd, uint64_t offset, void *buffer, size_t length)
{
	const ssize_t n = file_read_fully_at(fd, offset, buffer, length);

	if (n < 0)
		return (int)n;
	return (size_t)n == length ? 0 : -ENODATA;
}

int file_read_from(void *fd, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly(*(const int *)fd, offset, buffer, length);
}

int file_read_status(int fd, struct stat *status)
{
	struct stat found;

	if (syscall(SYS_fstat, fd, &found) < 0)
		return -errno;
	*status = found;
	return 0;
}

int file_read_all_by(file_read_fn *read_at, void *context, size_t first, size_t max, uint8_t **data,
		     size_t *length)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t capacity = 0, used = 0;

	for (;;) {
		/* One byte more than the file may have: for the NUL, or to see that it is
		 * longer. */
		int r = ARRAY_RESERVE(bytes, capacity, used + 1, first, max + 1);

		if (r < 0)
			return r;
		const ssize_t n = read_at(context, used, bytes + used, capacity - used);
		if (n < 0)
			return (int)n;
		used += (size_t)n;
		if (used < capacity || capacity == max + 1)
			break;
	}
	const bool longer = used > max;
	if (longer)
		used = max;
	bytes[used] = 0;
	*data = TAKE_PTR(bytes);
	*length = used;
	return longer;
}

static ssize_t read_on(void *fd, uint64_t offset, void *buffer, size_t size)
{
	(void)offset;
	return file_read_fully(*(const int *)fd, buffer, size);
}

int file_read_all(int fd, size_t first, size_t max, uint8_t **data, size_t *length)
{
	return file_read_all_by(read_on, &fd, first, max, data, length);
}

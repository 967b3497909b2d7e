/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"

/* Makes a file with the bytes 0, 1, 2, ... 250, 0, ..., whose position is at the start. */
static int file_of(size_t length)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	for (size_t i = 0; i < length; i++) {
		const uint8_t byte = (uint8_t)(i % 251);

		cr_assert_eq(pwrite(fd, &byte, 1, (off_t)i), 1);
	}
	return fd;
}

static void expect_bytes(const uint8_t *bytes, size_t first, size_t length)
{
	for (size_t i = 0; i < length; i++)
		cr_assert_eq(bytes[i], (first + i) % 251);
}

Test(file_read, exactly_what_was_asked_or_an_error)
{
	_cleanup_close_ int fd = file_of(100);
	uint8_t bytes[100];

	cr_assert_eq(file_read_exactly(fd, 0, bytes, 100), 0);
	expect_bytes(bytes, 0, 100);
	cr_assert_eq(file_read_exactly(fd, 90, bytes, 10), 0);
	expect_bytes(bytes, 90, 10);
	cr_assert_eq(file_read_exactly(fd, 91, bytes, 10), -ENODATA);
	cr_assert_eq(file_read_exactly(fd, 100, bytes, 0), 0);
	cr_assert_eq(file_read_exactly(fd, UINT64_MAX, bytes, 1), -ENODATA);
	cr_assert_eq(file_read_exactly(fd, INT64_MAX, bytes, 1), -ENODATA);
	cr_assert_eq(file_read_exactly(-1, 0, bytes, 1), -EBADF);
}

Test(file_read, status_is_that_of_fstat)
{
	_cleanup_close_ int fd = file_of(100);
	struct stat expected = {0}, found = {0}, untouched;

	cr_assert_eq(fstat(fd, &expected), 0);
	cr_assert_eq(file_read_status(fd, &found), 0);
	cr_expect_eq(found.st_size, 100);
	cr_expect_eq(found.st_dev, expected.st_dev);
	cr_expect_eq(found.st_ino, expected.st_ino);
	cr_expect_eq(found.st_mode, expected.st_mode);
	cr_expect_eq(found.st_ctim.tv_nsec, expected.st_ctim.tv_nsec);
	memset(&untouched, 7, sizeof(untouched));
	cr_expect_eq(file_read_status(-1, &untouched), -EBADF);
	cr_expect_eq(*(const uint8_t *)&untouched, 7, "an error must not change the result");
}

Test(file_read, fully_stops_at_the_end_of_the_file)
{
	_cleanup_close_ int fd = file_of(100);
	uint8_t bytes[200];

	cr_assert_eq(file_read_fully_at(fd, 40, bytes, 200), 60);
	expect_bytes(bytes, 40, 60);
	cr_assert_eq(lseek(fd, 0, SEEK_CUR), 0, "the position must stay");
	cr_assert_eq(file_read_fully(fd, bytes, 30), 30);
	cr_assert_eq(file_read_fully(fd, bytes, 200), 70);
	expect_bytes(bytes, 30, 70);
	cr_assert_eq(file_read_fully(fd, bytes, 200), 0);
	cr_assert_eq(file_read_fully(-1, bytes, 1), -EBADF);
}

static void *write_in_pieces(void *context)
{
	const int fd = *(int *)context;

	for (int i = 0; i < 10; i++) {
		cr_assert_eq(write(fd, "0123456789", 10), 10);
		usleep(1000);
	}
	close(fd);
	return NULL;
}

Test(file_read, short_reads_are_continued)
{
	uint8_t bytes[100];
	pthread_t writer;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	cr_assert_eq(pthread_create(&writer, NULL, write_in_pieces, &ends[1]), 0);
	cr_assert_eq(file_read_fully(ends[0], bytes, 100), 100);
	cr_assert_eq(memcmp(bytes + 90, "0123456789", 10), 0);
	pthread_join(writer, NULL);
	close(ends[0]);
}

Test(file_read, all_of_a_file_of_any_length)
{
	static const size_t lengths[] = {0, 1, 15, 16, 17, 31, 32, 33, 99, 100};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		_cleanup_close_ int fd = file_of(lengths[i]);
		_cleanup_free_ uint8_t *data = NULL;
		size_t length = 1234;

		cr_assert_eq(file_read_all(fd, 16, 100, &data, &length), 0);
		cr_assert_eq(length, lengths[i]);
		expect_bytes(data, 0, length);
		cr_assert_eq(data[length], 0);
	}
}

Test(file_read, file_longer_than_the_maximum_is_cut_and_reported)
{
	static const size_t lengths[] = {101, 102, 1000};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		_cleanup_close_ int fd = file_of(lengths[i]);
		_cleanup_free_ uint8_t *data = NULL;
		size_t length = 0;

		cr_assert_eq(file_read_all(fd, 16, 100, &data, &length), 1);
		cr_assert_eq(length, 100);
		expect_bytes(data, 0, length);
		cr_assert_eq(data[length], 0);
	}
}

Test(file_read, failure_leaves_the_outputs)
{
	uint8_t *data = NULL;
	size_t length = 7;

	cr_assert_eq(file_read_all(-1, 16, 100, &data, &length), -EBADF);
	cr_assert_null(data);
	cr_assert_eq(length, 7);
}

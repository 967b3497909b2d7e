/* SPDX-License-Identifier: Apache-2.0 */
/* What the opener has opened. */
#ifndef TESTS_UNIT_SYMBOLIZER_EXPECT_FILE_H
#define TESTS_UNIT_SYMBOLIZER_EXPECT_FILE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The file has this text, and can be read and nothing more. Closes it. */
static inline void expect_file(int fd, const char *expected)
{
	char text[256] = "";

	cr_assert_geq(fd, 0, "%s: %s", expected, strerror(-fd));
	cr_expect_gt(pread(fd, text, sizeof(text) - 1, 0), 0);
	cr_expect_str_eq(text, expected);
	cr_expect_eq(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

#endif

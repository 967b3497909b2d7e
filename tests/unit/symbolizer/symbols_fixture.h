/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of symbols.h share: opening and indexing a file. */
#ifndef TESTS_SYMBOLS_FIXTURE_H
#define TESTS_SYMBOLS_FIXTURE_H

#include <criterion/criterion.h>
#include <fcntl.h>

#include "symbolizer/worker/symbols.h"

/* Bytes that an index may have in tests that are not about the cap. */
#define CAP (64u << 20)

static inline int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s: %m", path);
	return fd;
}

static inline struct symbols *index_fd(int fd)
{
	struct symbols *symbols = NULL;

	cr_assert_eq(symbols_new(fd, CAP, &symbols), 0);
	cr_assert_not_null(symbols);
	return symbols;
}

#endif

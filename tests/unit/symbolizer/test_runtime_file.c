/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the lookup of exported symbols, in files that have only one of the two hash tables. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "symbolizer/runtime/file.h"

static const char *const exported[] = {
    "gFirst", "gSecond", "g3", "g4",
    "g5",     "g6",	 "g7", "a_name_that_is_long_enough_for_all_bits_of_the_hash",
};

enum {
	EXPORTED = sizeof(exported) / sizeof(exported[0])
};

static void look_up(const char *path, bool gnu)
{
	struct runtime_symbol symbols[EXPORTED], none;
	struct runtime_file file;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(runtime_file_init(&file, fd, path), 0);
	cr_assert(!!file.gnu_hash == gnu && !!file.hash == !gnu);
	for (int i = 0; i < EXPORTED; i++) {
		uint32_t value = 0;

		cr_assert_eq(runtime_file_exported(&file, exported[i], &symbols[i]), 0, "%s",
			     exported[i]);
		cr_expect_eq(symbols[i].size, sizeof(int));
		cr_expect_eq(runtime_file_read(&file, symbols[i].vaddr, &value, sizeof(value)), 0);
		cr_expect_eq(value, 1);
		for (int j = 0; j < i; j++)
			cr_expect_neq(symbols[i].vaddr, symbols[j].vaddr);
	}
	cr_expect_eq(runtime_file_exported(&file, "g8", &none), -ENOENT);
	cr_expect_eq(runtime_file_exported(&file, "", &none), -ENOENT);
	runtime_file_fini(&file);
	close(fd);
}

Test(runtime_file, symbols_are_found_by_gnu_hash)
{
	look_up(FIXTURE_GNU, true);
}

Test(runtime_file, symbols_are_found_by_system_v_hash)
{
	look_up(FIXTURE_SYSV, false);
}

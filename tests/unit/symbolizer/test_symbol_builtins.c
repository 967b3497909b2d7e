/* SPDX-License-Identifier: Apache-2.0 */
/* V8's builtins in the index of a stripped file: with their names, next to exported functions; not
 * if the index would be too large; and only until the debug file is there. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/v8_library.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

static int file_of(const char *data, const char *end)
{
	const int fd = memfd_create("library", MFD_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, data, (size_t)(end - data)) == end - data);
	return fd;
}

/* Checks the name of the first, a middle and the last byte of a builtin, and of the padding. */
static void check_builtin(const struct symbols *symbols, const char *name)
{
	const size_t at = v8_library_offset(name);
	struct symbol found;
	uint64_t size;
	const uint64_t vaddr = v8_library_symbol(name, &size);

	for (uint64_t i = 0; i < size; i += i + 1 < size - 1 ? size - 2 : 1) {
		cr_assert(symbols_find(symbols, at + i, &found), "%s+%lu", name, i);
		cr_expect_str_eq(found.name, name);
		cr_expect_str_eq(found.system_name, "");
		cr_expect_eq(found.start_vaddr, vaddr);
		cr_expect_eq(found.size, size);
	}
	cr_expect_not(symbols_find(symbols, at + size, &found), "%s is the padding's", found.name);
}

static void check_builtins(const struct symbols *symbols)
{
	check_builtin(symbols, "Builtins_B4");
	check_builtin(symbols, "Builtins_InterpreterEntryTrampoline");
	check_builtin(symbols, "Builtins_B600");
	check_builtin(symbols, "Builtins_B1099");
}

Test(symbol_builtins, a_stripped_file_has_them)
{
	const int fd = file_of(v8_stripped, v8_stripped_end);
	struct symbols *symbols = index_fd(fd);

	check_builtins(symbols);
	symbols_free(symbols);
	close(fd);
}

Test(symbol_builtins, the_debug_file_replaces_them)
{
	const int fd = file_of(v8_stripped, v8_stripped_end);
	const int debug_fd = file_of(v8_linked, v8_linked_end);
	struct symbols *symbols = index_fd(fd);
	const uint8_t *id;

	cr_assert_gt(symbols_want_debug(symbols, &id), 0, "the debug file is looked for");
	const size_t before = symbols_bytes(symbols);
	cr_assert_eq(symbols_add_debug(symbols, debug_fd), 0);
	cr_expect_lt(symbols_bytes(symbols), before, "names are read from the file now");
	check_builtins(symbols);
	symbols_free(symbols);
	close(debug_fd);
	close(fd);
}

Test(symbol_builtins, they_are_left_out_if_the_index_would_be_too_large)
{
	const int fd = file_of(v8_stripped, v8_stripped_end);
	struct symbols *symbols = index_fd(fd);
	const size_t bytes = symbols_bytes(symbols);
	struct symbol found;

	symbols_free(symbols);
	cr_assert_eq(symbols_new(fd, bytes, &symbols), 0);
	check_builtin(symbols, "Builtins_B600");
	symbols_free(symbols);
	cr_assert_eq(symbols_new(fd, bytes - 1, &symbols), 0);
	cr_expect_not(symbols_find(symbols, v8_library_offset("Builtins_B600"), &found));
	cr_expect_lt(symbols_bytes(symbols), bytes / 2);
	symbols_free(symbols);
	close(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the lookup of symbols by name, in files that have only one of the two hash tables. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_read.h"
#include "parse/elf_lookup.h"

static const char *const exported[] = {
    "gFirst", "gSecond", "g3", "g4",
    "g5",     "g6",	 "g7", "a_name_that_is_long_enough_for_all_bits_of_the_hash",
};

enum {
	EXPORTED = sizeof(exported) / sizeof(exported[0])
};

struct file {
	int fd;
	struct elf_image image;
	struct elf_lookup lookup;
};

static struct file file;

static void open_file(const char *path)
{
	struct stat st;

	file.fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(file.fd >= 0 && fstat(file.fd, &st) == 0);
	const struct elf_source source = {
	    .read = file_read_from, .context = &file.fd, .size = (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&file.image, &source), 0);
	cr_assert_eq(elf_lookup_init(&file.lookup, &file.image), 0);
}

static void close_file(void)
{
	elf_lookup_fini(&file.lookup);
	elf_image_fini(&file.image);
	close(file.fd);
}

static void check_value(const struct elf_symbol *symbol)
{
	uint64_t offset;
	uint32_t value = 0;

	cr_expect_eq(symbol->size, sizeof(int));
	cr_assert(elf_image_vaddr_to_offset(&file.image, symbol->value, &offset));
	cr_expect_eq(file_read_exactly(file.fd, offset, &value, sizeof(value)), 0);
	cr_expect_eq(value, 1);
}

static void look_up(const char *path, bool gnu)
{
	struct elf_symbol symbols[EXPORTED], none;

	open_file(path);
	cr_assert(!!file.lookup.gnu_hash == gnu && !!file.lookup.hash == !gnu);
	for (int i = 0; i < EXPORTED; i++) {
		cr_assert_eq(elf_lookup_exported(&file.lookup, exported[i], &symbols[i]), 0, "%s",
			     exported[i]);
		check_value(&symbols[i]);
		for (int j = 0; j < i; j++)
			cr_expect_neq(symbols[i].value, symbols[j].value);
	}
	cr_expect_eq(elf_lookup_exported(&file.lookup, "g8", &none), -ENOENT);
	cr_expect_eq(elf_lookup_exported(&file.lookup, "", &none), -ENOENT);
	close_file();
}

Test(elf_lookup, symbols_are_found_by_gnu_hash)
{
	look_up(FIXTURE_GNU, true);
}

Test(elf_lookup, symbols_are_found_by_system_v_hash)
{
	look_up(FIXTURE_SYSV, false);
}

Test(elf_lookup, local_symbols_are_found_in_the_symbol_table_only)
{
	struct elf_symbol symbol;

	open_file(FIXTURE_GNU);
	cr_expect_eq(elf_lookup_exported(&file.lookup, "local_to_the_file", &symbol), -ENOENT);
	cr_assert_eq(elf_lookup_local(&file.lookup, "local_to_the_file", &symbol), 0);
	cr_expect_eq(symbol.bind, STB_LOCAL);
	check_value(&symbol);
	cr_assert_eq(elf_lookup_local(&file.lookup, "gFirst", &symbol), 0);
	check_value(&symbol);
	cr_expect_eq(elf_lookup_local(&file.lookup, "local_to_the_fil", &symbol), -ENOENT);
	close_file();
}

/* Else every program that uses a library would be taken for it. */
Test(elf_lookup, symbols_of_other_files_are_not_found)
{
	struct elf_symbol symbol;

	for (int i = 0; i < 2; i++) {
		open_file(i ? FIXTURE_SYSV : FIXTURE_GNU);
		cr_expect_eq(elf_lookup_exported(&file.lookup, "defined_elsewhere", &symbol),
			     -ENOENT);
		cr_expect_eq(elf_lookup_local(&file.lookup, "defined_elsewhere", &symbol), -ENOENT);
		close_file();
	}
}

/* g7 is the only variable that the library itself uses and defines. */
Test(elf_lookup, the_place_of_the_address_of_a_variable_is_found)
{
	uint64_t vaddr = 0;

	for (int i = 0; i < 2; i++) {
		open_file(i ? FIXTURE_SYSV : FIXTURE_GNU);
		const struct elf_section *got = elf_image_find_section(&file.image, ".got");
		cr_assert_not_null(got);
		cr_assert_eq(elf_lookup_slot(&file.lookup, "g7", &vaddr), 0);
		cr_expect(vaddr >= got->vaddr && vaddr < got->vaddr + got->size);
		cr_expect_eq(elf_lookup_slot(&file.lookup, "g4", &vaddr), -ENOENT);
		cr_expect_eq(elf_lookup_slot(&file.lookup, "defined_elsewhere", &vaddr), -ENOENT);
		close_file();
	}
}

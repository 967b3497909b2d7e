/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of real files, compared with what libelf and libstdc++ find in them. */
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <link.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/symbolizer/symbols_fixture.h"

/* --- the functions that libelf finds --- */

struct truth {
	GElf_Sym *functions; /* those of one table with a size */
	const char **names;
	size_t count;
	GElf_Phdr loads[16];
	size_t load_count;
	Elf *elf;
};

static void truth_read(struct truth *truth, int fd, GElf_Word type)
{
	Elf_Scn *section = NULL;
	size_t headers;

	elf_version(EV_CURRENT);
	truth->elf = elf_begin(fd, ELF_C_READ, NULL);
	cr_assert_not_null(truth->elf);
	elf_getphdrnum(truth->elf, &headers);
	for (size_t i = 0; i < headers && truth->load_count < 16; i++) {
		GElf_Phdr *load = &truth->loads[truth->load_count];

		gelf_getphdr(truth->elf, (int)i, load);
		truth->load_count += load->p_type == PT_LOAD;
	}
	while ((section = elf_nextscn(truth->elf, section))) {
		GElf_Shdr header;

		gelf_getshdr(section, &header);
		if (header.sh_type != type)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		size_t total = header.sh_size / header.sh_entsize;
		truth->functions = calloc(total, sizeof(*truth->functions));
		truth->names = calloc(total, sizeof(*truth->names));
		for (size_t i = 0; i < total; i++) {
			GElf_Sym *symbol = &truth->functions[truth->count];

			gelf_getsym(data, (int)i, symbol);
			if ((GELF_ST_TYPE(symbol->st_info) != STT_FUNC &&
			     GELF_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC) ||
			    symbol->st_shndx == SHN_UNDEF || symbol->st_size == 0)
				continue;
			truth->names[truth->count++] =
			    elf_strptr(truth->elf, header.sh_link, symbol->st_name);
		}
		return;
	}
	cr_assert_fail("no such table");
}

static void truth_fini(struct truth *truth)
{
	free(truth->functions);
	free(truth->names);
	elf_end(truth->elf);
}

static bool truth_offset(const struct truth *truth, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < truth->load_count; i++) {
		const GElf_Phdr *load = &truth->loads[i];

		if (vaddr >= load->p_vaddr && vaddr < load->p_vaddr + load->p_filesz) {
			*offset = vaddr - load->p_vaddr + load->p_offset;
			return true;
		}
	}
	return false;
}

/* The demangler of libstdc++, which prints parameters and return types as well. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* Returns whether `name` is a demangled form of `raw` without C++ parameters. The few names of Rust
 * are compared one by one below. */
static bool is_name_of(const char *name, const char *raw)
{
	const char *dot = strchr(raw, '.');
	_cleanup_free_ char *base = strndup(raw, dot && dot != raw ? (size_t)(dot - raw) : 1023);
	_cleanup_free_ char *full = NULL;
	const char *at;
	size_t length;
	int status;

	if (strcmp(name, raw) == 0 || strncmp(raw, "_R", 2) == 0 || strstr(raw, "17h"))
		return true;
	full = __cxa_demangle(base, NULL, NULL, &status);
	if (!full)
		return false;
	dot = strchr(raw, '.');
	length = strlen(name) - (dot ? strlen(dot) : 0);
	/* The name is at the start or after the return type, and ends at the parameters or at the
	 * end. */
	for (at = full; (at = memmem(at, strlen(at), name, length)); at++) {
		if ((at == full || at[-1] == ' ') && (at[length] == '\0' || at[length] == '('))
			return true;
	}
	return false;
}

/* Checks that the found name belongs to the function that starts last among those that contain
 * `vaddr`. */
static void check_address(const struct symbols *symbols, const struct truth *truth, uint64_t vaddr)
{
	uint64_t start = 0, offset, back;
	struct symbol found;
	bool named = false;

	if (!truth_offset(truth, vaddr, &offset))
		return;
	for (size_t i = 0; i < truth->count; i++) {
		const GElf_Sym *f = &truth->functions[i];

		if (vaddr - f->st_value < f->st_size && f->st_value > start)
			start = f->st_value;
	}
	cr_assert(symbols_offset_to_vaddr(symbols, offset, &back));
	cr_assert_eq(back, vaddr);
	cr_assert(symbols_find(symbols, offset, &found), "%#llx", (unsigned long long)vaddr);
	cr_assert_eq(found.start_vaddr, start, "%#llx: %s", (unsigned long long)vaddr, found.name);
	for (size_t i = 0; i < truth->count && !named; i++)
		named = truth->functions[i].st_value == start &&
			is_name_of(found.name, truth->names[i]);
	cr_assert(named, "%#llx: %s", (unsigned long long)vaddr, found.name);
}

static void check_every_function(int fd, GElf_Word type)
{
	struct symbols *symbols = index_fd(fd);
	struct truth truth = {0};

	truth_read(&truth, fd, type);
	cr_assert_gt(truth.count, 10);
	for (size_t i = 0; i < truth.count; i++) {
		const GElf_Sym *f = &truth.functions[i];

		check_address(symbols, &truth, f->st_value);
		check_address(symbols, &truth, f->st_value + f->st_size / 2);
		check_address(symbols, &truth, f->st_value + f->st_size - 1);
	}
	cr_log_info("%zu functions, %zu bytes", truth.count, symbols_bytes(symbols));
	truth_fini(&truth);
	symbols_free(symbols);
}

Test(symbols, every_function_of_a_cplusplus_program_is_found)
{
	_cleanup_close_ int fd = open_file(FIXTURE);

	check_every_function(fd, SHT_SYMTAB);
}

/* The unwind tables have the same starts of functions as the symbols. A part of a function that the
 * compiler moved elsewhere is a function of its own in both. */
Test(symbols, unwind_tables_give_the_start_of_every_function)
{
	_cleanup_close_ int fd = open_file(FIXTURE);
	struct symbols *symbols = index_fd(fd);
	struct truth truth = {0};

	truth_read(&truth, fd, SHT_SYMTAB);
	symbols_index_ranges(symbols);
	for (size_t i = 0; i < truth.count; i++) {
		const GElf_Sym *f = &truth.functions[i];
		uint64_t offset = 0, first = 0, last = 0;

		cr_assert(truth_offset(&truth, f->st_value, &offset));
		/* What the linker's startup files contain has no unwind table. */
		if (symbols_find_start(symbols, offset, &first) < 0)
			continue;
		cr_expect_eq(first, f->st_value, "%s", truth.names[i]);
		cr_expect_eq(symbols_find_start(symbols, offset + f->st_size - 1, &last), 0);
		cr_expect_eq(last, f->st_value, "%s", truth.names[i]);
	}
	truth_fini(&truth);
	symbols_free(symbols);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *path)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	snprintf(path, PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

static int open_libc(void)
{
	char path[PATH_MAX];

	cr_assert_eq(dl_iterate_phdr(find_libc, path), 1);
	return open_file(path);
}

Test(symbols, every_function_of_libc_is_found)
{
	_cleanup_close_ int fd = open_libc();

	check_every_function(fd, SHT_DYNSYM);
}

static void check_name(int fd, const char *raw, const char *expected)
{
	struct symbols *symbols = index_fd(fd);
	struct truth truth = {0};
	struct symbol found;
	uint64_t offset;

	truth_read(&truth, fd, SHT_SYMTAB);
	for (size_t i = 0; i < truth.count; i++) {
		const GElf_Sym *f = &truth.functions[i];

		if (strcmp(truth.names[i], raw) != 0)
			continue;
		cr_assert(truth_offset(&truth, f->st_value + f->st_size / 2, &offset));
		cr_assert(symbols_find(symbols, offset, &found));
		cr_assert_str_eq(found.name, expected);
		cr_assert_eq(found.start_vaddr, f->st_value);
		cr_assert_eq(found.size, f->st_size);
		expected = NULL;
	}
	cr_assert_null(expected, "%s is not in the fixture", raw);
	truth_fini(&truth);
	symbols_free(symbols);
}

Test(symbols, names_are_demangled_without_parameters_and_hashes)
{
	_cleanup_close_ int fd = open_file(FIXTURE);

	check_name(fd, "main", "main");
	check_name(fd, "_ZN4shop6basketIiLi3EE3addERKi", "shop::basket<int, 3>::add");
	check_name(fd, "_ZNK4shop6basketIiLi3EEltERKS1_", "shop::basket<int, 3>::operator<");
	check_name(fd, "_ZN4shop5countIJidPKcEEEmDpT_", "shop::count<int, double, char const*>");
	check_name(fd, "_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE",
		   "core::fmt::Formatter::write_fmt");
	check_name(fd,
		   "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_"
		   "str17hfedcba9876543210E",
		   "<alloc::string::String as core::fmt::Write>::write_str");
	check_name(fd, "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	check_name(fd, "_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>");
	check_name(fd, "_ZN4shop5checkEi.cold", "shop::check.cold");
}

/* Every name that is found in a PLT section ends with "@plt", its range contains the address, and
 * the entry of printf is among them. */
static void check_plt(const char *path)
{
	_cleanup_close_ int fd = open_file(path);
	struct symbols *symbols = index_fd(fd);
	struct truth truth = {0};
	unsigned int named = 0, printf_named = 0;
	Elf_Scn *section = NULL;
	size_t strings;

	truth_read(&truth, fd, SHT_DYNSYM);
	elf_getshdrstrndx(truth.elf, &strings);
	while ((section = elf_nextscn(truth.elf, section))) {
		GElf_Shdr header;
		struct symbol found;

		gelf_getshdr(section, &header);
		if (strncmp(elf_strptr(truth.elf, strings, header.sh_name), ".plt", 4) != 0)
			continue;
		for (uint64_t at = 0; at < header.sh_size; at += 8) {
			if (!symbols_find(symbols, header.sh_offset + at, &found))
				continue;
			cr_assert(strlen(found.name) > 4 &&
				  strcmp(found.name + strlen(found.name) - 4, "@plt") == 0);
			named++;
			printf_named += strcmp(found.name, "printf@plt") == 0 ||
					strcmp(found.name, "__printf_chk@plt") == 0;
			cr_assert_leq(found.start_vaddr, header.sh_addr + at);
			cr_assert_gt(found.start_vaddr + found.size, header.sh_addr + at);
		}
	}
	cr_assert_gt(named, 8);
	cr_assert_gt(printf_named, 0);
	truth_fini(&truth);
	symbols_free(symbols);
}

Test(symbols, plt_entries_have_the_names_of_their_functions)
{
	check_plt(FIXTURE);
}

Test(symbols, plt_entries_with_endbr_have_the_names_of_their_functions)
{
	check_plt(FIXTURE_IBT);
}

Test(symbols, htlhash_covers_head_tail_and_length)
{
	/* The definition is in the semantic conventions of OpenTelemetry:
	 * process.executable.build_id.htlhash. */
	_cleanup_close_ int fd = memfd_create("ids", MFD_CLOEXEC);
	uint8_t bytes[5000], input[8192 + 8] = {0}, digest[32];
	const struct symbols_ids *ids;
	struct symbols *symbols;
	char hex[33];
	SHA2_CTX hash;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 / 3);
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	memcpy(input, bytes, 4096);
	memcpy(input + 4096, bytes + 5000 - 4096, 4096);
	input[8192 + 6] = 5000 >> 8;
	input[8192 + 7] = 5000 & 255;
	SHA256Init(&hash);
	SHA256Update(&hash, input, sizeof(input));
	SHA256Final(digest, &hash);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	symbols = index_fd(fd);
	ids = symbols_get_ids(symbols);
	cr_assert_str_eq(ids->htlhash, hex);
	cr_assert_str_eq(ids->gnu_build_id, "");
	cr_assert_str_eq(ids->go_build_id, "");
	symbols_free(symbols);

	/* A short file is both head and tail. The expected value is that of: printf
	 * 'xx\0\0\0\0\0\0\0\1' | sha256sum */
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(pwrite(fd, "x", 1, 0), 1);
	symbols = index_fd(fd);
	cr_assert_str_eq(symbols_get_ids(symbols)->htlhash, "8584608cf9ee5e47d9ff877f0339cce1");
	symbols_free(symbols);
}

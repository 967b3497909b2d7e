/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbols.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <link.h>
#include <sha2.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/cleanup.h"

#define CAP (64u << 20)

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s: %m", path);
	return fd;
}

static struct symbols *index_fd(int fd)
{
	struct symbols *symbols = NULL;

	cr_assert_eq(symbols_new(fd, CAP, &symbols), 0);
	cr_assert_not_null(symbols);
	return symbols;
}

/* --- the truth according to libelf --- */

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

/* libstdc++'s, which prints parameters and return types too. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* Is it a demangling of `raw`, C++'s parameters left out? Rust's few names are compared one by one
 * below. */
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
	/* At the start, or behind the return type; up to the parameters, or the end. */
	for (at = full; (at = memmem(at, strlen(at), name, length)); at++) {
		if ((at == full || at[-1] == ' ') && (at[length] == '\0' || at[length] == '('))
			return true;
	}
	return false;
}

/* The names that could be meant at `vaddr`: of the function that starts last among those that
 * contain it. */
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

Test(symbols, every_function_of_a_c_plus_plus_program)
{
	_cleanup_close_ int fd = open_file(FIXTURE);

	check_every_function(fd, SHT_SYMTAB);
}

/* The unwind tables know the same starts as the symbols, except for parts of functions that the
 * compiler moved elsewhere, which are functions of their own for both. */
Test(symbols, start_of_every_function_without_its_symbol)
{
	_cleanup_close_ int fd = open_file(FIXTURE);
	struct symbols *symbols = index_fd(fd);
	struct truth truth = {0};

	truth_read(&truth, fd, SHT_SYMTAB);
	for (size_t i = 0; i < truth.count; i++) {
		const GElf_Sym *f = &truth.functions[i];
		uint64_t offset = 0, first = 0, last = 0;

		cr_assert(truth_offset(&truth, f->st_value, &offset));
		/* What the linker's startup files contain has no unwind table. */
		if (!symbols_find_start(symbols, offset, &first))
			continue;
		cr_expect_eq(first, f->st_value, "%s", truth.names[i]);
		cr_expect(symbols_find_start(symbols, offset + f->st_size - 1, &last));
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

Test(symbols, every_function_of_libc)
{
	_cleanup_close_ int fd = open_libc();

	check_every_function(fd, SHT_DYNSYM);
}

/* --- chosen names --- */

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

Test(symbols, names_as_people_know_them)
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

/* Every PLT slot: libelf says which function a slot's relocation is for, and some PLT entry must
 * have that name. */
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

Test(symbols, plt)
{
	check_plt(FIXTURE);
}

Test(symbols, plt_with_endbr)
{
	check_plt(FIXTURE_IBT);
}

Test(symbols, identities)
{
	/* See OpenTelemetry, process.executable.build_id.htlhash. */
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

	/* A short file is both its head and its tail; known value: printf 'xx\0\0\0\0\0\0\0\1' |
	 * sha256sum */
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(pwrite(fd, "x", 1, 0), 1);
	symbols = index_fd(fd);
	cr_assert_str_eq(symbols_get_ids(symbols)->htlhash, "8584608cf9ee5e47d9ff877f0339cce1");
	symbols_free(symbols);
}

/* --- made-up files --- */

struct made {
	Elf64_Ehdr header;
	Elf64_Phdr load;
	Elf64_Shdr sections[5]; /* null, .text, .symtab, .strtab, .shstrtab */
	char section_names[40];
	char strings[256];
	Elf64_Sym table[24];
	uint8_t code[0x1000];
};

#define BASE 0x400000ull
#define CODE(offset) (BASE + offsetof(struct made, code) + (offset))

static void made_init(struct made *made)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

	*made = (struct made){
	    .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		       .e_type = ET_EXEC,
		       .e_machine = EM_AARCH64,
		       .e_version = 1,
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phoff = offsetof(struct made, load),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1,
		       .e_shoff = offsetof(struct made, sections),
		       .e_shentsize = sizeof(Elf64_Shdr),
		       .e_shnum = 5,
		       .e_shstrndx = 4},
	    .load = {.p_type = PT_LOAD,
		     .p_flags = PF_R | PF_X,
		     .p_vaddr = BASE,
		     .p_filesz = sizeof(*made),
		     .p_memsz = sizeof(*made),
		     .p_align = 0x1000},
	    .sections = {{0},
			 {.sh_name = 1,
			  .sh_type = SHT_PROGBITS,
			  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			  .sh_addr = CODE(0),
			  .sh_offset = offsetof(struct made, code),
			  .sh_size = 0x1000},
			 {.sh_name = 7,
			  .sh_type = SHT_SYMTAB,
			  .sh_offset = offsetof(struct made, table),
			  .sh_size = sizeof(made->table),
			  .sh_link = 3,
			  .sh_entsize = 24},
			 {.sh_name = 15,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct made, strings),
			  .sh_size = sizeof(made->strings)},
			 {.sh_name = 23,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct made, section_names),
			  .sh_size = sizeof(made->section_names)}},
	};
	memcpy(made->section_names, names, sizeof(names));
}

/* The next free symbol. */
static Elf64_Sym *made_add(struct made *made, const char *name, unsigned int bind,
			   unsigned int type, uint64_t offset, uint64_t size)
{
	size_t at = 1;
	unsigned int i = 1;

	while (made->strings[at])
		at += strlen(made->strings + at) + 1;
	while (made->table[i].st_name)
		i++;
	cr_assert_lt(i, 24);
	cr_assert_lt(at + strlen(name) + 1, sizeof(made->strings));
	memcpy(made->strings + at, name, strlen(name) + 1);
	made->table[i] = (Elf64_Sym){.st_name = (uint32_t)at,
				     .st_shndx = 1,
				     .st_info = (uint8_t)ELF64_ST_INFO(bind, type),
				     .st_value = CODE(offset),
				     .st_size = size};
	return &made->table[i];
}

static int made_fd(const void *made, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, made, size), (ssize_t)size);
	return fd;
}

static void check_code(const struct symbols *symbols, uint64_t offset, const char *expected)
{
	struct symbol found = {.name = "untouched"};
	bool ok = symbols_find(symbols, offsetof(struct made, code) + offset, &found);

	cr_assert_eq(ok, expected != NULL, "%#llx: %s", (unsigned long long)offset, found.name);
	cr_assert_str_eq(found.name, expected ? expected : "untouched");
}

Test(symbols, duplicates_and_overlaps)
{
	struct made made;
	struct symbols *symbols;

	made_init(&made);
	made_add(&made, "$x", STB_LOCAL, STT_NOTYPE, 0x100, 0);
	made_add(&made, "local", STB_LOCAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "weak", STB_WEAK, STT_FUNC, 0x100, 0x40);
	made_add(&made, "__global", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "global", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "globally", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
	made_add(&made, "g", STB_GLOBAL, STT_FUNC, 0x100, 0);
	made_add(&made, "$d", STB_LOCAL, STT_NOTYPE, 0x120, 0);
	made_add(&made, "loop", STB_LOCAL, STT_NOTYPE, 0x130, 0);
	made_add(&made, "inner", STB_LOCAL, STT_FUNC, 0x220, 0x10);
	made_add(&made, "outer", STB_LOCAL, STT_FUNC, 0x200, 0x100);
	made_add(&made, "object", STB_GLOBAL, STT_OBJECT, 0x210, 0x10);
	made_add(&made, "assembly", STB_GLOBAL, STT_NOTYPE, 0x400, 0);
	made_add(&made, "undefined", STB_GLOBAL, STT_FUNC, 0x500, 0)->st_shndx = SHN_UNDEF;
	made_add(&made, "tls", STB_GLOBAL, STT_TLS, 0x500, 0x10);
	made_add(&made, "outside", STB_GLOBAL, STT_FUNC, 0x1000, 0x10);
	made_add(&made, "absolute", STB_GLOBAL, STT_NOTYPE, 0x600, 0)->st_shndx = SHN_ABS;
	made_add(&made, "huge", STB_GLOBAL, STT_FUNC, 0x800, UINT64_MAX);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 0, NULL);
	check_code(symbols, 0xff, NULL);
	check_code(symbols, 0x100, "global");
	check_code(symbols, 0x13f, "global");
	check_code(symbols, 0x140, NULL);
	check_code(symbols, 0x210, "outer");
	check_code(symbols, 0x220, "inner");
	check_code(symbols, 0x230, "outer");
	check_code(symbols, 0x2ff, "outer");
	check_code(symbols, 0x300, NULL);
	check_code(symbols, 0x400, "assembly");
	check_code(symbols, 0x7ff, "assembly");
	check_code(symbols, 0xfff, "huge");
	check_code(symbols, 0x1000, NULL);
	check_code(symbols, UINT64_MAX - offsetof(struct made, code), NULL);
	symbols_free(symbols);
}

Test(symbols, the_last_label_has_an_end)
{
	struct made made;
	struct symbols *symbols;

	made_init(&made);
	made_add(&made, "first", STB_GLOBAL, STT_FUNC, 0x100, 0);
	made_add(&made, "last", STB_GLOBAL, STT_FUNC, 0x800, 0);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 0x7ff, "first");
	check_code(symbols, 0x8ff, "last");
	check_code(symbols, 0x900, NULL);
	symbols_free(symbols);
}

Test(symbols, caps)
{
	_cleanup_close_ int fd = open_file(FIXTURE);
	struct symbols *symbols = index_fd(fd), *other = NULL;
	size_t bytes = symbols_bytes(symbols);

	symbols_free(symbols);
	cr_assert_eq(symbols_new(fd, 0, &other), -EFBIG);
	cr_assert_eq(symbols_new(fd, bytes - 12, &other), -EFBIG);
	cr_assert_null(other);
	cr_assert_eq(symbols_new(-1, CAP, &other), -EIO);
	cr_assert_null(other);
	symbols_free(NULL);
}

/* A table of petabytes in a file of 64 GiB of nothing. */
Test(symbols, sparse_file)
{
	struct symbols *symbols = NULL;
	struct made made;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	made.sections[2].sh_size = UINT64_MAX / 24 * 24;
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	cr_assert_eq(ftruncate(fd, 64ll << 30), 0);
	cr_assert_eq(symbols_new(fd, CAP, &symbols), -EFBIG);
}

Test(symbols, no_elf)
{
	_cleanup_close_ int empty = made_fd("", 0), text = made_fd("#!/bin/sh\n", 10);
	struct symbols *symbols = index_fd(empty);
	struct symbol found;
	uint64_t vaddr;

	cr_assert_not(symbols_find(symbols, 0, &found));
	cr_assert_not(symbols_offset_to_vaddr(symbols, 0, &vaddr));
	symbols_free(symbols);
	symbols = index_fd(text);
	cr_assert_not(symbols_find(symbols, 0, &found));
	symbols_free(symbols);
}

Test(symbols, truncated_meanwhile)
{
	struct made made;
	struct symbols *symbols;
	uint64_t vaddr;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	_cleanup_close_ int fd = made_fd(&made, sizeof(made));
	symbols = index_fd(fd);
	check_code(symbols, 4, "f");
	cr_assert_eq(ftruncate(fd, offsetof(struct made, strings) + 2), 0);
	check_code(symbols, 4, NULL);
	cr_assert(symbols_offset_to_vaddr(symbols, offsetof(struct made, code), &vaddr));
	cr_assert_eq(vaddr, CODE(0));
	symbols_free(symbols);
}

static void look_everywhere(const struct symbols *symbols, size_t size)
{
	struct symbol found;

	for (size_t at = 0; at < size + 100; at += size / 300 + 1)
		symbols_find(symbols, at, &found);
}

Test(symbols, forged_fields)
{
	static const uint64_t values[] = {0,
					  1,
					  2,
					  23,
					  25,
					  0x7f,
					  0xff00,
					  0xffffffff,
					  1ull << 40,
					  INT64_MAX,
					  (uint64_t)INT64_MIN,
					  UINT64_MAX};
	struct made made;

	made_init(&made);
	made_add(&made, "f", STB_GLOBAL, STT_FUNC, 0, 0x10);
	made_add(&made, "g", STB_GLOBAL, STT_NOTYPE, 0x20, 0);
	/* Each aligned 2, 4 and 8 bytes of the headers and of the symbols. */
	for (size_t at = 16; at < offsetof(struct made, code); at += 2) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			for (size_t width = 2; width <= 8; width *= 2) {
				struct made forged = made;
				struct symbols *symbols = NULL;

				if (at % width || (at > offsetof(struct made, table) + 72 && i > 1))
					continue;
				memcpy((char *)&forged + at, &values[i], width);
				_cleanup_close_ int fd = made_fd(&forged, sizeof(forged));
				int r = symbols_new(fd, CAP, &symbols);
				cr_assert(r == 0 || r == -EFBIG || r == -EIO, "%d", r);
				if (r == 0)
					look_everywhere(symbols, 64);
				symbols_free(symbols);
			}
		}
	}
}

Test(symbols, truncated_anywhere)
{
	_cleanup_close_ int file = open_file(FIXTURE);
	struct stat stat;

	fstat(file, &stat);
	_cleanup_free_ char *bytes = malloc((size_t)stat.st_size);
	cr_assert_eq(pread(file, bytes, (size_t)stat.st_size, 0), stat.st_size);
	for (off_t length = 0; length < stat.st_size; length += stat.st_size / 200 + 1) {
		_cleanup_close_ int fd = made_fd(bytes, (size_t)length);
		struct symbols *symbols = index_fd(fd);

		look_everywhere(symbols, (size_t)stat.st_size);
		symbols_free(symbols);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The section .gnu_debuglink, in the place of the .bss of a small file. */
#include "elf_fixture.h"
#include "parse/debug_link.h"

#define NAME ".gnu_debuglink"

enum {
	NAME_AT = sizeof(SECTION_NAMES_TEXT),
};

static struct file file;
static struct debug_link link = {.name = "untouched"};

/* Gives the file a section with these bytes, in the place of its compressed section. */
static void set_section(const void *bytes, size_t length)
{
	file = file_make();
	memcpy(file.names + NAME_AT, NAME, sizeof(NAME));
	file.sections[SECTION_NAMES].sh_size = NAME_AT + sizeof(NAME);
	file.sections[SECTION_BSS] = (Elf64_Shdr){.sh_name = NAME_AT,
						  .sh_type = SHT_PROGBITS,
						  .sh_offset = offsetof(struct file, packed),
						  .sh_size = length};
	cr_assert_leq(length, offsetof(struct file, sections) - offsetof(struct file, packed));
	memcpy((uint8_t *)&file + offsetof(struct file, packed), bytes,
	       length < 0x100 ? length : 0x100);
}

static int read_link(void)
{
	struct elf_buffer buffer = {&file, sizeof(file)};
	struct elf_image image;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	const int r = debug_link_read(&image, &link);
	elf_image_fini(&image);
	return r;
}

Test(debug_link, has_a_name_and_a_checksum)
{
	static const struct {
		const char *bytes;
		size_t length;
		const char *name;
	} cases[] = {{"x.debug\0\x78\x56\x34\x12", 12, "x.debug"},
		     {"xy.debug\0\0\0\0\x78\x56\x34\x12", 16, "xy.debug"},
		     {"xyz.debug\0\0\0\x78\x56\x34\x12", 16, "xyz.debug"},
		     {"x\0\0\0\x78\x56\x34\x12more", 12, "x"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_section(cases[i].bytes, cases[i].length);
		cr_assert_eq(read_link(), 0, "%zu", i);
		cr_expect_str_eq(link.name, cases[i].name);
		cr_expect_eq(link.crc, 0x12345678);
	}
}

Test(debug_link, that_is_cut_off_is_none)
{
	static const char whole[] = "xy.debug\0\0\0\0\x78\x56\x34\x12";

	for (size_t length = 0; length < 16; length++) {
		set_section(whole, length);
		cr_expect_eq(read_link(), -ENOENT, "%zu", length);
	}
	cr_expect_str_eq(link.name, "untouched");
	set_section(whole, 16);
	cr_expect_eq(read_link(), 0);
}

Test(debug_link, without_a_name_is_none)
{
	set_section("\0\0\0\0\x78\x56\x34\x12", 8);
	cr_expect_eq(read_link(), -ENOENT);
	file = file_make();
	cr_expect_eq(read_link(), -ENOENT);
	cr_expect_str_eq(link.name, "untouched");
}

Test(debug_link, that_is_too_long_is_none)
{
	char bytes[0x100];

	/* It fits: a name of 251 bytes and a NUL. */
	memset(bytes, 'x', sizeof(bytes));
	memset(bytes + 251, 0, 5);
	set_section(bytes, sizeof(bytes));
	cr_expect_eq(read_link(), 0);
	cr_expect_eq(strlen(link.name), 251);
	memset(bytes, 'x', sizeof(bytes));
	set_section(bytes, sizeof(bytes));
	cr_expect_eq(read_link(), -ENOENT);
	/* Names of other sections follow. */
	file.sections[SECTION_BSS].sh_size = DEBUG_LINK_NAME_BYTES + 4;
	cr_expect_eq(read_link(), -ENOENT);
	file.sections[SECTION_BSS].sh_size = DEBUG_LINK_NAME_BYTES + 5;
	cr_expect_eq(read_link(), -ENOENT);
	file.sections[SECTION_BSS].sh_size = UINT64_MAX;
	cr_expect_eq(read_link(), -ENOENT);
}

/* A section may claim to be anywhere, of any kind. */
Test(debug_link, of_a_section_that_is_not_there_is_none)
{
	set_section("x\0\0\0\x78\x56\x34\x12", 8);
	file.sections[SECTION_BSS].sh_offset = sizeof(file) - 4;
	cr_expect_eq(read_link(), -ENOENT);
	file.sections[SECTION_BSS].sh_offset = UINT64_MAX;
	cr_expect_eq(read_link(), -ENOENT);
	set_section("x\0\0\0\x78\x56\x34\x12", 8);
	file.sections[SECTION_BSS].sh_type = SHT_NOBITS;
	cr_expect_eq(read_link(), -ENOENT);
	file.sections[SECTION_BSS].sh_type = SHT_PROGBITS;
	file.sections[SECTION_BSS].sh_flags = SHF_COMPRESSED;
	cr_expect_eq(read_link(), -ENOENT);
}

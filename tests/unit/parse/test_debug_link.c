/* SPDX-License-Identifier: Apache-2.0 */
/* The sections .gnu_debuglink, .gnu_debugaltlink and .debug_sup, in the place of the .bss of a
 * small file. */
#include "elf_fixture.h"
#include "parse/debug_link.h"

enum {
	NAME_AT = sizeof(SECTION_NAMES_TEXT),
};

static struct file file;
static struct debug_link link = {.name = "untouched"};

/* Gives the file a section with these bytes, in the place of its compressed section. */
static void set_named_section(const char *name, const void *bytes, size_t length)
{
	file = file_make();
	memcpy(file.names + NAME_AT, name, strlen(name) + 1);
	file.sections[SECTION_NAMES].sh_size = NAME_AT + strlen(name) + 1;
	file.sections[SECTION_BSS] = (Elf64_Shdr){.sh_name = NAME_AT,
						  .sh_type = SHT_PROGBITS,
						  .sh_offset = offsetof(struct file, packed),
						  .sh_size = length};
	cr_assert_leq(length, offsetof(struct file, sections) - offsetof(struct file, packed));
	memcpy((uint8_t *)&file + offsetof(struct file, packed), bytes,
	       length < 0x100 ? length : 0x100);
}

static void set_section(const void *bytes, size_t length)
{
	set_named_section(".gnu_debuglink", bytes, length);
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

/* --- alternate files --- */

#define ALTERNATE ".gnu_debugaltlink"
#define SUPPLEMENTARY ".debug_sup"

static struct debug_alternate alternate = {.name = "untouched"};

static int read_alternate(const char *section, const void *bytes, size_t length)
{
	struct elf_buffer buffer = {&file, sizeof(file)};
	struct elf_image image;

	set_named_section(section, bytes, length);
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	const int r = debug_alternate_read(&image, &alternate);
	elf_image_fini(&image);
	return r;
}

Test(debug_alternate, has_a_name_and_a_build_id)
{
	static const struct {
		const char *section, *bytes;
		size_t length;
		const char *name;
		unsigned int id_length;
	} cases[] = {
	    {ALTERNATE, "x.debug\0\x12\x34\x56", 11, "x.debug", 3},
	    {ALTERNATE, "/usr/lib/debug/.dwz/x\0\x12\x34", 24, "x", 2},
	    {ALTERNATE, "../../x.debug\0\x12", 15, "x.debug", 1},
	    {ALTERNATE, "no name/\0\x12\x34", 11, "", 2},
	    {SUPPLEMENTARY, "\5\0\0a/x.debug\0\2\x12\x34", 16, "x.debug", 2},
	    {SUPPLEMENTARY, "\5\0\0x\0\2\x12\x34more", 12, "x", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(read_alternate(cases[i].section, cases[i].bytes, cases[i].length), 0,
			     "%zu", i);
		cr_expect_str_eq(alternate.name, cases[i].name, "%zu", i);
		cr_expect_eq(alternate.build_id_length, cases[i].id_length, "%zu", i);
		cr_expect_eq(memcmp(alternate.build_id, "\x12\x34\x56", cases[i].id_length), 0);
	}
}

Test(debug_alternate, that_is_malformed_is_none)
{
	static const struct {
		const char *section, *bytes;
		size_t length;
	} cases[] = {
	    {ALTERNATE, "x.debug", 7},	 /* no NUL */
	    {ALTERNATE, "x.debug\0", 8}, /* no build id */
	    {ALTERNATE,
	     "x\0"
	     "123456789012345678901",
	     23},				       /* 21 bytes */
	    {SUPPLEMENTARY, "\4\0\0x\0\1\x12", 7},     /* another version */
	    {SUPPLEMENTARY, "\5\0\1x\0\1\x12", 7},     /* in the alternate file itself */
	    {SUPPLEMENTARY, "\5\0\0x\0\3\x12\x34", 8}, /* too short */
	    {SUPPLEMENTARY, "\5\0\0x\0\0", 6},	       /* no build id */
	    {SUPPLEMENTARY, "\5\0\0x\0\xff\xff\xff\xff\x7f\x12", 11}, /* endless */
	    {SUPPLEMENTARY, "\5\0", 2},
	    {".debug_other", "x.debug\0\x12", 9},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(read_alternate(cases[i].section, cases[i].bytes, cases[i].length),
			     -ENOENT, "%zu", i);
	cr_expect_str_eq(alternate.name, "untouched");
}

Test(debug_alternate, may_have_a_long_name)
{
	char bytes[0x100];

	memset(bytes, 'x', sizeof(bytes));
	bytes[251] = 0;
	cr_expect_eq(read_alternate(ALTERNATE, bytes, sizeof(bytes)), 0);
	cr_expect_eq(strlen(alternate.name), 251);
	cr_expect_eq(alternate.build_id_length, 4);
}

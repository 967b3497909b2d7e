/* SPDX-License-Identifier: Apache-2.0 */
/* ELF images of generated code: an object file with debug information, as a JIT compiler leaves it in memory, and broken ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "parse/jit_image.h"
#include "symbolizer/namer/namer.h"
#include "tests/support/jit_image_object.h"

#define CODE 0x7f1200001000ull

enum {
	CAP = 1 << 20,
};

static char *object;
static size_t length;
static struct elf_buffer buffer;
static struct elf_source source;
static struct jit_image image;
static struct named_frames frames;

/* The object file with its code at an address. */
static void prepare(uint64_t code)
{
	length = (size_t)(jit_object_end - jit_object);
	object = jit_copy(jit_object, jit_object_end, (void *)(uintptr_t)code);
	buffer = (struct elf_buffer){object, length};
	source = elf_source_from_buffer(&buffer);
}

static void release(void)
{
	jit_image_fini(&image);
	free(object);
}

static Elf64_Shdr *section(uint32_t type)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)object;
	Elf64_Shdr *sections = (Elf64_Shdr *)(object + elf->e_shoff);
	unsigned int i = 0;

	while (i < elf->e_shnum && sections[i].sh_type != type)
		i++;
	cr_assert(i < elf->e_shnum);
	return &sections[i];
}

static uint64_t entry(void)
{
	return CODE + jit_entry_offset(object);
}

/* Names an address by the debug information of the image. */
static int name(uint64_t address)
{
	const struct namer_sources sources = {.file = &image.elf.source};
	struct namer namer = {0};

	cr_assert_eq(namer_open(&namer, &image.elf), 0);
	const int r = namer_name(&namer, &sources, address, &frames);
	namer_close(&namer);
	return r;
}

Test(jit_image, code_is_where_the_headers_say)
{
	struct jit_image_code code;

	prepare(CODE);
	cr_assert_eq(jit_image_find_code(&source, 0, &code), 0);
	cr_expect_eq(code.start, CODE);
	cr_expect_eq(code.end, CODE + jit_text(object)->sh_size);
	free(object);
}

Test(jit_image, code_is_where_the_image_is)
{
	struct jit_image_code code;
	uint64_t base = CODE;

	prepare(0);
	cr_expect_eq(jit_image_find_code(&source, 0, &code), -ENOENT);
	cr_assert_eq(jit_image_find_code(&source, base, &code), 0);
	cr_expect_eq(code.start, base + jit_text(object)->sh_offset);
	cr_assert_eq(jit_image_init(&image, &source, base, CAP), 0);
	cr_expect_str_eq(jit_image_find_name(&image, code.start + jit_entry_offset(object)), "outer");
	cr_expect(jit_image_is_same(&image, &source));
	release();
}

Test(jit_image, symbols_are_relative_to_their_section)
{
	prepare(CODE);
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_expect_str_eq(jit_image_find_name(&image, CODE), "inner");
	cr_expect_str_eq(jit_image_find_name(&image, entry()), "outer");
	cr_expect_str_eq(jit_image_find_name(&image, entry() + 4), "outer");
	cr_expect_null(jit_image_find_name(&image, CODE - 1));
	cr_expect_null(jit_image_find_name(&image, CODE + jit_text(object)->sh_size));
	cr_expect_null(jit_image_find_name(&image, jit_entry_offset(object)));
	cr_expect_lt(jit_image_bytes(&image), length + sizeof(image) + 64 * sizeof(struct elf_section));
	release();
}

/* Without them, the unit would have no addresses, and each name would be the first string. */
Test(jit_image, relocations_of_debug_information_are_applied)
{
	prepare(CODE);
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_assert_eq(name(CODE + 4), 0);
	cr_expect_eq(frames.count, 2);
	cr_expect_str_eq(frames.frames[0].function, "spin");
	cr_expect_str_eq(frames.frames[1].function, "inner");
	cr_expect(strstr(frames.frames[1].file, "jit_image_code.c"));
	cr_expect_gt(frames.frames[1].line, frames.frames[0].line);
	cr_assert_eq(name(entry() + 4), 0);
	cr_expect_str_eq(frames.frames[0].function, "outer");
	release();
}

Test(jit_image, a_copy_does_not_change_with_the_image)
{
	prepare(CODE);
	const uint64_t address = entry();
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	memset(object, 0, length);
	cr_expect_str_eq(jit_image_find_name(&image, address), "outer");
	cr_expect_not(jit_image_is_same(&image, &source));
	release();
}

Test(jit_image, another_image_at_its_place_is_noticed)
{
	prepare(CODE);
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_expect(jit_image_is_same(&image, &source));
	jit_text(object)->sh_addr += 16;
	cr_expect_not(jit_image_is_same(&image, &source));
	jit_text(object)->sh_addr -= 16;
	char *found = memmem(object + section(SHT_STRTAB)->sh_offset, section(SHT_STRTAB)->sh_size, "outer", sizeof("outer"));
	cr_assert(found);
	found[0] = 'O';
	cr_expect_not(jit_image_is_same(&image, &source));
	release();
}

Test(jit_image, limit_of_the_copy)
{
	prepare(CODE);
	cr_expect_eq(jit_image_init(&image, &source, 0, 1000), -EFBIG);
	section(SHT_SYMTAB)->sh_size = UINT64_MAX;
	cr_expect_eq(jit_image_init(&image, &source, 0, CAP), -EFBIG);
	section(SHT_SYMTAB)->sh_size = CAP - 1;
	cr_expect_lt(jit_image_init(&image, &source, 0, CAP), 0);
	free(object);
}

Test(jit_image, broken_tables_have_no_names)
{
	prepare(CODE);
	section(SHT_SYMTAB)->sh_link = UINT32_MAX;
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_expect_null(jit_image_find_name(&image, entry()));
	release();
	/* Names after the end of their table. */
	prepare(CODE);
	Elf64_Shdr *symbols = section(SHT_SYMTAB);
	Elf64_Sym *table = (Elf64_Sym *)(object + symbols->sh_offset);
	for (size_t i = 0; i < symbols->sh_size / sizeof(*table); i++)
		table[i].st_name = UINT32_MAX - 1;
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_expect_null(jit_image_find_name(&image, entry()));
	release();
}

Test(jit_image, relocations_that_lead_out_do_nothing)
{
	prepare(CODE);
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)object;
	Elf64_Shdr *sections = (Elf64_Shdr *)(object + elf->e_shoff);

	for (unsigned int i = 0; i < elf->e_shnum; i++) {
		Elf64_Rela *table = (Elf64_Rela *)(object + sections[i].sh_offset);

		for (size_t j = 0; sections[i].sh_type == SHT_RELA && j < sections[i].sh_size / sizeof(*table); j++) {
			if (j % 3 == 0)
				table[j].r_offset = sections[sections[i].sh_info].sh_size - (j % 2 ? 0 : 1);
			else if (j % 3 == 1)
				table[j].r_offset = UINT64_MAX - 2;
			else
				table[j].r_info = ELF64_R_INFO(UINT32_MAX, ELF64_R_TYPE(table[j].r_info));
		}
	}
	cr_assert_eq(jit_image_init(&image, &source, 0, CAP), 0);
	cr_expect_str_eq(jit_image_find_name(&image, entry()), "outer");
	release();
}

Test(jit_image, truncated_images_are_refused)
{
	prepare(CODE);
	for (size_t i = 0; i < length; i += 7) {
		buffer.length = i;
		source = elf_source_from_buffer(&buffer);
		if (jit_image_init(&image, &source, 0, CAP) == 0) {
			jit_image_find_name(&image, entry());
			jit_image_fini(&image);
		}
	}
	free(object);
}

Test(jit_image, size_of_an_image_that_is_mapped)
{
	uint8_t header[JIT_IMAGE_HEADER_BYTES];

	prepare(CODE);
	memcpy(header, object, sizeof(header));
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)object;
	cr_expect_eq(jit_image_size(header), elf->e_shoff + elf->e_shnum * sizeof(Elf64_Shdr));
	header[0] = 0;
	cr_expect_eq(jit_image_size(header), 0);
	memcpy(header, object, sizeof(header));
	memset(header + offsetof(Elf64_Ehdr, e_shoff), 0xff, 8);
	cr_expect_eq(jit_image_size(header), 0);
	free(object);
}

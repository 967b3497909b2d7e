/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_fixture.h"

#include <zlib.h>

#include "tests/support/elf_header.h"

static void file_pack(struct file *f)
{
	uint8_t plain[INFLATED];
	uLongf length = sizeof(f->stream);

	memset(plain, 'x', sizeof(plain));
	cr_assert_eq(compress(f->stream, &length, plain, sizeof(plain)), Z_OK);
	f->packed =
	    (Elf64_Chdr){.ch_type = ELFCOMPRESS_ZLIB, .ch_size = INFLATED, .ch_addralign = 1};
	f->sections[SECTION_DEBUG] = (Elf64_Shdr){.sh_name = NAME_DEBUG,
						  .sh_type = SHT_PROGBITS,
						  .sh_flags = SHF_COMPRESSED,
						  .sh_offset = offsetof(struct file, packed),
						  .sh_size = sizeof(f->packed) + length};
}

struct file file_make(void)
{
	struct file f = {
	    .header = ELF_HEADER(.e_type = ET_DYN, .e_machine = EM_X86_64, .e_entry = 0x1140,
				 .e_phoff = offsetof(struct file, segments),
				 .e_shoff = offsetof(struct file, sections), .e_phnum = 3,
				 .e_shnum = SECTIONS, .e_shstrndx = SECTION_NAMES),
	    .segments = {{.p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_offset = 0x100,
			  .p_vaddr = 0x1100,
			  .p_filesz = 0x80,
			  .p_memsz = 0x200},
			 {.p_type = PT_NOTE,
			  .p_offset = offsetof(struct file, note),
			  .p_filesz = 56,
			  .p_align = 4},
			 {.p_type = PT_GNU_EH_FRAME, .p_vaddr = 0x1150, .p_filesz = 0x10}},
	    .note = {.other = {4, 1, 77},
		     .other_name = "Abc",
		     .note = {4, 20, NT_GNU_BUILD_ID},
		     .name = "GNU",
		     .id = {1, 2, 3, [19] = 20}},
	    .text = {0xc3, 0xcc},
	};
	memcpy(f.names, SECTION_NAMES_TEXT, sizeof(SECTION_NAMES_TEXT));
	f.sections[SECTION_TEXT] = (Elf64_Shdr){.sh_name = NAME_TEXT,
						.sh_type = SHT_PROGBITS,
						.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
						.sh_addr = 0x1140,
						.sh_offset = offsetof(struct file, text),
						.sh_size = sizeof(f.text)};
	f.sections[SECTION_BSS] =
	    (Elf64_Shdr){.sh_name = NAME_BSS, .sh_type = SHT_NOBITS, .sh_size = 0x1000};
	f.sections[SECTION_NAMES] = (Elf64_Shdr){.sh_name = NAME_NAMES,
						 .sh_type = SHT_STRTAB,
						 .sh_offset = offsetof(struct file, names),
						 .sh_size = sizeof(SECTION_NAMES_TEXT)};
	file_pack(&f);
	return f;
}

int init_bytes(struct elf_image *image, struct elf_buffer *buffer)
{
	struct elf_source source = elf_source_from_buffer(buffer);

	return elf_image_init(image, &source);
}

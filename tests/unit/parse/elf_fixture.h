/* SPDX-License-Identifier: Apache-2.0 */
/* A small ELF file that the tests of elf_image.h read and change. */
#ifndef TESTS_ELF_FIXTURE_H
#define TESTS_ELF_FIXTURE_H

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "parse/elf_image.h"

/*
 * The file under test is a small shared object with this layout:
 *
 *	0x000  ELF header
 *	0x040  three program headers (load, note, eh_frame_hdr)
 *	0x100  the note
 *	0x140  "text" of 64 bytes
 *	0x200  a compressed section
 *	0x300  names
 *	0x400  section headers
 */
enum {
	NAME_TEXT = 1,
	NAME_BSS = 7,
	NAME_DEBUG = 12,
	NAME_NAMES = 23
};
enum {
	SECTION_TEXT = 1,
	SECTION_BSS,
	SECTION_DEBUG,
	SECTION_NAMES,
	SECTIONS
};
enum {
	INFLATED = 3000
};

struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	uint8_t pad[0x100 - 0x40 - 3 * 0x38];
	struct {
		Elf64_Nhdr other;
		char other_name[4];
		uint8_t other_bytes[4]; /* one byte, three of padding */
		Elf64_Nhdr note;
		char name[4];
		uint8_t id[20];
		uint8_t pad[0x40 - 56];
	} note;
	uint8_t text[0x40];
	uint8_t pad2[0x80];
	Elf64_Chdr packed;
	uint8_t stream[0x100 - sizeof(Elf64_Chdr)];
	char names[0x100];
	Elf64_Shdr sections[SECTIONS];
};

/* The names of its sections, in the form of a string table. */
#define SECTION_NAMES_TEXT "\0.text\0.bss\0.debug_str\0.shstrtab"

/* A valid file. */
struct file file_make(void);

/* Reads the file in a buffer. Returns what elf_image_init() returns. */
int init_bytes(struct elf_image *image, struct elf_buffer *buffer);

#endif

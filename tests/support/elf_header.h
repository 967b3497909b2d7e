/* SPDX-License-Identifier: Apache-2.0 */
/* The header of an ELF file that a test makes. */
#ifndef TESTS_ELF_HEADER_H
#define TESTS_ELF_HEADER_H

#include <elf.h>

/* Initialises an Elf64_Ehdr of a little-endian file, as far as all such files agree. The arguments
 * are the other fields: ELF_HEADER(.e_type = ET_DYN, .e_phnum = 1) */
#define ELF_HEADER(...) \
	{ \
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, \
		.e_version = EV_CURRENT, .e_ehsize = sizeof(Elf64_Ehdr), \
		.e_phentsize = sizeof(Elf64_Phdr), .e_shentsize = sizeof(Elf64_Shdr), __VA_ARGS__ \
	}

#endif

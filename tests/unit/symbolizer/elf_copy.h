/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of ELF files in memory, which tests change and give to parsers as files. */
#ifndef TESTS_ELF_COPY_H
#define TESTS_ELF_COPY_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct elf_copy {
	uint8_t *bytes;
	size_t size;
};

struct elf_copy elf_copy_load(const char *path);
void elf_copy_free(struct elf_copy *file);

/* Makes a file of the first `size` bytes. Returns its descriptor, which the caller closes. */
int elf_copy_make_fd(const struct elf_copy *file, size_t size);

Elf64_Ehdr elf_copy_header(const struct elf_copy *file);
Elf64_Phdr elf_copy_segment(const struct elf_copy *file, unsigned int index);
/* The section must be there. */
Elf64_Shdr elf_copy_section(const struct elf_copy *file, const char *name);

/* Gives a section another header. */
void elf_copy_set_section(struct elf_copy *file, const char *name, const Elf64_Shdr *section);

/* Returns a copy that has its headers at its start, so that they are there if it is cut off. */
struct elf_copy elf_copy_with_headers_first(const struct elf_copy *file);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/elf_copy.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"

void elf_copy_free(struct elf_copy *file)
{
	free(file->bytes);
}

struct elf_copy elf_copy_load(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_copy file;
	struct stat stat;

	cr_assert_geq(fd, 0, "%s: %m", path);
	cr_assert_eq(file_read_status(fd, &stat), 0);
	file.size = (size_t)stat.st_size;
	file.bytes = malloc(file.size);
	cr_assert_not_null(file.bytes);
	cr_assert_eq(file_read_exactly(fd, 0, file.bytes, file.size), 0);
	return file;
}

int elf_copy_make_fd(const struct elf_copy *file, size_t size)
{
	const int fd = memfd_create("copy", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, file->bytes, size), (ssize_t)size);
	return fd;
}

Elf64_Ehdr elf_copy_header(const struct elf_copy *file)
{
	Elf64_Ehdr header;

	memcpy(&header, file->bytes, sizeof(header));
	return header;
}

Elf64_Phdr elf_copy_segment(const struct elf_copy *file, unsigned int index)
{
	Elf64_Phdr segment;

	memcpy(&segment, file->bytes + elf_copy_header(file).e_phoff + index * sizeof(segment),
	       sizeof(segment));
	return segment;
}

static Elf64_Shdr section_at(const struct elf_copy *file, unsigned int index)
{
	Elf64_Shdr section;

	memcpy(&section, file->bytes + elf_copy_header(file).e_shoff + index * sizeof(section),
	       sizeof(section));
	return section;
}

static unsigned int find_section(const struct elf_copy *file, const char *name)
{
	const Elf64_Ehdr header = elf_copy_header(file);
	const Elf64_Shdr names = section_at(file, header.e_shstrndx);

	for (unsigned int i = 0; i < header.e_shnum; i++) {
		const char *at =
		    (const char *)file->bytes + names.sh_offset + section_at(file, i).sh_name;

		if (strcmp(at, name) == 0)
			return i;
	}
	cr_assert_fail("no section %s", name);
	return 0;
}

Elf64_Shdr elf_copy_section(const struct elf_copy *file, const char *name)
{
	return section_at(file, find_section(file, name));
}

void elf_copy_set_section(struct elf_copy *file, const char *name, const Elf64_Shdr *section)
{
	const size_t offset = find_section(file, name) * sizeof(*section);

	memcpy(file->bytes + elf_copy_header(file).e_shoff + offset, section, sizeof(*section));
}

struct elf_copy elf_copy_with_headers_first(const struct elf_copy *file)
{
	Elf64_Ehdr header = elf_copy_header(file);
	const size_t sections = sizeof(header) + header.e_phnum * sizeof(Elf64_Phdr),
		     end = sections + header.e_shnum * sizeof(Elf64_Shdr),
		     moved = (end + 4095) / 4096 * 4096;
	struct elf_copy copy = {calloc(1, moved + file->size), moved + file->size};

	cr_assert_not_null(copy.bytes);
	memcpy(copy.bytes + moved, file->bytes, file->size);
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment = elf_copy_segment(file, i);

		segment.p_offset += moved;
		memcpy(copy.bytes + sizeof(header) + i * sizeof(segment), &segment,
		       sizeof(segment));
	}
	for (unsigned int i = 0; i < header.e_shnum; i++) {
		Elf64_Shdr section = section_at(file, i);

		section.sh_offset += moved;
		memcpy(copy.bytes + sections + i * sizeof(section), &section, sizeof(section));
	}
	header.e_phoff = sizeof(header);
	header.e_shoff = sections;
	memcpy(copy.bytes, &header, sizeof(header));
	return copy;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file whose call frame information a test writes function by function, together with a
 * model of what it means: one row per change of the CFA, sorted by offset. Headers and tables are
 * in the first megabyte; the text after it is never read, so it may be of any size.
 */
#ifndef TESTS_UNIT_UNWINDER_MGR_MANUAL_ELF_H
#define TESTS_UNIT_UNWINDER_MGR_MANUAL_ELF_H

#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "parse/elf_image.h"
#include "tests/support/elf_header.h"

enum {
	META_BYTES = 1 << 20,
	TEXT = META_BYTES, /* file offset of the first text segment */
	SHIFT = 0x400000,  /* virtual address - file offset */
	EH_FRAME = 0x1000,
	DEBUG_FRAME = 0x80000,
	HEADERS_END = 0xf0000,
	FDES_MAX = 2000,
	ROWS_MAX = 64,
};

struct manual_elf {
	uint8_t meta[META_BYTES];
	size_t eh_length, debug_length;
	uint64_t size;
	struct {
		uint64_t offset, size;
	} text[2];
	unsigned int text_count;
	struct {
		uint64_t key; /* offset << 1, plus 1 unless it is the end of a function */
		int32_t cfa;
	} rows[FDES_MAX * (ROWS_MAX + 1)];
	unsigned int row_count;
};

static int manual_elf_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	const struct manual_elf *file = context;

	for (size_t i = 0; i < length; i++)
		((uint8_t *)buffer)[i] = offset + i < META_BYTES ? file->meta[offset + i] : 0;
	return 0;
}

static struct manual_elf *manual_elf_new(uint64_t text_bytes)
{
	struct manual_elf *file = calloc(1, sizeof(*file));

	file->text[0].offset = TEXT;
	file->text[0].size = text_bytes;
	file->text_count = 1;
	file->size = TEXT + text_bytes;
	return file;
}

struct manual_section {
	struct manual_elf *file;
	size_t base, *length;
};

static void put(struct manual_section p, const void *bytes, size_t length)
{
	cr_assert_leq(*p.length + length, 0x70000);
	memcpy(p.file->meta + p.base + *p.length, bytes, length);
	*p.length += length;
}

static void put_int(struct manual_section p, uint64_t value, size_t bytes)
{
	put(p, &value, bytes);
}

static struct manual_section eh_frame(struct manual_elf *file)
{
	return (struct manual_section){file, EH_FRAME, &file->eh_length};
}

static struct manual_section debug_frame(struct manual_elf *file)
{
	return (struct manual_section){file, DEBUG_FRAME, &file->debug_length};
}

/* Writes the one CIE at the start of each section: CFA = rsp + 8, return address at CFA - 8. */
static void put_cie(struct manual_section p)
{
	const bool eh = p.base == EH_FRAME;
	const uint8_t head_eh[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, head_debug[] = {1, 0, 1, 0x78, 16};
	const uint8_t code[] = {0x0c, 7, 8, 0x90, 1};
	const size_t head = eh ? sizeof(head_eh) : sizeof(head_debug);

	put_int(p, 4 + head + sizeof(code), 4);
	put_int(p, eh ? 0 : UINT32_MAX, 4);
	put(p, eh ? head_eh : head_debug, head);
	put(p, code, sizeof(code));
}

struct row {
	uint32_t at; /* from the function's start */
	int32_t cfa;
};

/* Describes a function at a file offset in the section, and in the model unless `model` is false. */
static void put_function(struct manual_section p, uint64_t offset, uint32_t bytes, const struct row *rows, unsigned int count, bool model)
{
	const size_t begin = *p.length;
	struct manual_elf *file = p.file;
	uint32_t at = 0;

	if (!begin)
		put_cie(p);
	const size_t entry = *p.length;
	put_int(p, 0, 4);
	if (p.base == EH_FRAME) {
		put_int(p, *p.length, 4);
		put_int(p, offset + SHIFT - (EH_FRAME + *p.length), 4);
		put_int(p, bytes, 4);
		put_int(p, 0, 1);
	} else {
		put_int(p, 0, 4);
		put_int(p, offset + SHIFT, 8);
		put_int(p, bytes, 8);
	}
	for (unsigned int i = 0; i < count; i++) {
		if (rows[i].at > at) {
			put_int(p, 0x04, 1);
			put_int(p, rows[i].at - at, 4);
			at = rows[i].at;
		}
		put_int(p, 0x0e, 1);
		put_int(p, (uint64_t)(rows[i].cfa | 0x80) & 0xff, 1);
		put_int(p, (uint64_t)rows[i].cfa >> 7, 1);
	}
	const uint32_t length = (uint32_t)(*p.length - entry - 4);
	memcpy(file->meta + p.base + entry, &length, 4);
	if (!model)
		return;
	for (unsigned int i = 0; i < count; i++) {
		file->rows[file->row_count].key = (offset + rows[i].at) << 1 | 1;
		file->rows[file->row_count++].cfa = rows[i].cfa;
	}
	file->rows[file->row_count].key = (offset + bytes) << 1;
	file->rows[file->row_count++].cfa = 0;
}

/* Writes a section header. */
static void put_section(struct manual_elf *file, unsigned int i, uint32_t name, uint32_t type, uint64_t offset, uint64_t size)
{
	const Elf64_Shdr header = {.sh_name = name, .sh_type = type, .sh_addr = type == SHT_STRTAB ? 0 : offset, .sh_offset = offset, .sh_size = size};

	memcpy(file->meta + HEADERS_END + i * sizeof(header), &header, sizeof(header));
}

/* Writes the headers. The file stays the caller's, and must outlive the source. */
static struct elf_source manual_elf_finish(struct manual_elf *file)
{
	static const char names[] = "\0.eh_frame\0.debug_frame\0.shstrtab";
	Elf64_Ehdr header =
	    ELF_HEADER(.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_phoff = sizeof(header),
		       .e_shoff = HEADERS_END, .e_phnum = (uint16_t)(1 + file->text_count),
		       .e_shnum = 4, .e_shstrndx = 3);
	Elf64_Phdr segments[3] = {{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = META_BYTES, .p_memsz = META_BYTES}};

	for (unsigned int i = 0; i < file->text_count; i++)
		segments[1 + i] = (Elf64_Phdr){.p_type = PT_LOAD,
					       .p_flags = PF_R | PF_X,
					       .p_offset = file->text[i].offset,
					       .p_vaddr = file->text[i].offset + SHIFT,
					       .p_filesz = file->text[i].size,
					       .p_memsz = file->text[i].size};
	memcpy(file->meta, &header, sizeof(header));
	memcpy(file->meta + sizeof(header), segments, (1 + file->text_count) * sizeof(segments[0]));
	memcpy(file->meta + HEADERS_END - 64, names, sizeof(names));
	put_section(file, 1, 1, file->eh_length ? SHT_PROGBITS : SHT_NULL, EH_FRAME, file->eh_length);
	put_section(file, 2, 11, SHT_PROGBITS, DEBUG_FRAME, file->debug_length);
	put_section(file, 3, 24, SHT_STRTAB, HEADERS_END - 64, sizeof(names));
	return (struct elf_source){.read = manual_elf_read, .context = file, .size = file->size};
}

static int row_compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Removes the ends of functions that lie less than 16 bytes before the next start: the bytes between belong to the
 * function before them. */
static void manual_elf_close_gaps(struct manual_elf *file)
{
	unsigned int kept = 0;

	qsort(file->rows, file->row_count, sizeof(file->rows[0]), row_compare);
	for (unsigned int i = 0; i < file->row_count; i++) {
		const uint64_t next = i + 1 < file->row_count ? file->rows[i + 1].key >> 1 : UINT64_MAX;

		if ((file->rows[i].key & 1) || next - (file->rows[i].key >> 1) >= 16)
			file->rows[kept++] = file->rows[i];
	}
	file->row_count = kept;
}

#endif

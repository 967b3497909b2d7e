/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of an ELF file that hold DWARF debug information, and bounded reads of them.
 * Pure: bytes come through an elf_source, and may be forged or change at any moment.
 *
 * The other parsers of DWARF (parse/dwarf_*.h) build on this one:
 * - dwarf_unit.h decodes units and their entries,
 * - dwarf_ranges.h decodes the addresses that an entry covers,
 * - dwarf_units.h finds the unit of an address,
 * - dwarf_split.h finds what a unit has in another file,
 * - dwarf_functions.h finds the function of an address, and those that are inlined there,
 * - dwarf_lines.h finds file and line of an address.
 *
 * Everything that they do is paid from one account (struct dwarf_reader), so the file cannot decide
 * how long a caller is busy.
 */
#ifndef PARSE_DWARF_FILE_H
#define PARSE_DWARF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"
#include "parse/elf_packed.h"
#include "parse/elf_window.h"

/* DWARF 5, 7.5 to 7.29; .debug_ranges is DWARF 4, 2.17.3. */
enum dwarf_section_kind {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_STR,
	DWARF_STR_OFFSETS,
	DWARF_LINE,
	DWARF_LINE_STR,
	DWARF_ADDR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_CU_INDEX, /* of a package (dwarf_split.h) */
	/* .debug_str of the alternate file (dwarf_file_set_alternate()). */
	DWARF_ALTERNATE_STR,
	DWARF_SECTION_COUNT,
};

struct dwarf_section {
	uint64_t offset, size; /* in the file; size 0: the file does not have it */
	/* What a compressed section has, if it is kept in memory; or what reads it. Without them,
	 * the file is read. */
	struct elf_buffer contents;
	struct elf_packed *packed;
	bool is_other; /* it belongs to another file, which must stay open */
};

struct dwarf_file {
	struct dwarf_section sections[DWARF_SECTION_COUNT];
	uint64_t code_start, code_end; /* addresses of all executable segments, as linked */
	size_t reserved; /* bytes of memory for compressed sections, without indexes */
	bool is_indexed; /* what reads compressed sections is ready, but for .debug_info */
	uint64_t unpaid; /* what reads of them have cost (dwarf_left()) */
};

/* Who reads, and how much may still be read. */
struct dwarf_reader {
	struct dwarf_file *file;
	/* The file, and the one with those sections that are another file's (NULL: none). */
	const struct elf_source *source, *other;
	/* About one for each byte that is decoded, DWARF_READ_COST for each read from the file, and
	 * what elf_packed.h says. Nothing is read any more once it is used up. */
	uint64_t left;
};

enum {
	DWARF_READ_COST = 128,
};

/* Finds the sections. Compressed ones are decompressed into at most `cap` bytes of memory. If they
 * do not fit, parts of the largest ones are decompressed whenever they are read (elf_packed.h).
 * Returns 0; -ENOENT: there is no debug information that can be used; -EFBIG: a section is too
 * large even for that; -EBADMSG: a section cannot be decompressed; -ENOMEM; or the source's error.
 * The caller closes the file after success. */
int dwarf_file_open(struct dwarf_file *file, const struct elf_image *image, size_t cap);

/* Finds the sections of an alternate file (debug_link.h) in the same way. It has no code. */
int dwarf_file_open_alternate(struct dwarf_file *file, const struct elf_image *image, size_t cap);

/* Makes the strings of the alternate file those of a file, too. It must not be closed before. */
void dwarf_file_set_alternate(struct dwarf_file *file, const struct dwarf_file *alternate);

/* Finds the sections of a split file (dwarf_split.h) of the file `main` in the same way. Code,
 * addresses and, before DWARF 5, ranges are those of `main`, which must not be closed before. */
int dwarf_file_open_split(struct dwarf_file *file, const struct elf_image *image,
			  const struct dwarf_file *main, size_t cap);
void dwarf_file_close(struct dwarf_file *file);

/* Returns the memory that compressed sections take, in bytes. */
size_t dwarf_file_bytes(const struct dwarf_file *file);

/* Goes on with what reads of compressed sections need, except for .debug_info, before anything of
 * the reader's file is read. Returns false if there is more to be done. Sections that cannot be
 * decompressed cannot be read afterwards. */
bool dwarf_file_index(struct dwarf_reader *reader);

/* Goes on with what reads of .debug_info need, until its first `until` bytes can be read. That of
 * a compressed one takes the longest, and reads in between need not decompress them once more.
 * Returns as dwarf_file_index(). */
bool dwarf_file_index_info(struct dwarf_reader *reader, uint64_t until);

/* Returns what is left of the account. What reads of compressed sections have cost is subtracted
 * only here, so that work which has begun with enough left can be done to its end. */
static inline uint64_t dwarf_left(struct dwarf_reader *reader)
{
	uint64_t *unpaid = &reader->file->unpaid;

	if (*unpaid) {
		reader->left -= *unpaid < reader->left ? *unpaid : reader->left;
		*unpaid = 0;
	}
	return reader->left;
}

/* Subtracts the cost of some work. Returns false if that is more than what is left. */
bool dwarf_pay(struct dwarf_reader *reader, uint64_t cost);

/* Copies bytes of a section. Returns false if it ends before, or cannot be read. */
bool dwarf_read(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		void *bytes, size_t length);

/* Reads a number of `size` bytes, 1 to 8. */
bool dwarf_read_number(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		       unsigned int size, uint64_t *number);

/* Reads a number of a table: the one with this index, from `base` on. */
bool dwarf_read_indexed(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t base,
			uint64_t index, unsigned int size, uint64_t *number);

/* Copies a string. It is cut if it does not fit into `room` bytes with its NUL, and empty if it
 * cannot be read. It may hold any bytes. */
void dwarf_read_text(struct dwarf_reader *reader, enum dwarf_section_kind kind, uint64_t offset,
		     char *text, size_t room);

/* Starts a window over a section, which reads `step` bytes at once. It is empty if the file does
 * not have the section. The caller ends it. */
void dwarf_window_init(struct dwarf_reader *reader, enum dwarf_section_kind kind, size_t step,
		       struct elf_window *window);

#endif

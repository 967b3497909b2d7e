/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the files of a line table: the tables of directories and files in its header (DWARF 5,
 * 6.2.4; DWARF 4, 6.2.4). They are kept as offsets of strings, which are read when a path is made.
 *
 * Example, DWARF 5: the unit was compiled in /src, which is directory 0; directory 1 is "lib"; file
 * 2 is {"add.h", directory 1}. The path of file 2 is /src/lib/add.h.
 */
#ifndef PARSE_DWARF_LINE_NAMES_H
#define PARSE_DWARF_LINE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_value.h"

/* The name of a file or a directory. */
struct dwarf_line_name {
	uint64_t text;	    /* offset in the section */
	uint32_t directory; /* of a file */
	uint8_t section;    /* enum dwarf_section_kind; DWARF_SECTION_COUNT: it has no name */
};

struct dwarf_line_list {
	struct dwarf_line_name *items; /* by the index that the line table uses */
	size_t count, capacity;
};

struct dwarf_line_names {
	struct dwarf_line_list directories, files;
};

/* Reads both tables, which are in [from, to) of .debug_line. `encoding` has the version of the line
 * table. What is malformed ends them. Returns 0, -E2BIG or -ENOMEM. The caller frees them in each
 * case. */
int dwarf_line_names_read(struct dwarf_line_names *names, struct dwarf_reader *reader,
			  const struct dwarf_encoding *encoding, uint64_t from, uint64_t to);
void dwarf_line_names_free(struct dwarf_line_names *names);
size_t dwarf_line_names_bytes(const struct dwarf_line_names *names);

/* Makes the path of a file. A relative one starts with the directory of the unit, `comp_dir`. It is
 * cut if it does not fit into `room` bytes with its NUL, and empty if the file is unknown. */
void dwarf_line_names_path(const struct dwarf_line_names *names, struct dwarf_reader *reader,
			   const struct dwarf_encoding *encoding,
			   const struct dwarf_value *comp_dir, uint64_t file, char *path,
			   size_t room);

#endif

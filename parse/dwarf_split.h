/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: units of which the greater part is in another file (DWARF 5, 7.3.2; before that, an
 * extension of GNU: gcc -gsplit-dwarf).
 *
 * How this works. So that linkers have less to do, the compiler writes the entries of a unit to a
 * file of its own, x.dwo, which is never linked. What needs the linker stays in the program: the
 * lines, a table of addresses, and a skeleton, which is a unit of one entry. Skeleton and split
 * unit have the same number of eight bytes (dwo_id), and the entries refer to addresses by their
 * index in the table. The tool dwp packs the files of a program into one, PROGRAM.dwp. Its
 * .debug_cu_index says where the parts of each unit start in the sections of the package. It is a
 * hash table by dwo_id, with open addressing (DWARF 5, 7.3.5; version 2 is that of GNU).
 *
 * Example: the skeleton has dwo_id 0x1122334455667788, addr_base 8 and low_pc 0. In a table with 4
 * slots, the unit is in slot 0x88 & 3 = 0 or, if another one is there, 1 + (0x44 & 3 | 1) * n.
 * There is row 2, which says that the unit is at 0x530 of .debug_info.dwo, and its abbreviations at
 * 0x91 of .debug_abbrev.dwo. A function with DW_AT_low_pc = {DW_FORM_addrx, 3} starts at the
 * address that is at 8 + 3 * 8 in .debug_addr of the program.
 */
#ifndef PARSE_DWARF_SPLIT_H
#define PARSE_DWARF_SPLIT_H

#include "parse/dwarf_unit.h"

/* Finds the unit that belongs to a skeleton. `reader` is that of the split file, a single one or a
 * package. Its first entry is to be read next (dwarf_unit_read_root()). Returns false if the file
 * does not have the unit, or the reader's account was used up. */
bool dwarf_split_find(struct dwarf_reader *reader, const struct dwarf_unit *skeleton,
		      struct dwarf_unit *unit);

#endif

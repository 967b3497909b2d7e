/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections by which a file names another one with debug information. Pure.
 *
 * .gnu_debuglink of a stripped file names its debug file.
 *
 * Format (GDB manual, "Separate Debug Files"): the name of a file, without a directory, that ends
 * with a NUL; zeros up to a multiple of four bytes; and the CRC-32 of the whole debug file, in the
 * byte order of the file. objcopy --add-gnu-debuglink writes it.
 *
 * Example: "x.debug", NUL, 0x12345678 is 78 65 2e 64 65 62 75 67 00 00 00 00 78 56 34 12.
 *
 * The tool dwz moves what several files have in common to an alternate file, and names that in each
 * of them. .gnu_debugaltlink (dwz(1), "-m") has a path that ends with a NUL; the rest of it is the
 * build id of the alternate file. .debug_sup (DWARF 5, 7.3.6; dwz --dwarf-5) has the version 5 in
 * two bytes; a byte that is 1 in the alternate file itself; the path, as above; and the length of
 * the build id as a LEB128 number, with the build id. Only the last part of the path counts here.
 * In the second case the alternate file has a .debug_sup, too, in the place of a note with its
 * build id.
 */
#ifndef PARSE_DEBUG_LINK_H
#define PARSE_DEBUG_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	DEBUG_LINK_NAME_BYTES = 256, /* of a name and a NUL: NAME_MAX of Linux */
	/* dwz writes 20. elf_image.build_id has no more. */
	DEBUG_LINK_BUILD_ID_BYTES = 20,
};

struct debug_link {
	char name[DEBUG_LINK_NAME_BYTES]; /* any bytes; not empty */
	uint32_t crc;
};

/* Reads the section. Returns 0; -ENOENT: there is none, or it is malformed or too long; -ENOMEM; or
 * the source's error. */
int debug_link_read(const struct elf_image *image, struct debug_link *link);

/* The alternate file of a file. */
struct debug_alternate {
	char name[DEBUG_LINK_NAME_BYTES]; /* any bytes, but no slash; "" if it is too long */
	uint8_t build_id[DEBUG_LINK_BUILD_ID_BYTES];
	unsigned int build_id_length;
};

/* Reads what a file says about its alternate file. Returns 0; -ENOENT: there is none, or the
 * section is malformed; -ENOMEM; or the source's error. */
int debug_alternate_read(const struct elf_image *image, struct debug_alternate *alternate);

/* Returns whether an image has the build id of an alternate file. */
bool debug_alternate_is(const struct debug_alternate *alternate, const struct elf_image *image);

#endif

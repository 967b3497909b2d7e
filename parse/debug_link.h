/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section .gnu_debuglink, by which a stripped file names its debug file. Pure.
 *
 * Format (GDB manual, "Separate Debug Files"): the name of a file, without a directory, that ends
 * with a NUL; zeros up to a multiple of four bytes; and the CRC-32 of the whole debug file, in the
 * byte order of the file. objcopy --add-gnu-debuglink writes it.
 *
 * Example: "x.debug", NUL, 0x12345678 is 78 65 2e 64 65 62 75 67 00 00 00 00 78 56 34 12.
 */
#ifndef PARSE_DEBUG_LINK_H
#define PARSE_DEBUG_LINK_H

#include <stdint.h>

#include "parse/elf_image.h"

enum {
	DEBUG_LINK_NAME_BYTES = 256, /* of a name and a NUL: NAME_MAX of Linux */
};

struct debug_link {
	char name[DEBUG_LINK_NAME_BYTES]; /* any bytes; not empty */
	uint32_t crc;
};

/* Reads the section. Returns 0; -ENOENT: there is none, or it is malformed or too long; -ENOMEM; or
 * the source's error. */
int debug_link_read(const struct elf_image *image, struct debug_link *link);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose code is named by debug information, and what is said of their code as text. */
#ifndef TESTS_UNIT_SYMBOLIZER_DWARF_NAMES_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZER_DWARF_NAMES_FIXTURE_H

#include <stdio.h>

#include "symbolizer/namer/namer.h"

enum {
	TEXT_BYTES = 1024,
	CODE_LEAST_BYTES = 2000, /* of each variant */
	PARTS_MAX = 1000,	 /* of a lookup */
	FURTHER_MAX = 4,
};

/* A program, its namer, and the further files that the namer has. */
struct opened {
	int fd;
	struct elf_source source;
	struct elf_image image;
	struct namer namer;
	int further_fds[FURTHER_MAX];
	struct elf_source further[FURTHER_MAX];
	unsigned int further_count;
};

/* Opens a file for reading; `fd` must live as long as the source. */
struct elf_source source_of(int *fd, const char *path);

void open_file(struct opened *opened, const char *path);
void close_file(struct opened *opened);

/* Gives the namer a file that it may want, and returns what it says. */
int add_further(struct opened *opened, const char *path);

/* Names an address, in as many parts as that takes. Returns 0 or -ENOENT. */
int name(struct opened *opened, uint64_t vaddr, struct named_frames *frames);

/* Writes the functions: "FUNCTION FILE:LINE\n" for each, the innermost first. */
void describe(const struct named_frames *frames, FILE *out);

/* Compares what is said of the code of a program with what is said of that of another one with the
 * same code. Returns how many addresses have the same functions. With `all`, each must. */
unsigned int compare_with_original(struct opened *opened, struct opened *original, bool all);

#endif

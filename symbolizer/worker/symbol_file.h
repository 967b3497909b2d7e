/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading names and hashes from a file that its owner may truncate or change at any moment. So it
 * is never mapped, and any read may fail.
 */
#ifndef SYMBOLIZER_WORKER_SYMBOL_FILE_H
#define SYMBOLIZER_WORKER_SYMBOL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	SYMBOL_FILE_NAME_MAX = 4096, /* bytes of a name before demangling: longer ones are cut */
	SYMBOL_FILE_HASH_BYTES = 16,
};

/* A part of the file, as a section header describes it. */
struct extent {
	uint64_t offset, size;
};

/* String tables with names. An offset beyond the strings of the file is one in the strings in
 * memory, which follow them. */
struct name_tables {
	int fd;
	struct extent strings;
	struct elf_buffer more;
};

/* Reads names from string tables. Neighbours in a symbol table tend to be neighbours in its string
 * table, so one buffer serves many names. */
struct name_reader {
	const struct name_tables *tables;
	uint64_t window_at; /* offset in the string table */
	size_t window_length;
	char window[SYMBOL_FILE_NAME_MAX + 1];
};

/* Starts to read from tables that outlive the reader. */
void name_reader_init(struct name_reader *reader, const struct name_tables *tables);

/* Returns the string at `offset` of the tables, until the next call; NULL if there is none or it is
 * empty. */
const char *name_reader_get(struct name_reader *reader, uint64_t offset);

/* Writes bytes as hex digits to `text`, which has room for two characters per byte and a NUL. */
void symbol_file_to_hex(const uint8_t *bytes, size_t length, char *text);

/* Computes OpenTelemetry's process.executable.build_id.htlhash: a hash of head, tail and length, in
 * hex. `text` is untouched if the file cannot be read. */
void symbol_file_hash(int fd, uint64_t size, char text[2 * SYMBOL_FILE_HASH_BYTES + 1]);

/* Sets up the source of an image to the file of `*fd`, which must outlive it. Returns 0 or -EIO. */
int symbol_file_source(struct elf_source *source, int *fd);

#endif

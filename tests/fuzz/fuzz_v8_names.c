/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the names of V8's builtins.
 *
 * How this works. No mutation would keep a file valid that has a thousand builtins with names. So
 * the input describes what is changed in one that is (tests/support/v8_library.S). The first byte
 * has flags, the next two the number of reads after which the file shrinks. Then come changes of 6
 * bytes each: which part, the number of an entry of it (two bytes), a byte of that entry, and two
 * bytes that are put there.
 *
 * Example: 00 00 00, 01 0b 00 00 00 00. The lowest two bytes of the pointer to the name of builtin
 * 11 are 0.
 *
 * In addition to memory errors, it checks that names end and are names, that the builtins are where
 * the file has code, and that no file is read more than a limited number of times.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/cursor.h"
#include "parse/v8_names.h"
#include "tests/support/v8_library.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	FLAG_SHRINKS = 1,
	CHANGE_BYTES = 6,
	PREFIX_BYTES = 9,
	NAME_BYTES_MAX = 96,
	/* The searches read the file some times, and each name that is looked at takes two
	 * reads. */
	READS_MAX = 1 << 17,
};

enum part {
	PART_TABLE,
	PART_NAMES,
	PART_FILE, /* units of 16 bytes */
	PARTS,
};

struct file {
	uint8_t *bytes;
	struct elf_buffer left;
	uint64_t reads, good;
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

static int read_file(void *context, uint64_t offset, void *to, size_t length)
{
	struct file *file = context;

	if (file->reads++ == file->good)
		file->left.length /= 3;
	const struct elf_source source = elf_source_from_buffer(&file->left);
	return source.read(source.context, offset, to, length);
}

/* Where a part begins in the file, and how large its entries are. */
static size_t part_at(enum part part, size_t *entry_bytes)
{
	static size_t table, names;

	if (!names) {
		table = v8_library_offset("v8_table");
		names = v8_library_offset("v8_names");
	}
	*entry_bytes = part == PART_TABLE   ? V8_LIBRARY_TABLE_BYTES
		       : part == PART_NAMES ? V8_LIBRARY_NAMES_BYTES
					    : 16;
	return part == PART_TABLE ? table : part == PART_NAMES ? names : 0;
}

static void change(struct file *file, struct cursor *c)
{
	const enum part part = cursor_u8(c) % PARTS;
	const uint16_t number = cursor_u16(c);
	size_t entry_bytes;
	size_t at = part_at(part, &entry_bytes);
	const uint8_t byte = cursor_u8(c);
	const uint8_t *value = cursor_take(c, 2);

	at += number * entry_bytes + byte % entry_bytes;
	if (value && at < file->left.length - 1)
		memcpy(file->bytes + at, value, 2);
}

static void check_names(const struct elf_image *image, const struct v8_names *names)
{
	check(names->count && names->texts[names->texts_bytes - 1] == '\0');
	for (unsigned int i = 0; i < names->count; i++) {
		const struct v8_name *name = &names->names[i];
		const char *text = names->texts + name->text;

		check(name->text < names->texts_bytes);
		check(elf_image_find_code(image, name->vaddr) != NULL);
		check(i == 0 || name->vaddr >= name[-1].vaddr + name[-1].bytes);
		check(memcmp(text, "Builtins_", PREFIX_BYTES) == 0);
		check(text[PREFIX_BYTES] && strlen(text) < PREFIX_BYTES + NAME_BYTES_MAX);
		for (const char *c = text; *c; c++)
			check(isalnum((unsigned char)*c) || *c == '_');
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t length = (size_t)(v8_stripped_end - v8_stripped);
	struct cursor c = cursor_init(data, size);
	struct file file = {.bytes = malloc(length), .good = UINT64_MAX};
	const uint8_t flags = cursor_u8(&c);
	const uint16_t reads = cursor_u16(&c);
	struct elf_image image;
	struct v8_names names;

	check(file.bytes);
	memcpy(file.bytes, v8_stripped, length);
	file.left = (struct elf_buffer){file.bytes, length};
	while (cursor_left(&c) >= CHANGE_BYTES)
		change(&file, &c);
	const struct elf_source source = {read_file, &file, length};
	if (elf_image_init(&image, &source) == 0) {
		file.reads = 0;
		file.good = flags & FLAG_SHRINKS ? reads : UINT64_MAX;
		const int r = v8_names_read(&names, &image);

		check(r <= 0 && file.reads < READS_MAX);
		if (r == 0) {
			check_names(&image, &names);
			v8_names_fini(&names);
		}
		elf_image_fini(&image);
	}
	free(file.bytes);
	return 0;
}

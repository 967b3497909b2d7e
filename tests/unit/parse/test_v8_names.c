/* SPDX-License-Identifier: Apache-2.0 */
/* Proves on a library that the assembler makes (tests/support/v8_library.S): all builtins have the
 * address, the size and the name that the linker knows, in a stripped file, too; a file that
 * differs has no names; and reads may fail at any moment. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/v8_names.h"
#include "tests/support/v8_library.h"

enum {
	BUILTINS = V8_LIBRARY_BUILTINS,
	POINTER_BYTES = 8,
};

/* A copy of the library, whose reads fail from some read on. */
struct file {
	char *data;
	struct elf_buffer buffer;
	uint64_t reads, good;
	struct elf_image image;
	struct v8_names names;
};

static int read_file(void *context, uint64_t offset, void *to, size_t length)
{
	struct file *file = context;
	const struct elf_source source = elf_source_from_buffer(&file->buffer);

	return file->reads++ < file->good ? source.read(source.context, offset, to, length) : -EIO;
}

static void file_init(struct file *file, const char *data, const char *end)
{
	const size_t length = (size_t)(end - data);
	char *copy = malloc(length);

	cr_assert(copy);
	memcpy(copy, data, length);
	*file = (struct file){.data = copy, .buffer = {copy, length}, .good = UINT64_MAX};
	const struct elf_source source = {read_file, file, length};
	cr_assert_eq(elf_image_init(&file->image, &source), 0);
}

static void file_init_stripped(struct file *file)
{
	file_init(file, v8_stripped, v8_stripped_end);
}

static void file_fini(struct file *file)
{
	elf_image_fini(&file->image);
	free(file->data);
}

/* Returns what v8_names_read() returns. */
static int read_names(struct file *file)
{
	file->reads = 0;
	const int r = v8_names_read(&file->names, &file->image);
	if (r < 0)
		cr_expect(!file->names.names && !file->names.texts && !file->names.count);
	return r;
}

static int read_and_free(struct file *file)
{
	const int r = read_names(file);

	v8_names_fini(&file->names);
	return r;
}

/* Returns the place in memory of a text that the file has once. */
static char *find_text(const struct file *file, const char *text)
{
	char *found = memmem(file->data, file->buffer.length, text, strlen(text) + 1);

	cr_assert(found, "%s", text);
	return found;
}

/* Returns the place in memory of a builtin's entry in the table of names. */
static char *find_entry(const struct file *file, int number)
{
	return file->data + v8_library_offset("v8_names") + number * V8_LIBRARY_NAMES_BYTES;
}

static void check_name(const struct file *file, unsigned int i)
{
	const struct v8_name *found = &file->names.names[i];
	const char *text = file->names.texts + found->text;
	char expected[64];
	uint64_t size;

	snprintf(expected, sizeof(expected), "Builtins_B%u", i);
	cr_expect_str_eq(text,
			 i == V8_LIBRARY_KNOWN ? "Builtins_InterpreterEntryTrampoline" : expected);
	cr_expect_eq(found->vaddr, v8_library_symbol(text, &size), "%s", text);
	cr_expect_eq(found->bytes, size, "%s", text);
}

static void check_all(struct file *file)
{
	cr_assert_eq(read_names(file), 0);
	cr_assert_eq(file->names.count, BUILTINS);
	for (unsigned int i = 0; i < BUILTINS; i++)
		check_name(file, i);
	cr_expect_eq(file->names.texts[file->names.texts_bytes - 1], '\0');
	v8_names_fini(&file->names);
	file_fini(file);
}

Test(v8_names, all_builtins_are_named_as_the_linker_names_them)
{
	struct file file;

	file_init(&file, v8_linked, v8_linked_end);
	check_all(&file);
}

Test(v8_names, a_stripped_file_has_the_same_names)
{
	struct file file;

	file_init_stripped(&file);
	check_all(&file);
}

/* As another linker writes it: then only the list of relocations has the pointers. */
Test(v8_names, pointers_that_only_the_dynamic_linker_writes_are_found)
{
	struct file file;

	file_init_stripped(&file);
	for (int i = 0; i < BUILTINS; i++)
		memset(find_entry(&file, i), 0, POINTER_BYTES);
	check_all(&file);
}

/* Changes a byte, checks that there are no names then, and changes it back. */
static void check_refused(struct file *file, char *at, char value, const char *why)
{
	const char before = *at;

	*at = value;
	cr_expect_eq(read_and_free(file), -ENOENT, "%s", why);
	*at = before;
}

Test(v8_names, a_file_that_differs_has_no_names)
{
	struct file file;

	file_init_stripped(&file);
	check_refused(&file, find_text(&file, "_ZN2v88internal7Version6major_E") + 5, '9',
		      "there is no version");
	check_refused(&file, find_text(&file, "InterpreterEntryTrampoline"), 'J',
		      "the known name is another one");
	/* Each of these ends the names too early. */
	check_refused(&file, find_text(&file, "B17"), '7', "a digit");
	check_refused(&file, find_text(&file, "B17") + 1, ' ', "a space");
	check_refused(&file, find_text(&file, "B17") + 1, '\x1b', "a control character");
	check_refused(&file, find_text(&file, "B1099"), '\0', "an empty name");
	cr_expect_eq(read_and_free(&file), 0, "everything was changed back");
	file_fini(&file);
}

Test(v8_names, there_must_be_as_many_names_as_builtins)
{
	struct file file;

	file_init_stripped(&file);
	char *const third = find_entry(&file, 3);
	char *const entry = find_entry(&file, V8_LIBRARY_KNOWN);
	char *const before = find_entry(&file, -1), *const after = find_entry(&file, BUILTINS);

	cr_assert(!memcmp(after, before, POINTER_BYTES) && !memcmp(after, "\0\0\0", 4));
	/* Without this relocation, only the table in the file is left. */
	char *relocation = file.data;
	while (memcmp(relocation, entry, POINTER_BYTES) != 0)
		relocation += POINTER_BYTES;
	cr_assert_neq(relocation, entry);
	memset(relocation, 0, POINTER_BYTES);
	cr_expect_eq(read_and_free(&file), 0);
	memcpy(after, third, POINTER_BYTES);
	cr_expect_eq(read_and_free(&file), -ENOENT, "one more after them");
	memset(after, 0, POINTER_BYTES);
	memcpy(before, third, POINTER_BYTES);
	cr_expect_eq(read_and_free(&file), -ENOENT, "one more before them");
	memset(before, 0, POINTER_BYTES);
	cr_expect_eq(read_and_free(&file), 0);
	file_fini(&file);
}

Test(v8_names, reads_may_fail_at_any_moment)
{
	struct file file;
	int r = -EIO;

	file_init_stripped(&file);
	for (file.good = 0; file.good < 40 && r; file.good++) {
		r = read_and_free(&file);
		cr_expect(r == -EIO || r == -ENOENT, "after %lu reads: %d", file.good, r);
	}
	for (r = -EIO; r < 0 && file.good < 1 << 16; file.good += file.good / 7)
		r = read_and_free(&file);
	cr_expect_eq(r, 0);
	file_fini(&file);
}

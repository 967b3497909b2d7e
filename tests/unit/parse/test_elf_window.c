/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/elf_window.h"

enum {
	START = 100, /* of the range, in the file */
	LENGTH = 300,
	FILE_LENGTH = 450,
};

struct file {
	uint8_t bytes[FILE_LENGTH];
	unsigned int reads;
	int error;
};

static int file_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct file *file = context;

	file->reads++;
	if (file->error)
		return file->error;
	if (offset > FILE_LENGTH || length > FILE_LENGTH - offset)
		return -ENODATA;
	memcpy(buffer, file->bytes + offset, length);
	return 0;
}

static struct elf_window window_over(struct file *file, uint64_t offset, uint64_t length)
{
	const struct elf_source source = {.read = file_read, .context = file, .size = FILE_LENGTH};
	struct elf_window window;

	*file = (struct file){.reads = 0};
	for (unsigned int i = 0; i < FILE_LENGTH; i++)
		file->bytes[i] = (uint8_t)(i * 7 ^ i >> 3);
	elf_window_init(&window, &source, offset, length);
	return window;
}

Test(elf_window, any_bytes_can_be_requested)
{
	struct file file;

	for (size_t step = 1; step < LENGTH + 10; step += 13) {
		struct elf_window window = window_over(&file, START, LENGTH);
		uint32_t random = 1;

		window.step = step;
		for (unsigned int i = 0; i < 2000; i++) {
			random = random * 1664525 + 1013904223;
			const uint64_t at = (random >> 16) % (LENGTH + 1);
			const uint64_t need = (random >> 5) % (LENGTH + 1 - at);
			struct cursor c;

			cr_assert_eq(elf_window_get(&window, at, need, &c), 0);
			cr_assert_geq(cursor_left(&c), need);
			cr_assert_leq(at + cursor_left(&c), LENGTH);
			cr_assert_eq(memcmp(c.at, file.bytes + START + at, cursor_left(&c)), 0);
		}
		elf_window_fini(&window);
	}
}

Test(elf_window, bytes_in_order_are_read_once)
{
	struct file file;
	struct elf_window window = window_over(&file, START, LENGTH);
	struct cursor c;

	window.step = 60;
	for (uint64_t at = 0; at < LENGTH; at += 4)
		cr_assert_eq(elf_window_get(&window, at, 4, &c), 0);
	cr_assert_eq(file.reads, 5);
	elf_window_fini(&window);
}

Test(elf_window, requests_past_the_end_fail)
{
	struct file file;
	struct elf_window window = window_over(&file, START, LENGTH);
	struct cursor c;

	cr_assert_eq(elf_window_get(&window, LENGTH - 4, 4, &c), 0);
	cr_assert_eq(cursor_left(&c), 4);
	cr_assert_eq(elf_window_get(&window, LENGTH - 4, 5, &c), -ENODATA);
	cr_assert_eq(elf_window_get(&window, LENGTH + 1, 0, &c), -ENODATA);
	cr_assert_eq(elf_window_get(&window, UINT64_MAX, 1, &c), -ENODATA);
	cr_assert_eq(elf_window_get(&window, 0, UINT64_MAX, &c), -ENODATA);
	elf_window_fini(&window);

	/* A range that the file does not have, or no longer has. */
	window = window_over(&file, FILE_LENGTH - 10, 20);
	cr_assert_eq(elf_window_get(&window, 0, 4, &c), -ENODATA);
	elf_window_fini(&window);
	window = window_over(&file, UINT64_MAX - 4, 20);
	cr_assert_eq(elf_window_get(&window, 10, 4, &c), -ENODATA);
	elf_window_fini(&window);
}

Test(elf_window, a_failed_read_empties_the_buffer)
{
	struct file file;
	struct elf_window window = window_over(&file, START, LENGTH);
	struct cursor c;

	window.step = 50;
	cr_assert_eq(elf_window_get(&window, 0, 50, &c), 0);
	file.error = -EIO;
	cr_assert_eq(elf_window_get(&window, 10, 40, &c), 0);
	cr_assert_eq(elf_window_get(&window, 40, 20, &c), -EIO);
	cr_assert_eq(elf_window_get(&window, 40, 1, &c), -EIO);
	file.error = 0;
	cr_assert_eq(elf_window_get(&window, 40, 20, &c), 0);
	cr_assert_eq(memcmp(c.at, file.bytes + START + 40, 20), 0);
	elf_window_fini(&window);
}

Test(elf_window, copies_leave_the_window_unchanged)
{
	struct file file;
	struct elf_window window = window_over(&file, START, LENGTH);
	uint8_t bytes[40];
	struct cursor c;

	window.step = 50;
	cr_assert_eq(elf_window_get(&window, 100, 50, &c), 0);
	cr_assert_eq(file.reads, 1);
	cr_assert_eq(elf_window_copy(&window, 105, bytes, sizeof(bytes)), 40);
	cr_assert_eq(file.reads, 1);
	cr_assert_eq(memcmp(bytes, file.bytes + START + 105, 40), 0);
	cr_assert_eq(elf_window_copy(&window, 130, bytes, sizeof(bytes)), 40);
	cr_assert_eq(memcmp(bytes, file.bytes + START + 130, 40), 0);
	cr_assert_eq(elf_window_copy(&window, LENGTH - 7, bytes, sizeof(bytes)), 7);
	cr_assert_eq(memcmp(bytes, file.bytes + START + LENGTH - 7, 7), 0);
	cr_assert_eq(elf_window_copy(&window, LENGTH + 1, bytes, sizeof(bytes)), -ENODATA);
	/* The cursor is still valid. */
	cr_assert_eq(memcmp(c.at, file.bytes + START + 100, 50), 0);
	elf_window_fini(&window);
}

Test(elf_window, compressed_sections_are_seen_decompressed)
{
	struct file file;
	struct elf_window window = window_over(&file, 0, 0);
	const struct elf_image image = {.source = window.source};
	struct elf_section section = {.type = SHT_PROGBITS, .offset = START, .size = LENGTH};
	struct cursor c;

	cr_assert_eq(elf_window_init_section(&window, &image, &section, LENGTH - 1), -EFBIG);
	cr_assert_eq(elf_window_init_section(&window, &image, &section, LENGTH), 0);
	cr_assert_eq(elf_window_get(&window, 0, LENGTH, &c), 0);
	cr_assert_eq(memcmp(c.at, file.bytes + START, LENGTH), 0);
	elf_window_fini(&window);
	section.type = SHT_NOBITS;
	cr_assert_eq(elf_window_init_section(&window, &image, &section, LENGTH), -ENOENT);
	section = (struct elf_section){.type = SHT_PROGBITS, .offset = START};
	cr_assert_eq(elf_window_init_section(&window, &image, &section, LENGTH), -ENOENT);
}

Test(elf_window, contents_in_memory_are_not_copied)
{
	enum {
		STEP = 32,
		NEED_MAX = 90
	};
	struct file file;
	struct elf_window window = window_over(&file, 0, FILE_LENGTH);
	uint8_t bytes[FILE_LENGTH];
	struct cursor c;

	elf_window_init_contents(&window, file.bytes, FILE_LENGTH);
	elf_window_limit(&window, LENGTH);
	window.step = STEP;
	for (uint64_t at = 0; at < LENGTH; at += 7) {
		const uint64_t need = at % NEED_MAX < LENGTH - at ? at % NEED_MAX + 1 : LENGTH - at;

		cr_assert_eq(elf_window_get(&window, at, need, &c), 0);
		cr_expect_eq(c.at, file.bytes + at);
		cr_expect_geq(cursor_left(&c), need);
		cr_expect_leq(cursor_left(&c), NEED_MAX, "parts, as if it was read");
		cr_expect_leq(at + cursor_left(&c), LENGTH);
	}
	cr_expect_eq(elf_window_get(&window, LENGTH - 1, 2, &c), -ENODATA);
	cr_expect_eq(elf_window_get(&window, UINT64_MAX, 2, &c), -ENODATA);
	cr_expect_eq(elf_window_copy(&window, 10, bytes, sizeof(bytes)), LENGTH - 10);
	cr_expect_arr_eq(bytes, file.bytes + 10, LENGTH - 10);
	cr_expect_eq(file.reads, 0);
	elf_window_fini(&window);
}

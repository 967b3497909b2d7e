/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the search for V8's builtins is bounded, and has no result, in files that are forged,
 * end too early or change meanwhile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "parse/v8_builtins.h"
#include "v8_fixture.h"

Test(v8_builtins, passes_on_an_error_of_the_source)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	uint64_t vaddr;

	v8_fixture_init(&fixture, 3);
	struct v8_counted whole = v8_counted_init(&fixture);
	cr_assert_eq(v8_find_counted(&fixture, HANDLERS, &whole, &builtins), 0);
	cr_assert_gt(whole.reads, 10);
	for (uint64_t good = 0; good < whole.reads; good++) {
		struct v8_counted counted = v8_counted_init(&fixture);

		counted.good = good;
		counted.error = -EIO;
		cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -EIO,
			     "after %lu reads", good);
	}
	struct v8_counted counted = v8_counted_init(&fixture);
	counted.good = 0;
	counted.error = -EIO;
	cr_expect_eq(v8_find_sizes(&fixture, BYTECODES, &counted, &vaddr), -EIO);
	v8_fixture_fini(&fixture);
}

/* The headers were read when the file was whole. */
Test(v8_builtins, finds_nothing_in_a_file_that_is_cut_off)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	uint64_t vaddr;

	v8_fixture_init(&fixture, 3);
	const size_t end = offsetof(struct v8_file, text) + BLOCK_AT + fixture.offsets[BUILTINS];
	for (size_t length = 0; length < end; length += 4001) {
		struct v8_counted counted = v8_counted_init(&fixture);

		counted.buffer.length = length;
		cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT,
			     "%zu bytes", length);
	}
	struct v8_counted counted = v8_counted_init(&fixture);
	counted.buffer.length = offsetof(struct v8_file, data) + SIZES_AT;
	cr_expect_eq(v8_find_sizes(&fixture, BYTECODES, &counted, &vaddr), -ENOENT);
	/* It is cut off during the search. */
	counted = v8_counted_init(&fixture);
	cr_assert_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), 0);
	const uint64_t reads = counted.reads;
	for (uint64_t good = 0; good < reads; good++) {
		counted = v8_counted_init(&fixture);
		counted.good = good;
		counted.error = -ENODATA;
		cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT,
			     "after %lu reads", good);
	}
	v8_fixture_fini(&fixture);
}

/* The more code is compared at each page, the more often it is read. */
Test(v8_builtins, huge_first_builtins_are_refused)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;

	v8_fixture_init(&fixture, 3);
	fixture.bytes[2] += (32 << 10) - fixture.offsets[COMPARED];
	v8_fixture_put(&fixture);
	cr_assert_eq(fixture.offsets[COMPARED], 32 << 10);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	for (unsigned int i = 0; i < COMPARED; i++) {
		const uint32_t before = fixture.bytes[i];
		struct v8_counted counted = v8_counted_init(&fixture);

		fixture.bytes[i] += 64;
		v8_fixture_put(&fixture);
		cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
		/* Each segment is searched for the table, and none for the block. */
		cr_expect_lt(counted.bytes, DATA_BYTES + TEXT_BYTES + PAGE, "%lu bytes",
			     counted.bytes);
		fixture.bytes[i] = before;
	}
	v8_fixture_fini(&fixture);
}

/* Each false table has the first builtins only. */
Test(v8_builtins, looks_at_a_limited_number_of_tables)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct v8_counted counted;
	const size_t step = HASHES_BYTES + COMPARED * 12;

	v8_fixture_init(&fixture, 3);
	for (unsigned int i = 0; i < CANDIDATES - 1; i++)
		v8_fixture_put_table(&fixture, fixture.file->data + 0x804 + i * step, COMPARED);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	v8_fixture_put_table(&fixture, fixture.file->data + 0x404, COMPARED);
	v8_check_not_found(&fixture, "the table is the 17th");
	for (size_t at = 4; at + step <= DATA_BYTES; at += step)
		v8_fixture_put_table(&fixture, fixture.file->data + at, COMPARED);
	counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
	cr_expect_lt(counted.bytes,
		     DATA_BYTES + TEXT_BYTES + PAGE + CANDIDATES * V8_BUILTINS_MAX * 12,
		     "%lu bytes", counted.bytes);
	v8_fixture_fini(&fixture);
}

/* At each page is code with a correct padding after the first builtins. */
Test(v8_builtins, looks_at_a_limited_number_of_blocks)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct v8_counted counted;

	v8_fixture_init(&fixture, 3);
	memset(fixture.file->text + PAGE, OTHER_CODE, BLOCK_AT - PAGE);
	for (unsigned int i = 1; i < CANDIDATES; i++)
		memcpy(fixture.file->text + BLOCK_AT - i * PAGE, fixture.file->text + BLOCK_AT,
		       fixture.offsets[COMPARED]);
	v8_check_found(&fixture, BLOCK_VADDR, BUILTINS);
	memcpy(fixture.file->text + BLOCK_AT - CANDIDATES * PAGE, fixture.file->text + BLOCK_AT,
	       fixture.offsets[COMPARED]);
	v8_check_not_found(&fixture, "the block is the 17th");
	for (size_t at = BLOCK_AT + PAGE; at < TEXT_BYTES - PAGE; at += PAGE)
		memcpy(fixture.file->text + at, fixture.file->text + BLOCK_AT,
		       fixture.offsets[COMPARED]);
	counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
	cr_expect_lt(counted.bytes,
		     2 * DATA_BYTES + 2 * TEXT_BYTES + CANDIDATES * fixture.offsets[BUILTINS],
		     "%lu bytes", counted.bytes);
	v8_fixture_fini(&fixture);
}

/* A file that has zeros after its end. */
static int read_endless(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct v8_counted *counted = context;
	const struct elf_source source = elf_source_from_buffer(&counted->buffer);

	counted->bytes += length;
	memset(buffer, 0, length);
	return offset >= sizeof(struct v8_file)
		   ? 0
		   : source.read(source.context, offset, buffer, length);
}

Test(v8_builtins, a_file_of_1_tib_costs_a_limited_number_of_reads, .timeout = 60)
{
	const struct v8_builtins_form form = {3, HANDLERS};
	const uint64_t searched = 64 << 20;
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct elf_image image;
	uint64_t vaddr;

	v8_fixture_init(&fixture, 3);
	fixture.file->text[BLOCK_AT + fixture.bytes[0]] = OTHER_CODE;
	struct v8_counted counted = v8_counted_init(&fixture);
	v8_open_image(&image, &fixture, &counted);
	image.source = (struct elf_source){read_endless, &counted, UINT64_MAX};
	/* The table is found, and then the code is without end. */
	image.segments[1].offset = sizeof(struct v8_file);
	image.segments[1].file_size = 1ull << 40;
	cr_expect_eq(v8_builtins_find(&builtins, &image, &form), -ENOENT);
	cr_expect_gt(counted.bytes, searched);
	cr_expect_lt(counted.bytes, 2 * searched, "%lu bytes of code", counted.bytes);
	image.segments[0] = image.segments[1];
	image.segments[0].executable = false;
	counted.bytes = 0;
	cr_expect_eq(v8_builtins_find(&builtins, &image, &form), -ENOENT);
	cr_expect_lt(counted.bytes, 2 * searched, "%lu bytes", counted.bytes);
	counted.bytes = 0;
	cr_expect_eq(v8_bytecode_sizes_find(&vaddr, &image, BYTECODES), -ENOENT);
	cr_expect_lt(counted.bytes, 2 * searched, "%lu bytes", counted.bytes);
	elf_image_fini(&image);
	v8_fixture_fini(&fixture);
}

/* A file whose builtin 7 is larger by `more` bytes when the table is read as a whole. */
struct changing {
	struct v8_counted counted;
	struct v8_fixture *fixture;
	uint32_t more;
};

static int read_changing(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct changing *changing = context;

	/* The first 64 KiB, and the second with the start of the table, were compared. */
	if (changing->counted.reads == 2)
		v8_enlarge(changing->fixture, COMPARED - 1, changing->more);
	return v8_read_counted(&changing->counted, offset, buffer, length);
}

Test(v8_builtins, first_builtins_that_become_huge_are_refused)
{
	const struct v8_builtins_form form = {3, HANDLERS};
	struct v8_fixture fixture;
	struct v8_builtins builtins;
	struct elf_image image;

	v8_fixture_init(&fixture, 3);
	struct changing changing = {v8_counted_init(&fixture), &fixture, 150 << 10};
	v8_open_image(&image, &fixture, &changing.counted);
	image.source.read = read_changing;
	image.source.context = &changing;
	cr_expect_eq(v8_builtins_find(&builtins, &image, &form), -ENOENT);
	cr_expect_lt(changing.counted.bytes, 2 * (DATA_BYTES + TEXT_BYTES), "%lu bytes",
		     changing.counted.bytes);
	elf_image_fini(&image);
	v8_fixture_fini(&fixture);
}

Test(v8_builtins, outputs_are_untouched_on_failure)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins, before;
	struct v8_entry entry = {1, 2, 3, 4, 5};
	uint64_t vaddr = 77;
	struct v8_counted counted;

	v8_fixture_init(&fixture, 3);
	memset(&before, 0x77, sizeof(before));
	builtins = before;
	counted = v8_counted_init(&fixture);
	v8_find_counted(&fixture, BUILTINS, &counted, &builtins);
	cr_expect_arr_eq(&builtins, &before, sizeof(before), "handlers out of range");
	builtins = before;
	counted = v8_counted_init(&fixture);
	v8_find_counted(&fixture, BUILTINS - 2, &counted, &builtins);
	cr_expect_arr_eq(&builtins, &before, sizeof(before), "no entry");
	counted = v8_counted_init(&fixture);
	v8_find_sizes(&fixture, BYTECODES - 1, &counted, &vaddr);
	cr_expect_eq(vaddr, 77, "sizes: %lu", vaddr);
	cr_expect_not(v8_entry_examine(&entry, v8_entry_code, 13));
	cr_expect_eq(entry.shift, 5, "shift %u", entry.shift);
	v8_fixture_fini(&fixture);
}

/* The first segment with the address of the table has another table, of which builtin 7 is huge. */
Test(v8_builtins, a_table_in_two_segments_does_not_have_huge_first_builtins)
{
	struct v8_fixture fixture;
	struct v8_builtins builtins;

	v8_fixture_init(&fixture, 3);
	struct v8_file *file = fixture.file;
	struct v8_fixture larger = fixture;
	v8_enlarge(&larger, COMPARED - 1, 150 << 10);
	v8_fixture_put_table(&fixture, file->text + 6 * PAGE, BUILTINS);
	memcpy(file->text + 6 * PAGE, file->data + TABLE_AT, HASHES_BYTES + BUILTINS * 12);
	v8_fixture_put_table(&fixture, file->data + TABLE_AT, BUILTINS);
	const Elf64_Phdr data = file->data_segment;
	file->data_segment = file->text_segment;
	file->text_segment = data;
	file->data_segment.p_vaddr = TABLE_VADDR - 6 * PAGE;
	struct v8_counted counted = v8_counted_init(&fixture);
	cr_expect_eq(v8_find_counted(&fixture, HANDLERS, &counted, &builtins), -ENOENT);
	cr_expect_lt(counted.bytes, 2 * (DATA_BYTES + TEXT_BYTES), "%lu bytes", counted.bytes);
	v8_fixture_fini(&fixture);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "v8_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/elf_header.h"

const uint8_t v8_entry_code[20] = {
    0xff, 0xd1,				      /* call rcx, before the frame is made */
    0x55, 0x48, 0x89, 0xe5, 0x56, 0x57, 0x50, /* push rbp; mov rbp, rsp; push rsi, rdi, rax */
    0x90, 0xff, 0xd1,			      /* call rcx */
    0x90, 0xc9, 0x59, 0x48, 0x03, 0xe3, 0x51, 0xc3};
const uint8_t v8_entry_slots_code[17] = {0x55, 0x48, 0x89, 0xe5, 0x56, 0x57, 0x50, 0xff, 0xd1,
					 0xc9, 0x59, 0x48, 0x8d, 0x24, 0xdc, 0x51, 0xc3};

void v8_fixture_put_table(const struct v8_fixture *fixture, uint8_t *at, unsigned int count)
{
	const size_t entry_bytes = fixture->entry_words * sizeof(uint32_t);

	/* The words that are not read are not 0. */
	memset(at, 0x5a, HASHES_BYTES + count * entry_bytes);
	for (unsigned int i = 0; i < count; i++) {
		const uint32_t entry[] = {fixture->offsets[i], fixture->bytes[i]};

		memcpy(at + HASHES_BYTES + i * entry_bytes, entry, sizeof(entry));
	}
}

void v8_fixture_put_code(const struct v8_fixture *fixture, uint8_t *at)
{
	memset(at, INT3, fixture->offsets[BUILTINS]);
	for (unsigned int i = 0; i < BUILTINS; i++)
		memset(at + fixture->offsets[i], OTHER_CODE, fixture->bytes[i]);
	memcpy(at + fixture->offsets[ENTRY], v8_entry_code, sizeof(v8_entry_code));
	memcpy(at + fixture->offsets[SECOND], v8_entry_code, sizeof(v8_entry_code));
}

void v8_fixture_put(struct v8_fixture *fixture)
{
	for (unsigned int i = 0; i < BUILTINS; i++)
		fixture->offsets[i + 1] = fixture->offsets[i] + (fixture->bytes[i] / 64 + 1) * 64;
	cr_assert_leq(fixture->offsets[BUILTINS], BLOCK_ROOM);
	v8_fixture_put_table(fixture, fixture->file->data + TABLE_AT, BUILTINS);
	v8_fixture_put_code(fixture, fixture->file->text + BLOCK_AT);
}

void v8_fixture_put_sizes(uint8_t *at, unsigned int bytecodes)
{
	static const uint8_t rows[][14] = {{1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2},
					   {1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3},
					   {1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5}};

	for (unsigned int i = 0; i < V8_BYTECODE_SCALES; i++)
		memcpy(at + (size_t)i * bytecodes, rows[i], sizeof(rows[i]));
}

void v8_fixture_init(struct v8_fixture *fixture, unsigned int entry_words)
{
	struct v8_file *file = calloc(1, sizeof(*file));

	cr_assert(file);
	*fixture = (struct v8_fixture){.file = file, .entry_words = entry_words};
	file->header =
	    (Elf64_Ehdr)ELF_HEADER(.e_type = ET_DYN, .e_machine = EM_X86_64,
				   .e_phoff = offsetof(struct v8_file, data_segment), .e_phnum = 2);
	file->data_segment = (Elf64_Phdr){.p_type = PT_LOAD,
					  .p_flags = PF_R,
					  .p_offset = offsetof(struct v8_file, data),
					  .p_vaddr = DATA_VADDR,
					  .p_filesz = DATA_BYTES,
					  .p_memsz = DATA_BYTES};
	file->text_segment = (Elf64_Phdr){.p_type = PT_LOAD,
					  .p_flags = PF_R | PF_X,
					  .p_offset = offsetof(struct v8_file, text),
					  .p_vaddr = TEXT_VADDR,
					  .p_filesz = TEXT_BYTES,
					  .p_memsz = TEXT_BYTES};
	/* Other code, and several pages of padding. */
	memset(file->text, OTHER_CODE, TEXT_BYTES);
	memset(file->text + 2 * PAGE, INT3, (size_t)3 * PAGE);
	v8_fixture_put_sizes(file->data + SIZES_AT, BYTECODES);
	/* All numbers of bytes from 1 to 127. */
	for (unsigned int i = 0; i < BUILTINS; i++)
		fixture->bytes[i] = 1 + i * 37 % 127;
	fixture->bytes[ENTRY] = fixture->bytes[SECOND] = 200;
	v8_fixture_put(fixture);
}

void v8_fixture_fini(struct v8_fixture *fixture)
{
	free(fixture->file);
}

int v8_read_counted(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct v8_counted *counted = context;
	const struct elf_source source = elf_source_from_buffer(&counted->buffer);

	if (counted->reads++ >= counted->good)
		return counted->error;
	counted->bytes += length;
	return source.read(source.context, offset, buffer, length);
}

struct v8_counted v8_counted_init(const struct v8_fixture *fixture)
{
	return (struct v8_counted){.buffer = {fixture->file, sizeof(*fixture->file)},
				   .good = UINT64_MAX};
}

void v8_open_image(struct elf_image *image, const struct v8_fixture *fixture,
		   struct v8_counted *counted)
{
	struct elf_buffer buffer = {fixture->file, sizeof(*fixture->file)};
	const struct elf_source source = elf_source_from_buffer(&buffer);

	cr_assert_eq(elf_image_init(image, &source), 0);
	cr_assert_eq(image->segment_count, 2);
	image->source = (struct elf_source){v8_read_counted, counted, sizeof(*fixture->file)};
}

int v8_find_counted(const struct v8_fixture *fixture, unsigned int handlers,
		    struct v8_counted *counted, struct v8_builtins *builtins)
{
	const struct v8_builtins_form form = {fixture->entry_words, handlers};
	struct elf_image image;

	v8_open_image(&image, fixture, counted);
	const int r = v8_builtins_find(builtins, &image, &form);
	elf_image_fini(&image);
	return r;
}

int v8_find_sizes(const struct v8_fixture *fixture, unsigned int count, struct v8_counted *counted,
		  uint64_t *vaddr)
{
	struct elf_image image;

	v8_open_image(&image, fixture, counted);
	const int r = v8_bytecode_sizes_find(vaddr, &image, count);
	elf_image_fini(&image);
	return r;
}

int v8_find(const struct v8_fixture *fixture, struct v8_builtins *builtins)
{
	struct v8_counted counted = v8_counted_init(fixture);

	return v8_find_counted(fixture, HANDLERS, &counted, builtins);
}

void v8_check_found(const struct v8_fixture *fixture, uint64_t start, unsigned int count)
{
	struct v8_builtins builtins = {0};

	cr_assert_eq(v8_find(fixture, &builtins), 0);
	cr_expect_eq(builtins.start, start, "%#lx", builtins.start);
	cr_expect_eq(builtins.end, start + fixture->offsets[count]);
	cr_expect_eq(builtins.entry, start + fixture->offsets[ENTRY]);
	cr_expect_eq(builtins.entry_end, builtins.entry + fixture->bytes[ENTRY]);
	cr_expect_eq(builtins.handlers, start + fixture->offsets[count - HANDLERS]);
}

void v8_check_not_found(const struct v8_fixture *fixture, const char *why)
{
	struct v8_builtins builtins;
	const int r = v8_find(fixture, &builtins);

	cr_expect_eq(r, -ENOENT, "%s: %d", why, r);
}

uint8_t *v8_table_entry(const struct v8_fixture *fixture, unsigned int index)
{
	return fixture->file->data + TABLE_AT + HASHES_BYTES +
	       index * fixture->entry_words * sizeof(uint32_t);
}

void v8_enlarge(struct v8_fixture *fixture, unsigned int index, uint32_t more)
{
	const uint32_t bytes = fixture->bytes[index] + more;

	memcpy(v8_table_entry(fixture, index) + 4, &bytes, sizeof(bytes));
	for (unsigned int i = index + 1; i < BUILTINS; i++) {
		fixture->offsets[i] += more;
		memcpy(v8_table_entry(fixture, i), &fixture->offsets[i], sizeof(uint32_t));
	}
}

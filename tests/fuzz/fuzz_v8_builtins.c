/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the search for V8's builtins.
 *
 * How this works. A file in which builtins are found has a table of a thousand entries and a block
 * of code that obeys it, which no mutation keeps valid. So the input describes a file: the form of
 * the table, the sizes of builtins, which are repeated, the code of one builtin, and bytes of the
 * file that are changed afterwards. While it is searched the file may shrink or change.
 *
 * Example: 03 00 2c 01 4c 04 05 00 d0 00 02 00 14 04, 10 00 80 00 30 00 00 01, and 20 bytes of
 * code. Entries have 3 words. Of 1,100 builtins with 16, 128, 48, 256, 16, ... bytes, the last 300
 * are handlers. The code is that of builtin 5. There are the sizes of 208 bytecodes, and two pages
 * are before the block.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "parse/v8_builtins.h"
#include "tests/support/elf_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	PAGE = 4096,
	ALIGNMENT = 64,
	INT3 = 0xcc,
	HASHES_BYTES = 24,
	BUILTINS_MAX = V8_BUILTINS_MAX + 8,
	ENTRY_WORDS_MAX = V8_BUILTINS_ENTRY_WORDS_MAX + 1,
	SIZES_MAX = 64,
	BYTECODES_MAX = 257,
	/* The file: headers, sizes of bytecodes, the table, the block after some pages. */
	DATA_BYTES = HASHES_BYTES + BUILTINS_MAX * ENTRY_WORDS_MAX * 4 + 64,
	BLOCK_BYTES = 256 << 10,
	TEXT_BYTES = 3 * PAGE + BLOCK_BYTES,
	DATA_VADDR = 0x10000,
	TEXT_VADDR = 0x100000,
	/* Of the whole search in up to three segments, each of which may be the whole file: each
	 * twice, 16 tables, and 16 blocks. */
	READ_BYTES_MAX = 20 << 20,
};

struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	uint8_t sizes[V8_BYTECODE_SCALES * BYTECODES_MAX + 13]; /* of bytecodes, after 8 bytes */
	uint8_t data[DATA_BYTES];
	uint8_t text[TEXT_BYTES];
};
_Static_assert(sizeof(struct file) > UINT8_MAX * PAGE / 4, "something is left of a cut file");
_Static_assert(offsetof(struct file, sizes) % 16 == 8, "put_sizes() aligns them");

enum plan_flags {
	PLAN_TABLE_IN_TEXT = 1,
	PLAN_SHRINKS = 2,
	PLAN_CHANGES = 4,
	PLAN_IS_CUT = 8,
};

/* What the input describes, in this order. */
struct plan {
	uint8_t entry_words, flags;
	uint16_t handlers, builtins;
	uint16_t entry;	    /* the builtin that has `code` */
	uint16_t bytecodes; /* whose sizes are in the file */
	uint8_t page;	    /* where the block is */
	uint8_t good;	    /* reads before the file shrinks or changes */
	uint8_t size_count, code_bytes;
	uint16_t sizes[SIZES_MAX];
	const uint8_t *code;
	struct cursor changes; /* four bytes each: where, and which byte is put there */
};

/* What a search reads from. */
struct changing {
	const struct plan *plan;
	struct file *file;
	uint64_t reads, bytes;
	uint64_t size;
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

static bool plan_read(struct plan *plan, const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);

	plan->entry_words = cursor_u8(&c);
	plan->flags = cursor_u8(&c);
	plan->handlers = cursor_u16(&c);
	plan->builtins = cursor_u16(&c);
	plan->entry = cursor_u16(&c);
	plan->bytecodes = cursor_u16(&c);
	plan->page = cursor_u8(&c);
	plan->good = cursor_u8(&c);
	plan->code_bytes = cursor_u8(&c);
	plan->size_count = cursor_u8(&c);
	if (plan->size_count > SIZES_MAX)
		plan->size_count = SIZES_MAX;
	for (unsigned int i = 0; i < plan->size_count; i++)
		plan->sizes[i] = cursor_u16(&c);
	plan->code = cursor_take(&c, plan->code_bytes);
	plan->changes = c;
	plan->builtins %= BUILTINS_MAX + 1;
	plan->bytecodes %= BYTECODES_MAX + 1;
	return !c.failed && plan->size_count > 0;
}

static void put_sizes(struct file *file, unsigned int bytecodes)
{
	static const uint8_t rows[V8_BYTECODE_SCALES][14] = {
	    {1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 2, 1, 2},
	    {1, 1, 1, 1, 1, 3, 5, 7, 9, 7, 9, 3, 1, 3},
	    {1, 1, 1, 1, 1, 5, 9, 13, 17, 11, 15, 5, 1, 5}};

	for (unsigned int i = 0; i < V8_BYTECODE_SCALES && bytecodes >= 14; i++)
		memcpy(file->sizes + 8 + (size_t)i * bytecodes, rows[i], sizeof(rows[i]));
}

static uint8_t *table_at(struct file *file, const struct plan *plan)
{
	return plan->flags & PLAN_TABLE_IN_TEXT ? file->text + 8 : file->data + 8;
}

/* Writes as many builtins as there is room for. */
static void put_builtins(struct file *file, const struct plan *plan)
{
	uint8_t *block = file->text + (size_t)(plan->page % 3) * PAGE;
	uint8_t *table = table_at(file, plan) + HASHES_BYTES;
	const size_t room = plan->flags & PLAN_TABLE_IN_TEXT ? TEXT_BYTES / 2 : DATA_BYTES;
	const size_t words = plan->entry_words % (ENTRY_WORDS_MAX + 1);
	uint32_t offset = 0;

	if (plan->flags & PLAN_TABLE_IN_TEXT)
		block = file->text + TEXT_BYTES - BLOCK_BYTES / 2;
	const size_t block_bytes = (size_t)(file->text + TEXT_BYTES - block);
	for (unsigned int i = 0; i < plan->builtins && words >= 2; i++) {
		const uint32_t bytes = plan->sizes[i % plan->size_count];
		const uint32_t end = offset + (bytes / ALIGNMENT + 1) * ALIGNMENT;
		const uint32_t entry[] = {offset, bytes};

		if (end > block_bytes || (i + 1) * words * 4 + HASHES_BYTES + 8 > room)
			return;
		memcpy(table + i * words * 4, entry, sizeof(entry));
		memset(block + offset, 0x90, bytes);
		memset(block + offset + bytes, INT3, end - offset - bytes);
		if (i == plan->entry)
			memcpy(block + offset, plan->code,
			       bytes < plan->code_bytes ? bytes : plan->code_bytes);
		offset = end;
	}
}

static void put_changes(struct file *file, const struct plan *plan)
{
	struct cursor changes = plan->changes;

	while (cursor_left(&changes) >= 4) {
		const uint32_t change = cursor_u32(&changes);

		((uint8_t *)file)[(change & 0xffffff) % sizeof(*file)] = (uint8_t)(change >> 24);
	}
}

static void file_init(struct file *file, const struct plan *plan)
{
	memset(file, 0, sizeof(*file));
	file->header =
	    (Elf64_Ehdr)ELF_HEADER(.e_type = ET_DYN, .e_machine = EM_X86_64,
				   .e_phoff = offsetof(struct file, segments), .e_phnum = 3);
	file->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_R,
					 .p_vaddr = DATA_VADDR,
					 .p_filesz = offsetof(struct file, text)};
	file->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_R | PF_X,
					 .p_offset = offsetof(struct file, text),
					 .p_vaddr = TEXT_VADDR,
					 .p_filesz = TEXT_BYTES};
	put_sizes(file, plan->bytecodes);
	put_builtins(file, plan);
	/* A file that changes does so later. */
	if (!(plan->flags & PLAN_CHANGES))
		put_changes(file, plan);
}

static int read_changing(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct changing *changing = context;
	const struct plan *plan = changing->plan;

	if (changing->reads++ == plan->good) {
		if (plan->flags & PLAN_CHANGES)
			put_changes(changing->file, plan);
		if (plan->flags & PLAN_SHRINKS)
			changing->size /= 3;
	}
	struct elf_buffer left = {changing->file, changing->size};
	const struct elf_source source = elf_source_from_buffer(&left);
	const int r = source.read(source.context, offset, buffer, length);
	changing->bytes += r == 0 ? length : 0;
	return r;
}

static void check_builtins(const struct elf_image *image, const struct v8_builtins *builtins,
			   const struct changing *changing)
{
	uint8_t code[V8_ENTRY_BYTES_MAX];
	struct v8_entry entry;
	uint64_t offset;

	check(builtins->start <= builtins->entry && builtins->entry < builtins->entry_end &&
	      builtins->entry_end <= builtins->handlers && builtins->handlers < builtins->end);
	check(builtins->start % PAGE == 0);
	check(builtins->end - builtins->start <= V8_BUILTINS_CODE_BYTES_MAX);
	check(builtins->entry_end - builtins->entry <= sizeof(code));
	check(elf_image_find_segment(image, builtins->start, builtins->end - builtins->start));
	check(elf_image_vaddr_to_offset(image, builtins->entry, &offset));
	if (changing->plan->flags & (PLAN_CHANGES | PLAN_SHRINKS))
		return;
	const size_t length = (size_t)(builtins->entry_end - builtins->entry);
	check(image->source.read(image->source.context, offset, code, length) == 0);
	check(v8_entry_examine(&entry, code, length));
	check(entry.push < entry.call && entry.call < entry.leave && entry.leave < entry.removed &&
	      entry.removed < length);
}

static void search(struct changing *changing)
{
	struct elf_buffer buffer = {changing->file, changing->size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	const struct plan *plan = changing->plan;
	const struct v8_builtins_form form = {plan->entry_words % (ENTRY_WORDS_MAX + 1),
					      plan->handlers};
	struct v8_builtins builtins;
	struct elf_image image;
	uint64_t vaddr;

	if (elf_image_init(&image, &source) < 0)
		return;
	image.source = (struct elf_source){read_changing, changing, changing->size};
	if (v8_builtins_find(&builtins, &image, &form) == 0)
		check_builtins(&image, &builtins, changing);
	check(image.segment_count > 3 || changing->bytes <= READ_BYTES_MAX);
	if (v8_bytecode_sizes_find(&vaddr, &image, plan->bytecodes) == 0)
		check(elf_image_find_segment(
			  &image, vaddr, (uint64_t)plan->bytecodes * V8_BYTECODE_SCALES) != NULL);
	elf_image_fini(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct file file;
	struct plan plan;
	struct v8_entry entry;

	if (v8_entry_examine(&entry, data, size))
		check(entry.push < entry.call && entry.call < entry.leave &&
		      entry.leave < entry.removed && entry.removed < size);
	if (!plan_read(&plan, data, size))
		return 0;
	file_init(&file, &plan);
	struct changing changing = {.plan = &plan, .file = &file, .size = sizeof(file)};
	if (plan.flags & PLAN_IS_CUT)
		changing.size -= (size_t)plan.page * (PAGE / 4);
	search(&changing);
	return 0;
}

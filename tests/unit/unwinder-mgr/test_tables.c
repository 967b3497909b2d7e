/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <link.h>

#include "common/clock.h"
#include "unwinder-mgr/limits.h"
#include "parse/cfi.h"
#include "tests/support/cfi_rules.h"
#include "tests/support/unwind_memory.h"

/* ---- The walker's own search ---- */

#define UNWIND_ENV const struct walker_tables *
#define RULE_CACHE_BITS 1
#define MAPPING_HINT_BITS 0
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *env_slab(const struct walker_tables *tables, uint32_t index)
{
	return index < BH_SLABS_MAX ? tables->slabs[index] : NULL;
}

static const struct bh_module *env_module(const struct walker_tables *tables, uint32_t slot)
{
	return &tables->modules[slot];
}

static const struct bh_rule *env_rule(const struct walker_tables *tables, uint32_t number)
{
	return &tables->rules[number];
}

static const struct bh_runtime_table *env_runtimes(const struct walker_tables *tables)
{
	(void)tables;
	return NULL;
}

static int env_read(const struct walker_tables *tables, void *to, size_t bytes, uint64_t address)
{
	(void)tables;
	(void)to;
	(void)bytes;
	(void)address;
	return -1;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "bpf/unwind/step.h"

enum { SLOT = 7, NUMBER = 70 };

static uint32_t look_up(const struct unwind_memory *memory, uint64_t offset)
{
	const struct walker_tables tables = unwind_memory_tables(memory);
	uint32_t rule = UINT32_MAX;

	cr_assert_eq(tables_find_rule(&memory->modules[SLOT], &tables, offset, &rule), UNWIND_CONTINUE);
	cr_assert_lt(rule, RULES_MAX);
	return rule;
}

static struct unwind_memory memory_with(unsigned int slab_count)
{
	struct unwind_memory memory;

	cr_assert_eq(unwind_memory_init(&memory, slab_count), 0);
	return memory;
}

static uint64_t users_of_all(const struct rules *rules)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < RULES_MAX; i++)
		sum += rules->users[i];
	return sum;
}

/* Everything is given back. */
static void retire_and_check(struct unwind_memory *memory, struct table *table)
{
	table_retire(table, &memory->slabs, memory->rules, clock_monotonic_ns());
	cr_assert_eq(users_of_all(memory->rules), 0);
	slabs_reclaim(&memory->slabs, clock_monotonic_ns() + LIMIT_GRACE_MS * NS_PER_MS);
	cr_assert_eq(memory->slabs.free_bytes, (uint64_t)memory->slabs.count * BH_SLAB_BYTES);
}

/* ---- An ELF file written by hand: headers and tables in its first megabyte, then text that nobody reads ---- */

enum {
	META_BYTES = 1 << 20,
	TEXT = META_BYTES, /* file offset of the first text segment */
	SHIFT = 0x400000,  /* virtual address - file offset */
	EH_FRAME = 0x1000,
	DEBUG_FRAME = 0x80000,
	HEADERS_END = 0xf0000,
	FDES_MAX = 2000,
	ROWS_MAX = 64,
};

struct by_hand {
	uint8_t meta[META_BYTES];
	size_t eh_length, debug_length;
	uint64_t size;
	struct {
		uint64_t offset, size;
	} text[2];
	unsigned int text_count;
	struct {
		uint64_t key; /* offset << 1 | is no end */
		int32_t cfa;
	} rows[FDES_MAX * (ROWS_MAX + 1)];
	unsigned int row_count;
};

static int by_hand_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	const struct by_hand *file = context;

	for (size_t i = 0; i < length; i++)
		((uint8_t *)buffer)[i] = offset + i < META_BYTES ? file->meta[offset + i] : 0;
	return 0;
}

static struct by_hand *by_hand_new(uint64_t text_bytes)
{
	struct by_hand *file = calloc(1, sizeof(*file));

	file->text[0].offset = TEXT;
	file->text[0].size = text_bytes;
	file->text_count = 1;
	file->size = TEXT + text_bytes;
	return file;
}

struct piece {
	struct by_hand *file;
	size_t base, *length;
};

static void put(struct piece p, const void *bytes, size_t length)
{
	cr_assert_leq(*p.length + length, 0x70000);
	memcpy(p.file->meta + p.base + *p.length, bytes, length);
	*p.length += length;
}

static void put_int(struct piece p, uint64_t value, size_t bytes)
{
	put(p, &value, bytes);
}

static struct piece eh_frame(struct by_hand *file)
{
	return (struct piece){file, EH_FRAME, &file->eh_length};
}

static struct piece debug_frame(struct by_hand *file)
{
	return (struct piece){file, DEBUG_FRAME, &file->debug_length};
}

/* One CIE at the begin of each section: CFA = rsp + 8, return address at CFA - 8. */
static void put_cie(struct piece p)
{
	const bool eh = p.base == EH_FRAME;
	const uint8_t head_eh[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, head_debug[] = {1, 0, 1, 0x78, 16};
	const uint8_t code[] = {0x0c, 7, 8, 0x90, 1};
	const size_t head = eh ? sizeof(head_eh) : sizeof(head_debug);

	put_int(p, 4 + head + sizeof(code), 4);
	put_int(p, eh ? 0 : UINT32_MAX, 4);
	put(p, eh ? head_eh : head_debug, head);
	put(p, code, sizeof(code));
}

struct row {
	uint32_t at; /* from the function's start */
	int32_t cfa;
};

/* A function at file offset `offset`: what it looks like, and, in the model, what it means. */
static void put_function(struct piece p, uint64_t offset, uint32_t bytes, const struct row *rows, unsigned int count, bool model)
{
	const size_t begin = *p.length;
	struct by_hand *file = p.file;
	uint32_t at = 0;

	if (!begin)
		put_cie(p);
	const size_t entry = *p.length;
	put_int(p, 0, 4);
	if (p.base == EH_FRAME) {
		put_int(p, *p.length, 4);
		put_int(p, offset + SHIFT - (EH_FRAME + *p.length), 4);
		put_int(p, bytes, 4);
		put_int(p, 0, 1);
	} else {
		put_int(p, 0, 4);
		put_int(p, offset + SHIFT, 8);
		put_int(p, bytes, 8);
	}
	for (unsigned int i = 0; i < count; i++) {
		if (rows[i].at > at) {
			put_int(p, 0x04, 1);
			put_int(p, rows[i].at - at, 4);
			at = rows[i].at;
		}
		put_int(p, 0x0e, 1);
		put_int(p, (uint64_t)(rows[i].cfa | 0x80) & 0xff, 1);
		put_int(p, (uint64_t)rows[i].cfa >> 7, 1);
	}
	const uint32_t length = (uint32_t)(*p.length - entry - 4);
	memcpy(file->meta + p.base + entry, &length, 4);
	if (!model)
		return;
	for (unsigned int i = 0; i < count; i++) {
		file->rows[file->row_count].key = (offset + rows[i].at) << 1 | 1;
		file->rows[file->row_count++].cfa = rows[i].cfa;
	}
	file->rows[file->row_count].key = (offset + bytes) << 1;
	file->rows[file->row_count++].cfa = 0;
}

static void put_section(struct by_hand *file, unsigned int i, uint32_t name, uint32_t type, uint64_t offset, uint64_t size)
{
	const Elf64_Shdr header = {.sh_name = name, .sh_type = type, .sh_addr = type == SHT_STRTAB ? 0 : offset, .sh_offset = offset, .sh_size = size};

	memcpy(file->meta + HEADERS_END + i * sizeof(header), &header, sizeof(header));
}

static struct elf_source finish(struct by_hand *file)
{
	static const char names[] = "\0.eh_frame\0.debug_frame\0.shstrtab";
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(header),
			     .e_shoff = HEADERS_END,
			     .e_ehsize = sizeof(header),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = (uint16_t)(1 + file->text_count),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = 4,
			     .e_shstrndx = 3};
	Elf64_Phdr segments[3] = {{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = META_BYTES, .p_memsz = META_BYTES}};

	for (unsigned int i = 0; i < file->text_count; i++)
		segments[1 + i] = (Elf64_Phdr){.p_type = PT_LOAD,
					       .p_flags = PF_R | PF_X,
					       .p_offset = file->text[i].offset,
					       .p_vaddr = file->text[i].offset + SHIFT,
					       .p_filesz = file->text[i].size,
					       .p_memsz = file->text[i].size};
	memcpy(file->meta, &header, sizeof(header));
	memcpy(file->meta + sizeof(header), segments, (1 + file->text_count) * sizeof(segments[0]));
	memcpy(file->meta + HEADERS_END - 64, names, sizeof(names));
	put_section(file, 1, 1, file->eh_length ? SHT_PROGBITS : SHT_NULL, EH_FRAME, file->eh_length);
	put_section(file, 2, 11, SHT_PROGBITS, DEBUG_FRAME, file->debug_length);
	put_section(file, 3, 24, SHT_STRTAB, HEADERS_END - 64, sizeof(names));
	return (struct elf_source){.read = by_hand_read, .context = file, .size = file->size};
}

static int by_key(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What ends less than 16 bytes before the next begins does not end: padding, and code that glibc leaves out on purpose. */
static void model_fill(struct by_hand *file)
{
	unsigned int kept = 0;

	qsort(file->rows, file->row_count, sizeof(file->rows[0]), by_key);
	for (unsigned int i = 0; i < file->row_count; i++) {
		const uint64_t next = i + 1 < file->row_count ? file->rows[i + 1].key >> 1 : UINT64_MAX;

		if ((file->rows[i].key & 1) || next - (file->rows[i].key >> 1) >= 16)
			file->rows[kept++] = file->rows[i];
	}
	file->row_count = kept;
}

static void build(struct unwind_memory *memory, struct by_hand *file, struct table *table)
{
	const struct elf_source source = finish(file);
	struct unwind_table_builder builder;

	cr_assert_eq(unwind_table_build(&builder, memory->rules, &source), 0);
	cr_assert_eq(table_place(table, &builder, &memory->slabs), 0);
	unwind_table_builder_fini(&builder, memory->rules, 0);
	unwind_memory_publish(memory, SLOT, NUMBER, table);
	model_fill(file);
}

/* Is this what the last row at or before `offset` says? Where forged functions begin at the same place, any of them may be believed. */
static bool model_allows(const struct by_hand *file, uint64_t offset, int32_t cfa)
{
	uint64_t best = 0;
	bool allowed = cfa == 0;

	for (unsigned int i = 0; i < file->row_count; i++) {
		if (file->rows[i].key > (offset << 1 | 1) || file->rows[i].key < best)
			continue;
		if (file->rows[i].key > best)
			allowed = false;
		best = file->rows[i].key;
		allowed |= file->rows[i].cfa == cfa;
	}
	return allowed;
}

static void check_range(const struct unwind_memory *memory, const struct by_hand *file, uint64_t from, uint64_t to)
{
	for (uint64_t offset = from; offset < to; offset++) {
		const struct bh_rule *rule = &memory->rules->table[look_up(memory, offset)];

		cr_assert_eq(rule->kind, rule->cfa ? BH_RULE_SP : BH_RULE_FRAME_POINTER);
		cr_assert(model_allows(file, offset, rule->cfa), "offset %#lx: cfa %d", offset, rule->cfa);
	}
}

/* Table, comparison at every address (and some around), and everything given back. */
static void check(struct by_hand *file)
{
	struct unwind_memory memory = memory_with(2);
	struct table table;

	build(&memory, file, &table);
	check_range(&memory, file, TEXT - 2000, file->text[0].offset + file->text[0].size + 2000);
	cr_assert_eq(look_up(&memory, 0), 0);
	cr_assert_eq(look_up(&memory, UINT64_MAX), 0);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

#define FUNCTION(piece, offset, bytes, ...)                                                                                   \
	put_function(piece, TEXT + (offset), bytes, (const struct row[]){__VA_ARGS__},                                        \
		     sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row), true)

Test(tables, one_function)
{
	struct by_hand *file = by_hand_new(0x1000);

	FUNCTION(eh_frame(file), 0x123, 0x40, {0, 8}, {1, 16}, {4, 64}, {0x3f, 8});
	check(file);
}

Test(tables, page_boundaries)
{
	struct by_hand *file = by_hand_new(0x8000);

	FUNCTION(eh_frame(file), 0x000, 0x400, {0, 8}, {0x3ff, 16});	/* a page, to the byte */
	FUNCTION(eh_frame(file), 0x400, 0x400, {0, 16}, {1, 24});	/* its first rule is the last one's */
	FUNCTION(eh_frame(file), 0xbff, 2, {0, 8}, {1, 32});		/* across a boundary */
	FUNCTION(eh_frame(file), 0xfff, 1, {0, 40});			/* the last byte */
	FUNCTION(eh_frame(file), 0x1400, 1, {0, 48});			/* the first byte */
	FUNCTION(eh_frame(file), 0x1801, 0x1bfe, {0, 8}, {0x7ff, 56}, {0x1bfd, 8}); /* whole pages without a row */
	FUNCTION(eh_frame(file), 0x7fff, 1, {0, 64});			/* the end of the text */
	check(file);
}

/* A rule a byte: as many deltas as a page can have. */
Test(tables, a_rule_for_each_byte)
{
	struct by_hand *file = by_hand_new(0x4000);
	struct row rows[ROWS_MAX];

	for (uint32_t base = 0x300; base < 0x1800; base += ROWS_MAX) {
		for (uint32_t i = 0; i < ROWS_MAX; i++)
			rows[i] = (struct row){i, (int32_t)(8 + (base + i) % 1000 * 8)};
		put_function(eh_frame(file), TEXT + base, ROWS_MAX, rows, ROWS_MAX, true);
	}
	check(file);
}

/* A gap of 15 bytes goes with what is before it, one of 16 does not; nor does what follows the last function. */
Test(tables, gaps_below_16_bytes_belong_to_the_function_before)
{
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;
	const struct bh_rule *rules = memory.rules->table;

	FUNCTION(eh_frame(file), 0x000, 0x10, {0, 8}, {4, 80});
	FUNCTION(eh_frame(file), 0x01f, 0x10, {0, 8}, {4, 96});
	FUNCTION(eh_frame(file), 0x03f, 0x3b9, {0, 8}, {4, 112});
	FUNCTION(eh_frame(file), 0x402, 0x10, {0, 8}, {4, 120}); /* the gap is across a page's end */
	build(&memory, file, &table);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x10)].cfa, 80);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x1e)].cfa, 80);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x1f)].cfa, 8);
	cr_assert_eq(look_up(&memory, TEXT + 0x2f), 0);
	cr_assert_eq(look_up(&memory, TEXT + 0x3e), 0);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x3f8)].cfa, 112);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x400)].cfa, 112);
	cr_assert_eq(rules[look_up(&memory, TEXT + 0x402)].cfa, 8);
	cr_assert_eq(look_up(&memory, TEXT + 0x412), 0);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

/* What ends and begins with the same rule needs no delta. */
Test(tables, neighbours_with_one_rule)
{
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;

	for (uint32_t i = 0; i < 64; i++)
		FUNCTION(eh_frame(file), i * 16, 16, {0, 8});
	build(&memory, file, &table);
	const struct bh_page *page = slabs_at(&memory.slabs, &table.pages);
	cr_assert_eq(page->count, 1);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, debug_frame_only)
{
	struct by_hand *file = by_hand_new(0x1000);

	FUNCTION(debug_frame(file), 0x10, 0x100, {0, 8}, {9, 80});
	FUNCTION(debug_frame(file), 0x110, 0x100, {0, 8}, {9, 96});
	check(file);
}

/* Where both describe a function, .eh_frame's word counts; .debug_frame fills the gaps. */
Test(tables, debug_frame_fills_gaps)
{
	struct by_hand *file = by_hand_new(0x1000);
	const struct row other = {0, 800};

	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {9, 80});
	FUNCTION(eh_frame(file), 0x180, 0x10, {0, 8});
	FUNCTION(eh_frame(file), 0x300, 0x80, {0, 8}, {9, 88});
	put_function(debug_frame(file), TEXT + 0x100, 0x80, &other, 1, false);
	put_function(debug_frame(file), TEXT + 0x37f, 1, &other, 1, false);
	FUNCTION(debug_frame(file), 0x190, 0x20, {0, 8}, {3, 104});
	FUNCTION(debug_frame(file), 0x380, 0x20, {0, 112});
	FUNCTION(debug_frame(file), 0x20, 0x20, {0, 8}, {3, 120});
	check(file);
}

/* Functions in any order, also over each other. */
Test(tables, forged_functions)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		const uint32_t text = 0x3000;
		struct by_hand *file = by_hand_new(text);
		uint64_t random = seed * 0x9e3779b97f4a7c15ull;

		for (unsigned int i = 0; i < seed * 2; i++) {
			struct row rows[8];
			unsigned int count = 0;
			uint32_t at = 0;

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			uint32_t bytes = 1 + (uint32_t)(random >> 20) % (seed % 2 ? 3000 : 60);
			uint32_t offset = (uint32_t)(random >> 40) % (text - bytes);
			if (seed % 3 == 0)
				offset = (offset & ~0x3ffu) + ((random & 1) ? 0x3ff : 0);
			if (offset + bytes > text)
				bytes = text - offset;
			while (at < bytes && count < 8) {
				random = random * 6364136223846793005ull + 1442695040888963407ull;
				rows[count] = (struct row){at, (int32_t)(8 + count % 2 * 8 + (random >> 50) % 50 * 16)};
				count++;
				at += 1 + (uint32_t)(random >> 30) % 100;
			}
			put_function(eh_frame(file), TEXT + offset, bytes, rows, count, true);
		}
		check(file);
	}
}

/* Functions that are far longer than what a row can be away from the one before. */
Test(tables, rows_far_apart)
{
	struct by_hand *file = by_hand_new(0x80000);

	FUNCTION(eh_frame(file), 0x100, 0x10000, {0, 8}, {0xffff, 16});
	FUNCTION(eh_frame(file), 0x10108, 0x30000, {0, 8}, {0x10000, 24}, {0x2ffff, 32});
	FUNCTION(eh_frame(file), 0x40108, 0x20010, {0, 40}, {0x10000, 8}, {0x20001, 16});
	check(file);
}

/* The same, over each other: rows of one in the long steps of another. */
Test(tables, rows_far_apart_overlap)
{
	struct by_hand *file = by_hand_new(0x40000);

	FUNCTION(eh_frame(file), 0x100, 0x30000, {0, 8}, {0x10000, 24}, {0x2ffff, 32});
	FUNCTION(eh_frame(file), 0x10100, 0x10, {0, 48}, {4, 56});
	FUNCTION(eh_frame(file), 0x18000, 0x10800, {0, 64}, {0x10004, 72});
	FUNCTION(eh_frame(file), 0x50, 0x10000, {0, 80}, {0xfff0, 88});
	check(file);
}

/* Linked by section: what each object has of the hot, the cold and the ordinary lies elsewhere. */
Test(tables, functions_of_many_objects)
{
	struct by_hand *file = by_hand_new(0x30000);

	for (uint32_t i = 0; i < 100; i++) {
		FUNCTION(eh_frame(file), 0x20000 + i * 48, 48, {0, 8}, {1, (int32_t)(16 + i * 8)});
		FUNCTION(eh_frame(file), 0x20000 - i * 0x100, 0xf8, {0, 8}, {4, 24}, {0x40, 32});
		FUNCTION(eh_frame(file), i * 32, 9, {0, (int32_t)(64 + i * 8)});
	}
	FUNCTION(debug_frame(file), 31, 1, {0, 120});
	FUNCTION(debug_frame(file), 9, 16, {0, 128});
	FUNCTION(debug_frame(file), 0x21300, 0x100, {0, 136});
	check(file);
}

/* Addresses that are none of the text's, and ranges that end nowhere. */
Test(tables, functions_outside_of_the_text)
{
	struct by_hand *file = by_hand_new(0x1000);
	const struct row row = {0, 800};

	put_function(eh_frame(file), 0x100, 0x80, &row, 1, false);		  /* a segment without code */
	put_function(eh_frame(file), TEXT - 1, 0x80, &row, 1, false);		  /* begins before it */
	put_function(eh_frame(file), TEXT + 0xfff, 2, &row, 1, false);		  /* ends behind it */
	put_function(eh_frame(file), TEXT + 0x10, 0x7fffffff, &row, 1, false);
	put_function(eh_frame(file), TEXT + 0x10, UINT32_MAX, &row, 1, false);	  /* sdata4: -1 */
	put_function(eh_frame(file), TEXT + 0x1000, 1, &row, 1, false);
	put_function(eh_frame(file), TEXT + 0x40000000, 0x10, &row, 1, false);
	put_function(debug_frame(file), TEXT + 0x20, 0x7fffffff, &row, 1, false);
	put_function(debug_frame(file), -(uint64_t)SHIFT, 0x10, &row, 1, false);  /* address 0: dropped by the linker */
	put_function(debug_frame(file), UINT64_MAX - SHIFT - 4, 16, &row, 1, false); /* wraps */
	FUNCTION(eh_frame(file), 0x80, 0x80, {0, 8}, {4, 16});
	check(file);
}

Test(tables, nothing_to_say)
{
	struct unwind_memory memory = memory_with(1);
	struct by_hand *file = by_hand_new(0x1000);
	struct elf_source source = finish(file);
	struct unwind_table_builder builder;

	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), -ENODATA);
	/* Functions, but all of them elsewhere. */
	put_function(eh_frame(file), 0x100, 0x80, &(const struct row){0, 8}, 1, false);
	source = finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), -ENODATA);
	file->meta[0] = 0;
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), -ENOEXEC);
	finish(file);
	((Elf64_Ehdr *)file->meta)->e_machine = EM_AARCH64;
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), -ENODATA);
	cr_assert_eq(users_of_all(memory.rules), 0);
	unwind_memory_fini(&memory);
	free(file);
}

/* Two islands of code far apart: the pages between share one delta. */
Test(tables, sparse_text)
{
	const uint64_t far = 100ull << 20;
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct table table;

	file->text[1].offset = far;
	file->text[1].size = 0x1000;
	file->text_count = 2;
	file->size = far + 0x1000;
	FUNCTION(eh_frame(file), 0x10, 0x10, {0, 8}, {2, 16});
	FUNCTION(eh_frame(file), far - TEXT + 0x20, 0x900, {0, 8}, {2, 24});
	build(&memory, file, &table);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	check_range(&memory, file, far - 0x1000, far + 0x2000);
	for (uint64_t offset = TEXT + 0x1000; offset < far; offset += 777)
		cr_assert_eq(look_up(&memory, offset), 0);
	cr_assert_leq(table.bytes, table.page_count * sizeof(struct bh_page) + 512, "%zu bytes", table.bytes);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, more_text_than_a_page_index_covers)
{
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	const uint64_t far = (256ull << 20) + TEXT;
	struct elf_source source;
	struct unwind_table_builder builder;
	struct table table;

	file->text[1].offset = far;
	file->text[1].size = 0x1000;
	file->text_count = 2;
	file->size = far + 0x1000;
	FUNCTION(eh_frame(file), 0x10, 0x10, {0, 8});
	FUNCTION(eh_frame(file), far - TEXT + 0x10, 0x10, {0, 8});
	source = finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -EFBIG);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	cr_assert_eq(users_of_all(memory.rules), 0);
	cr_assert_eq(memory.slabs.free_bytes, BH_SLAB_BYTES);
	unwind_memory_fini(&memory);
	free(file);
}

/* No room: nothing is lost, and it works once there is. */
Test(tables, placed_when_there_is_room)
{
	struct by_hand *file = by_hand_new(0x10000);
	struct unwind_memory memory = memory_with(1);
	struct slab_block most;
	struct unwind_table_builder builder;
	struct table table;

	for (uint32_t i = 0; i < 1000; i++)
		FUNCTION(eh_frame(file), i * 64, 64, {0, 8}, {1, (int32_t)(16 + i % 500 * 8)}, {40, 8});
	const struct elf_source source = finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), 0);
	/* Room for the pages, but not for all deltas. */
	cr_assert_eq(slabs_alloc(&memory.slabs, BH_SLAB_BYTES - 2048, &most), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -ENOSPC);
	memory.slabs.exhausted = false;
	slabs_reclaim(&memory.slabs, clock_monotonic_ns() + LIMIT_GRACE_MS * NS_PER_MS);
	cr_assert_eq(memory.slabs.free_bytes, 2048);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), -EAGAIN);
	cr_assert_eq(unwind_memory_add_slab(&memory), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, NUMBER, &table);
	model_fill(file);
	check_range(&memory, file, TEXT, TEXT + 0x10000);
	slabs_retire(&memory.slabs, &most);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(file);
}

/* Two modules with the same rules share them; the first to go does not take them along. */
Test(tables, rules_are_shared)
{
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(2);
	struct table first, second;

	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {1, 16}, {9, 80}, {0x70, 8});
	build(&memory, file, &first);
	build(&memory, file, &second);
	cr_assert_eq(first.rule_count, 3);
	cr_assert_eq(second.rule_count, 3);
	cr_assert_eq(memory.rules->used, 4);
	cr_assert_eq(users_of_all(memory.rules), 6);
	table_retire(&first, &memory.slabs, memory.rules, clock_monotonic_ns());
	cr_assert_eq(users_of_all(memory.rules), 3);
	check_range(&memory, file, TEXT, TEXT + 0x1000);
	retire_and_check(&memory, &second);
	unwind_memory_fini(&memory);
	free(file);
}

Test(tables, rule_table_full)
{
	struct by_hand *file = by_hand_new(0x1000);
	struct unwind_memory memory = memory_with(1);
	struct unwind_table_builder builder;
	uint16_t number;

	for (int32_t i = 1; i < RULES_MAX - 2; i++)
		cr_assert_eq(rules_get(memory.rules, &(struct bh_rule){.kind = BH_RULE_FP, .cfa = i}, &number), 0);
	FUNCTION(eh_frame(file), 0x100, 0x80, {0, 8}, {1, 16}, {9, 80}, {0x70, 8});
	const struct elf_source source = finish(file);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), -ENOSPC);
	cr_assert_eq(users_of_all(memory.rules), RULES_MAX - 3, "what it had taken is given back");
	rules_put(memory.rules, 5, 0);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, &source), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_fini(&memory);
	free(file);
}

/* ---- Real files: each byte of the text, against rows painted one after the other ---- */

enum { BY_CODE = UINT32_MAX }; /* no FDE says anything, but the code may: test_uncovered_code */

struct painting {
	const struct elf_image *image;
	uint32_t *kinds; /* by file offset: a rule's number + 1, 0 for none */
	uint64_t size;
	struct cfi_rules rules;
	uint64_t overlaps;
};

static int painting_on_rule(void *context, const struct cfi_rule *rule, uint32_t *number)
{
	struct painting *painting = context;

	return cfi_rules_id(&painting->rules, rule, number);
}

static int painting_on_fde(void *context, const struct cfi_fde *fde)
{
	struct painting *painting = context;
	uint64_t begin, end;

	if (!elf_image_vaddr_to_offset(painting->image, fde->start, &begin) ||
	    !elf_image_vaddr_to_offset(painting->image, fde->end - 1, &end) || end - begin != fde->end - 1 - fde->start)
		return 0;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const uint64_t from = begin + fde->rows[i].at;
		const uint64_t to = i + 1 < fde->row_count ? begin + fde->rows[i + 1].at : end + 1;
		const uint32_t kind = fde->rows[i].rule + 1;

		for (uint64_t offset = from; offset < to; offset++) {
			painting->overlaps += painting->kinds[offset] && painting->kinds[offset] != kind;
			painting->kinds[offset] = kind;
		}
	}
	return 0;
}

static bool saved_where_it_says(uint8_t kind, int16_t words, uint8_t cfi_kind, int32_t offset, const char *what)
{
	switch (kind) {
	case BH_FP_SAME:
		return cfi_kind == CFI_SAVE_SAME && words == 0;
	case BH_FP_CFA:
		return cfi_kind == CFI_SAVE_CFA && words * 8 == offset;
	case BH_FP_REGISTER:
		return cfi_kind == CFI_SAVE_REGISTER && words * 8 == offset && what[0] == 'p';
	default:
		return kind == BH_FP_LOST && cfi_kind != CFI_SAVE_SAME &&
		       (cfi_kind != CFI_SAVE_CFA || offset % 8 || offset < -(1 << 18));
	}
}

/* Is the walker's rule what the file's means? */
static bool rule_means(const struct bh_rule *rule, const struct cfi_rule *cfi)
{
	const bool usual_ra = cfi->ra_kind == CFI_SAVE_CFA && cfi->ra_offset == -8;
	/* But for the end of longjmp: there the stack pointer is in another register as well. */
	const bool ra_in_register = cfi->ra_kind == CFI_SAVE_IN_REGISTER && cfi->cfa_register == BH_REG_RSP;

	if (rule->kind == BH_RULE_END)
		return cfi->ra_kind == CFI_SAVE_UNDEFINED;
	if (rule->kind == BH_RULE_SIGNAL)
		return cfi->signal_frame && cfi->cfa_kind == CFI_CFA_DEREF && cfi->cfa_register == BH_REG_RSP;
	if (rule->kind == BH_RULE_UNKNOWN)
		return cfi->cfa_kind == CFI_CFA_UNKNOWN || (!usual_ra && !ra_in_register);
	if (rule->cfa != cfi->cfa_offset || !saved_where_it_says(rule->fp_kind, rule->fp, cfi->fp_kind, cfi->fp_offset, "p") ||
	    !saved_where_it_says(rule->bx_kind, rule->bx, cfi->bx_kind, cfi->bx_offset, "x"))
		return false;
	if (rule->kind == BH_RULE_RA_REGISTER)
		return ra_in_register && rule->reg == cfi->ra_register;
	if (!usual_ra)
		return false;
	switch (rule->kind) {
	case BH_RULE_SP:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == BH_REG_RSP;
	case BH_RULE_FP:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == BH_REG_RBP;
	case BH_RULE_REGISTER:
		return cfi->cfa_kind == CFI_CFA_REGISTER && cfi->cfa_register == rule->reg && rule->reg != BH_REG_RSP &&
		       rule->reg != BH_REG_RBP;
	case BH_RULE_DEREF:
		return cfi->cfa_kind == CFI_CFA_DEREF && cfi->cfa_register == rule->reg && cfi->cfa_add == rule->extra;
	case BH_RULE_PLT:
		return cfi->cfa_kind == CFI_CFA_PLT && cfi->cfa_add == rule->extra;
	default:
		return false;
	}
}

static void painting_compare(const struct painting *painting, const struct unwind_memory *memory, const char *path)
{
	uint16_t *agreed = calloc(CFI_RULES_MAX + 1, sizeof(*agreed));
	uint64_t described = 0;

	for (uint64_t offset = 0; offset < painting->size; offset++) {
		const uint32_t kind = painting->kinds[offset], number = look_up(memory, offset);

		if (kind == BY_CODE)
			continue;
		described += kind != 0;
		if (!kind || !number) {
			cr_assert_eq(kind, number, "%s+%#lx: rule %u", path, offset, number);
			continue;
		}
		if (!agreed[kind]) {
			cr_assert(rule_means(&memory->rules->table[number], &painting->rules.rules[kind - 1]), "%s+%#lx: rule %u kind %u", path, offset,
				  number, memory->rules->table[number].kind);
			agreed[kind] = (uint16_t)number;
		}
		cr_assert_eq(number, agreed[kind], "%s+%#lx: rule %u, not %u", path, offset, number, agreed[kind]);
	}
	cr_assert_gt(described, 1000, "%s: %lu bytes described", path, described);
	free(agreed);
}

/* Holes of less than 16 bytes between two described ones: as what is before them. */
static void painting_fill(struct painting *painting)
{
	uint64_t last = UINT64_MAX;

	for (uint64_t offset = 0; offset < painting->size; offset++) {
		if (!painting->kinds[offset])
			continue;
		for (uint64_t gap = last + 1; last != UINT64_MAX && offset - last <= 16 && gap < offset; gap++)
			painting->kinds[gap] = painting->kinds[last];
		last = offset;
	}
}

static void painting_leave_code(struct painting *painting, const struct elf_image *image)
{
	for (unsigned int i = 0; i < image->section_count; i++) {
		const struct elf_section *section = &image->sections[i];
		/* Padding between sections belongs to the one before, too. */
		const uint64_t end = section->offset + section->size + UNWIND_GAP_BYTES;

		for (uint64_t at = section->offset; (section->flags & SHF_EXECINSTR) && at < end && at < painting->size; at++) {
			if (!painting->kinds[at])
				painting->kinds[at] = BY_CODE;
		}
	}
}

static void paint(struct painting *painting, const struct elf_source *source)
{
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	const struct cfi_sink sink = {.context = painting, .rule = painting_on_rule, .fde = painting_on_fde};
	struct elf_window window;
	struct elf_image image;
	struct cfi_stats stats;

	cr_assert_eq(elf_image_init(&image, source), 0);
	const struct elf_section *found = elf_image_find_section(&image, ".eh_frame");
	cr_assert_not_null(found);
	cr_assert_eq(elf_window_init_section(&window, &image, found, SIZE_MAX), 0);
	const struct cfi_section section = {.window = &window, .vaddr = found->vaddr};
	painting->image = &image;
	cr_assert_eq(cfi_parse(&section, &budget, &sink, &stats), 0);
	painting->image = NULL;
	painting_fill(painting);
	painting_leave_code(painting, &image);
	elf_window_fini(&window);
	elf_image_fini(&image);
}

static bool check_file(const char *path)
{
	struct unwind_file file;
	struct painting painting = {0};
	struct unwind_table_builder builder;
	struct table table;

	if (unwind_file_read(&file, path) < 0)
		return false;
	const struct elf_source *source = unwind_file_source(&file);
	struct unwind_memory memory = memory_with(8);
	painting.size = source->size;
	painting.kinds = calloc(painting.size, sizeof(painting.kinds[0]));
	cr_assert_eq(cfi_rules_init(&painting.rules), 0);
	paint(&painting, source);
	cr_assert_eq(painting.overlaps, 0, "%s: %lu bytes described twice", path, painting.overlaps);
	cr_assert_eq(unwind_table_build(&builder, memory.rules, source), 0);
	cr_assert_eq(table_place(&table, &builder, &memory.slabs), 0);
	unwind_table_builder_fini(&builder, memory.rules, 0);
	unwind_memory_publish(&memory, SLOT, NUMBER, &table);
	painting_compare(&painting, &memory, path);
	retire_and_check(&memory, &table);
	unwind_memory_fini(&memory);
	free(painting.kinds);
	cfi_rules_fini(&painting.rules);
	free(file.data);
	return true;
}

static int on_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned int *count = context;

	(void)size;
	if (info->dlpi_name[0] == '/')
		*count += check_file(info->dlpi_name);
	return 0;
}

/* libc, ld.so and what else this test is linked with; the test itself. */
Test(tables, what_is_loaded)
{
	unsigned int count = 0;

	dl_iterate_phdr(on_loaded, &count);
	cr_assert_geq(count, 2);
	cr_assert(check_file("/proc/self/exe"));
}

Test(tables, libstdcxx)
{
	if (!check_file("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"))
		cr_skip_test("not installed");
}

Test(tables, a_large_program)
{
	if (!check_file("/usr/bin/gdb") && !check_file("/usr/bin/cmake"))
		cr_skip_test("not installed");
}

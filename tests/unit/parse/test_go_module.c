/* SPDX-License-Identifier: Apache-2.0 */
/* Proves on small files that a test makes: the tables of Go programs are found in each format and
 * wherever the linkers put them, addresses are named by them as their lists say, and forged tables
 * are refused or cost a limited number of reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "go_fixture.h"
#include "parse/go_functions.h"

/* The texts of a call. */
struct texts {
	char name[64], file[64];
};

static struct texts texts_of(const struct go_opened *opened, const struct go_call *call)
{
	struct texts texts = {0};

	go_functions_text(&opened->module.names, &opened->source, call->name, texts.name,
			  sizeof(texts.name));
	if (call->has_file)
		go_functions_text(&opened->module.files, &opened->source, call->file, texts.file,
				  sizeof(texts.file));
	return texts;
}

static void check_call(const struct go_opened *opened, const struct go_call *call, const char *name,
		       const char *file, uint32_t line, uint32_t start_line)
{
	const struct texts texts = texts_of(opened, call);

	cr_expect_str_eq(texts.name, name);
	cr_expect_str_eq(texts.file, file);
	cr_expect_eq(call->has_file, file[0] != 0);
	cr_expect_eq(call->line, line, "%s: line %u", name, call->line);
	cr_expect_eq(call->start_line, opened->module.has_start_lines ? start_line : 0,
		     "%s: start line %u", name, call->start_line);
}

static bool find(const struct go_opened *opened, uint64_t at, struct go_position *position)
{
	return go_functions_find(&opened->module, &opened->source, GO_TEXT + at, position);
}

/* Checks where there is no inlined call. */
static void check_outermost(const struct go_opened *opened)
{
	struct go_position position;

	cr_assert(find(opened, 0, &position));
	cr_expect_eq(position.count, 1);
	check_call(opened, &position.calls[0], "main.run", "/src/run.go", 20, 18);
	cr_assert(find(opened, 0x61, &position));
	cr_expect_eq(position.count, 1);
	check_call(opened, &position.calls[0], "main.run", "/src/run.go", 21, 18);
	cr_assert(find(opened, GO_PADDING_AT, &position));
	cr_expect_eq(position.count, 1);
	check_call(opened, &position.calls[0], "main.run", "", 0, 18);
	cr_assert(find(opened, 0x80, &position));
	cr_expect_eq(position.count, 1);
	check_call(opened, &position.calls[0], "main.leaf[go.shape.int]", "/src/run.go", 30, 29);
	cr_assert(find(opened, GO_TEXT_BYTES - 1, &position));
	check_call(opened, &position.calls[0], "main.assembly", "", 0, 5);
	cr_expect_not(find(opened, GO_TEXT_BYTES, &position), "after the code");
	cr_expect_not(find(opened, UINT32_MAX, &position), "after the code");
	cr_expect_not(find(opened, 1ull << 32, &position), "beyond 32 bits");
	cr_expect_not(find(opened, (uint64_t)-1, &position), "before the code");
	cr_expect_not(find(opened, -GO_TEXT, &position), "before the code");
}

static void check_inlined(const struct go_opened *opened)
{
	struct go_position position;

	cr_assert(find(opened, GO_GET_AT, &position));
	cr_assert_eq(position.count, 3);
	check_call(opened, &position.calls[0], "main.get", "/src/add.go", 3, 2);
	check_call(opened, &position.calls[1], "main.add", "/src/add.go", 7, 6);
	check_call(opened, &position.calls[2], "main.run", "/src/run.go", 20, 18);
	cr_assert(find(opened, GO_ADD_AT, &position));
	cr_assert_eq(position.count, 2);
	check_call(opened, &position.calls[0], "main.add", "/src/add.go", 7, 6);
	check_call(opened, &position.calls[1], "main.run", "/src/run.go", 20, 18);
}

static const char *const format_names[] = {
    [GO_1_18] = "Go 1.18", [GO_1_20] = "Go 1.20", [GO_1_27] = "Go 1.27", [GO_PIE] = "PIE"};

Test(go_module, finds_the_tables_of_each_format)
{
	for (unsigned int format = 0; format <= GO_PIE; format++) {
		struct go_fixture fixture;
		struct go_opened opened;

		cr_log_info("%s", format_names[format]);
		go_fixture_init(&fixture, format);
		cr_assert_eq(go_open(&opened, &fixture.file), 0, "%s", format_names[format]);
		cr_expect_eq(opened.module.has_start_lines, format != GO_1_18);
		cr_expect_eq(opened.module.quantum, 1);
		cr_expect_eq(opened.module.function_count, GO_FUNCTIONS);
		cr_expect_eq(opened.module.text_vaddr, GO_TEXT);
		cr_expect_eq(opened.module.names.offset, offsetof(struct go_file, names));
		cr_expect_eq(opened.module.names.size, sizeof(fixture.file.names));
		cr_expect_eq(opened.module.functions.offset, offsetof(struct go_file, functions));
		cr_expect_eq(opened.module.inlined.offset, offsetof(struct go_file, inlined),
			     "%s: %#lx", format_names[format], opened.module.inlined.offset);
		check_outermost(&opened);
		check_inlined(&opened);
	}
}

Test(go_module, finds_moduledata_in_its_own_section_and_in_relocations)
{
	struct go_fixture fixture;
	struct go_opened opened;

	go_fixture_init(&fixture, GO_1_20);
	memcpy(fixture.file.section_names + 12, ".go.module", sizeof(".go.module") - 1);
	fixture.file.sections[GO_SECTION_MODULE].sh_name = 12;
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	check_inlined(&opened);
	/* GNU ld has renamed the section, and the linker of Go has not. */
	go_fixture_init(&fixture, GO_PIE);
	memcpy(fixture.file.section_names + 1, ".gopclntab\0", 12);
	fixture.file.sections[GO_SECTION_TABLE].sh_addr = GO_VADDR(table);
	fixture.file.sections[GO_SECTION_TABLE].sh_offset = offsetof(struct go_file, table);
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	check_inlined(&opened);
}

/* The header of the table has the address of the code before Go 1.26. */
Test(go_module, names_outermost_functions_without_moduledata)
{
	struct go_fixture fixture;
	struct go_opened opened;

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.module[GO_WORD_VALUES]++;
	cr_expect_eq(go_open(&opened, &fixture.file), -ENOENT);
	fixture.file.table.text = GO_TEXT;
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	cr_expect_eq(opened.module.inlined.size, 0);
	check_outermost(&opened);
	struct go_position position;
	cr_assert(find(&opened, GO_GET_AT, &position));
	cr_assert_eq(position.count, 1);
	/* The line at the address is that of main.get. */
	check_call(&opened, &position.calls[0], "main.run", "", 0, 18);
}

Test(go_module, refuses_a_forged_header)
{
	struct go_fixture good;
	struct go_opened opened;

	for (unsigned int format = 0; format <= GO_PIE; format++) {
		go_fixture_init(&good, format);
		struct go_file file = good.file;

		file.table.magic = 0xfffffffa; /* Go 1.16 */
		cr_expect_eq(go_open(&opened, &file), -ENOENT);
		file = good.file;
		file.table.padding = 1;
		cr_expect_eq(go_open(&opened, &file), -ENOENT);
		file = good.file;
		file.table.quantum = 2;
		cr_expect_eq(go_open(&opened, &file), -ENOENT);
		file = good.file;
		file.table.pointer_bytes = 4;
		cr_expect_eq(go_open(&opened, &file), -ENOENT);
		file = good.file;
		file.table.function_count = 1ull << 32;
		cr_expect_eq(go_open(&opened, &file), -ENOENT);
		file.table.function_count =
		    (file.sections[GO_SECTION_TABLE].sh_addr +
		     file.sections[GO_SECTION_TABLE].sh_size - GO_VADDR(functions)) /
		    8;
		cr_expect_eq(go_open(&opened, &file), -ENOENT, "no room for the end");
		file.table.function_count--;
		cr_expect_eq(go_open(&opened, &file), 0);
		file = good.file;
		file.table.names_at = 64;
		cr_expect_eq(go_open(&opened, &file), -ENOENT, "within the header");
		file = good.file;
		file.table.values_at = file.table.functions_at + 1;
		cr_expect_eq(go_open(&opened, &file), -ENOENT, "out of order");
		file = good.file;
		file.table.functions_at = 1 << 20;
		cr_expect_eq(go_open(&opened, &file), -ENOENT, "outside of the section");
		file.table.functions_at = UINT64_MAX;
		cr_expect_eq(go_open(&opened, &file), -ENOENT, "outside of the section");
	}
}

Test(go_module, refuses_a_file_without_the_sections)
{
	struct go_fixture fixture;
	struct go_opened opened;

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.header.e_shnum = 0;
	fixture.file.header.e_shoff = 0;
	cr_expect_eq(go_open(&opened, &fixture.file), -ENOENT);
	go_fixture_init(&fixture, GO_1_20);
	fixture.file.sections[GO_SECTION_TABLE].sh_type = SHT_NOBITS;
	cr_expect_eq(go_open(&opened, &fixture.file), -ENOENT);
	go_fixture_init(&fixture, GO_PIE);
	fixture.file.sections[GO_SECTION_BUILDINFO].sh_name = 0;
	cr_expect_eq(go_open(&opened, &fixture.file), -ENOENT,
		     "only in a Go program is .data.rel.ro searched");
}

/* More places look like the table, and like moduledata, than are compared. */
Test(go_module, compares_a_limited_number_of_places)
{
	struct go_fixture fixture;
	struct go_opened opened;
	struct go_file *file = &fixture.file;

	go_fixture_init(&fixture, GO_1_20);
	file->sections[GO_SECTION_MODULE].sh_offset = offsetof(struct go_file, values);
	file->sections[GO_SECTION_MODULE].sh_addr = GO_VADDR(values);
	file->sections[GO_SECTION_MODULE].sh_size += GO_VADDR(module_before) - GO_VADDR(values);
	for (unsigned int i = 0; i < 63; i++)
		memcpy((uint8_t *)file->values + i * sizeof(uint64_t),
		       &(const uint64_t){GO_VADDR(table)}, sizeof(uint64_t));
	cr_expect_eq(go_open(&opened, file), -ENOENT, "moduledata is the 65th");
	memset(file->values, 0, sizeof(uint64_t));
	cr_expect_eq(go_open(&opened, file), 0, "moduledata is the 64th");
}

/* Nothing outside of the file is read (ASan), and what is found ends within the file. */
Test(go_module, survives_any_forged_field)
{
	static const uint32_t values[] = {0, 1, 0x7f, 0x7fffffff, 0x80000000, 0xffffffff};
	struct go_fixture fixture;
	struct go_opened opened;
	struct go_position position;
	unsigned int found = 0, not_found = 0;

	for (unsigned int format = 0; format <= GO_PIE; format++) {
		go_fixture_init(&fixture, format);
		for (size_t at = offsetof(struct go_file, sections); at < sizeof(fixture.file);
		     at += 4) {
			struct go_file file = fixture.file;

			memcpy((char *)&file + at, &values[at / 4 % 6], 4);
			const int r = go_open(&opened, &file);
			cr_assert(r == 0 || r == -ENOENT, "%zu: %d", at, r);
			found += !r;
			not_found += r != 0;
			for (uint64_t i = 0; !r && i < GO_TEXT_BYTES; i += 0xb) {
				if (!find(&opened, i, &position))
					continue;
				cr_assert(position.count > 0 && position.count <= GO_CALLS_MAX);
				texts_of(&opened, &position.calls[position.count - 1]);
			}
		}
	}
	cr_assert_gt(found, 1000);
	cr_assert_gt(not_found, 20);
}

static int read_fails(void *context, uint64_t offset, void *buffer, size_t length)
{
	const struct elf_source source = elf_source_from_buffer(context);

	/* Only the words of sections are read in chunks as large as these. */
	return length > 400 ? -EIO : source.read(source.context, offset, buffer, length);
}

Test(go_module, passes_on_an_error_of_the_source)
{
	for (unsigned int format = 0; format <= GO_PIE; format++) {
		struct go_fixture fixture;
		struct elf_image image;
		struct go_module module;

		go_fixture_init(&fixture, format);
		struct elf_buffer buffer = {&fixture.file, sizeof(fixture.file)};
		struct elf_source source = elf_source_from_buffer(&buffer);
		cr_assert_eq(elf_image_init(&image, &source), 0);
		image.source.read = read_fails;
		cr_expect_eq(go_module_find(&module, &image), -EIO, "%s", format_names[format]);
		elf_image_fini(&image);
	}
}

Test(go_module, unsorted_functions_do_no_harm)
{
	struct go_fixture fixture;
	struct go_opened opened;
	struct go_position position;

	go_fixture_init(&fixture, GO_1_20);
	const uint32_t first = fixture.file.functions[0];
	fixture.file.functions[0] = fixture.file.functions[8];
	fixture.file.functions[8] = first;
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	for (uint64_t at = 0; at < GO_TEXT_BYTES; at++) {
		if (find(&opened, at, &position))
			cr_assert_eq(position.count, 1);
	}
}

Test(go_module, calls_in_a_circle_end_with_the_outermost_function)
{
	struct go_fixture fixture;
	struct go_opened opened;
	struct go_position position;

	go_fixture_init(&fixture, GO_1_20);
	fixture.file.inlined[2] = 0x2f; /* main.add is called by itself */
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	cr_assert(find(&opened, GO_GET_AT, &position));
	cr_assert_eq(position.count, GO_CALLS_MAX);
	check_call(&opened, &position.calls[0], "main.get", "/src/add.go", 3, 2);
	check_call(&opened, &position.calls[GO_CALLS_MAX - 2], "main.add", "/src/add.go", 7, 6);
	cr_expect_str_eq(texts_of(&opened, &position.calls[GO_CALLS_MAX - 1]).name, "main.run");
	fixture.file.inlined[6] = 0x35; /* so is main.get */
	cr_assert(find(&opened, GO_GET_AT, &position));
	cr_assert_eq(position.count, GO_CALLS_MAX);
	fixture.file.inlined[6] = 0xffffffff; /* the call is nowhere */
	cr_assert(find(&opened, GO_GET_AT, &position));
	cr_assert_eq(position.count, 2);
}

/* A file whose values continue without an end: a source of its own. */
#define ENDLESS_AT (1ull << 40)

struct endless {
	struct elf_buffer buffer;
	uint64_t reads;
	uint8_t bytes; /* of code per pair; the value grows by one each time */
};

static int read_endless(void *context, uint64_t offset, void *bytes, size_t length)
{
	struct endless *endless = context;
	const struct elf_source source = elf_source_from_buffer(&endless->buffer);

	endless->reads++;
	if (offset < ENDLESS_AT)
		return source.read(source.context, offset, bytes, length);
	for (size_t i = 0; i + 1 < length; i += 2)
		memcpy((uint8_t *)bytes + i, (const uint8_t[]){2, endless->bytes}, 2);
	return 0;
}

Test(go_module, a_list_without_an_end_costs_a_limited_number_of_reads, .timeout = 60)
{
	for (uint8_t bytes = 0; bytes <= 1; bytes++) {
		struct go_fixture fixture;
		struct go_opened opened;
		struct go_position position;

		/* main.run is large, and nearly the whole list would have to be read. */
		go_fixture_init(&fixture, GO_1_20);
		for (unsigned int i = 1; i <= GO_FUNCTIONS; i++)
			fixture.file.functions[2 * i] += 1u << 31;
		cr_assert_eq(go_open(&opened, &fixture.file), 0);
		struct endless endless = {{&fixture.file, sizeof(fixture.file)}, 0, bytes};
		opened.source = (struct elf_source){read_endless, &endless, UINT64_MAX};
		opened.module.values = (struct go_part){ENDLESS_AT, 1ull << 40};
		cr_assert(find(&opened, 1u << 31, &position));
		cr_expect_eq(position.count, 1);
		cr_expect_eq(position.calls[0].line, 0);
		/* 2^18 pairs of 2 bytes, in pieces of 256 bytes, and the search. */
		cr_expect_leq(endless.reads, 2048 + 100, "%lu reads", endless.reads);
	}
}

Test(go_module, a_number_of_more_than_32_bits_ends_a_list)
{
	static const uint8_t list[] = {0x82, 0x80, 0x80, 0x80, 0x80, 0x01, 0x7f, 0};
	struct go_fixture fixture;
	struct go_opened opened;
	struct go_position position;

	go_fixture_init(&fixture, GO_1_20);
	go_fixture_set_list(&fixture, 1, GO_LIST_LINES,
			    go_fixture_put_bytes(&fixture, list, sizeof(list)));
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	cr_assert(find(&opened, 0x80, &position));
	check_call(&opened, &position.calls[0], "main.leaf[go.shape.int]", "/src/run.go", 0, 29);
}

Test(go_module, cuts_a_text_that_does_not_fit)
{
	struct go_fixture fixture;
	struct go_opened opened;
	char text[8] = "xxxxxxx";

	go_fixture_init(&fixture, GO_1_20);
	cr_assert_eq(go_open(&opened, &fixture.file), 0);
	go_functions_text(&opened.module.names, &opened.source, 0, text, sizeof(text));
	cr_expect_str_eq(text, "main.ru");
	go_functions_text(&opened.module.names, &opened.source, 0, text, 1);
	cr_expect_str_eq(text, "");
	go_functions_text(&opened.module.names, &opened.source, sizeof(fixture.file.names), text,
			  sizeof(text));
	cr_expect_str_eq(text, "", "at the end");
	go_functions_text(&opened.module.names, &opened.source, UINT32_MAX, text, sizeof(text));
	cr_expect_str_eq(text, "", "after the end");
	/* The last text has no NUL. */
	memset(fixture.file.names + sizeof(fixture.file.names) - 3, 'y', 3);
	go_functions_text(&opened.module.names, &opened.source, sizeof(fixture.file.names) - 3,
			  text, sizeof(text));
	cr_expect_str_eq(text, "yyy");
}

Test(go_module, finds_nothing_in_a_file_that_is_cut_off)
{
	struct go_fixture fixture;

	for (unsigned int format = 0; format <= GO_PIE; format++) {
		go_fixture_init(&fixture, format);
		for (size_t length = 0; length < sizeof(fixture.file); length += 8) {
			struct go_opened opened;
			struct go_position position;

			cr_assert_eq(go_open(&opened, &fixture.file), 0);
			opened.buffer.length = length;
			if (find(&opened, GO_GET_AT, &position))
				cr_assert_geq(length, offsetof(struct go_file, functions));
		}
	}
}

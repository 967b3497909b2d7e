/* SPDX-License-Identifier: Apache-2.0 */
#include "go_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/elf_header.h"

enum {
	FLAG_OUTERMOST = 1,
	FLAG_SWITCHES = 2,
	FLAG_ASSEMBLY = 4,
	/* Of a description, in words, without the lists that follow. */
	WORDS_1_18 = 10,
	WORDS_1_20 = 11,
	VALUE_LISTS = 3,
	DATA_LISTS = 4,
	NONE = -1,
};

#define PAIRS(...)                                                                                 \
	(const struct go_pair[]){__VA_ARGS__},                                                     \
	    sizeof((const struct go_pair[]){__VA_ARGS__}) / sizeof(struct go_pair)

static const struct {
	const char *name;
	uint32_t start, start_line;
	uint8_t flags;
} functions[GO_FUNCTIONS] = {
    {"main.run", 0, 18, 0},
    {"main.leaf[go.shape.int]", 0x80, 29, 0},
    {"runtime.goexit", 0xa0, 1, FLAG_OUTERMOST | FLAG_ASSEMBLY},
    {"runtime.mcall", 0xb0, 2, FLAG_SWITCHES | FLAG_ASSEMBLY},
    {"runtime.systemstack", 0xc0, 3, FLAG_SWITCHES | FLAG_ASSEMBLY},
    {"runtime.sigreturn__sigaction", 0xd0, 4, FLAG_ASSEMBLY},
    {"main.assembly", 0xe0, 5, FLAG_ASSEMBLY},
};

static uint32_t put_name(struct go_fixture *fixture, const char *name)
{
	const uint32_t at = fixture->names_used;
	const size_t length = strlen(name) + 1;

	cr_assert_leq(at + length, sizeof(fixture->file.names));
	memcpy(fixture->file.names + at, name, length);
	fixture->names_used += (uint32_t)length;
	return at;
}

uint32_t go_fixture_put_bytes(struct go_fixture *fixture, const void *bytes, size_t length)
{
	const uint32_t at = fixture->values_used;

	cr_assert_leq(at + length, sizeof(fixture->file.values));
	memcpy(fixture->file.values + at, bytes, length);
	fixture->values_used += (uint32_t)length;
	return at;
}

static void put_number(struct go_fixture *fixture, uint32_t number)
{
	do {
		const uint8_t byte = (number & 0x7f) | (number > 0x7f ? 0x80 : 0);

		go_fixture_put_bytes(fixture, &byte, 1);
		number >>= 7;
	} while (number);
}

uint32_t go_fixture_put_list(struct go_fixture *fixture, const struct go_pair *pairs, size_t count)
{
	const uint32_t at = fixture->values_used;
	struct go_pair last = {-1, 0};

	for (size_t i = 0; i < count; i++) {
		const uint32_t difference = (uint32_t)pairs[i].value - (uint32_t)last.value;

		put_number(fixture, difference >> 31 ? ~(difference << 1) : difference << 1);
		put_number(fixture, pairs[i].end - last.end);
		last = pairs[i];
	}
	put_number(fixture, 0);
	return at;
}

void go_fixture_set_list(struct go_fixture *fixture, unsigned int function, enum go_list which,
			 uint32_t list)
{
	fixture->file.functions[fixture->descriptions[function] + which] = list;
}

/* Writes a description, without lists. */
static void put_function(struct go_fixture *fixture, unsigned int index)
{
	const bool start_lines = fixture->format != GO_1_18;
	const unsigned int words = start_lines ? WORDS_1_20 : WORDS_1_18;
	const uint32_t at = fixture->functions_used;
	uint32_t *entry = &fixture->file.functions[2 * index];
	uint32_t *description = &fixture->file.functions[at];

	fixture->functions_used += words + VALUE_LISTS + DATA_LISTS;
	cr_assert_leq(fixture->functions_used * sizeof(uint32_t), sizeof(fixture->file.functions));
	fixture->descriptions[index] = at;
	entry[0] = description[0] = functions[index].start;
	entry[1] = at * (uint32_t)sizeof(uint32_t);
	description[1] = put_name(fixture, functions[index].name);
	description[7] = VALUE_LISTS;
	if (start_lines)
		description[9] = functions[index].start_line;
	description[words - 1] = (uint32_t)functions[index].flags << 8 | (uint32_t)DATA_LISTS << 24;
	for (unsigned int i = 0; i < DATA_LISTS; i++)
		description[words + VALUE_LISTS + i] = (uint32_t)NONE;
}

/* Writes an inlined call. */
static void put_call(struct go_fixture *fixture, unsigned int index, uint32_t name,
		     uint32_t start_line, uint32_t parent)
{
	uint32_t *call = &fixture->file.inlined[index * (fixture->format == GO_1_18 ? 5 : 4)];

	if (fixture->format == GO_1_18) {
		call[1] = call[2] = 99; /* the file and the line of the call */
		call[3] = name;
		call[4] = parent;
	} else {
		call[1] = name;
		call[2] = parent;
		call[3] = start_line;
	}
}

/* Writes the lists of main.run, and its inlined calls. */
static void put_inlined(struct go_fixture *fixture)
{
	const unsigned int words = fixture->format == GO_1_18 ? WORDS_1_18 : WORDS_1_20;
	uint32_t *description = &fixture->file.functions[fixture->descriptions[0]];

	description[GO_LIST_SIZES] =
	    go_fixture_put_list(fixture, PAIRS({0, 1}, {8, 4}, {40, 0x60}, {8, 0x61}, {0, 0x62}));
	description[GO_LIST_FILES] =
	    go_fixture_put_list(fixture, PAIRS({0, 0x20}, {1, 0x40}, {0, 0x62}));
	description[GO_LIST_LINES] =
	    go_fixture_put_list(fixture, PAIRS({20, 0x20}, {7, 0x30}, {3, 0x40}, {21, 0x62}));
	description[words + 2] =
	    go_fixture_put_list(fixture, PAIRS({NONE, 0x20}, {0, 0x30}, {1, 0x40}, {NONE, 0x62}));
	description[words + VALUE_LISTS + 3] = 0;
	put_call(fixture, 0, put_name(fixture, "main.add"), 6, 0x1f);
	put_call(fixture, 1, put_name(fixture, "main.get"), 2, 0x2f);
}

static void put_table(struct go_fixture *fixture)
{
	struct go_file *file = &fixture->file;
	static const char files[] = "/src/run.go\0/src/add.go";

	file->table.magic = fixture->format == GO_1_18 ? 0xfffffff0 : 0xfffffff1;
	file->before_table[0] = file->table.magic; /* but no header follows */
	file->table.quantum = 1;
	file->table.pointer_bytes = 8;
	file->table.function_count = GO_FUNCTIONS;
	file->table.file_count = 2;
	file->table.names_at = GO_VADDR(names) - GO_VADDR(table);
	file->table.units_at = GO_VADDR(units) - GO_VADDR(table);
	file->table.files_at = GO_VADDR(files) - GO_VADDR(table);
	file->table.values_at = GO_VADDR(values) - GO_VADDR(table);
	file->table.functions_at = GO_VADDR(functions) - GO_VADDR(table);
	memcpy(file->files, files, sizeof(files));
	file->units[1] = (uint32_t)strlen(files) + 1;
	file->units[2] = file->units[3] = (uint32_t)NONE;

	fixture->values_used = 1; /* the offset 0 means that there is no list */
	fixture->functions_used = 2 * GO_FUNCTIONS + 1;
	for (unsigned int i = 0; i < GO_FUNCTIONS; i++)
		put_function(fixture, i);
	file->functions[(size_t)2 * GO_FUNCTIONS] = GO_TEXT_BYTES;
	put_inlined(fixture);
	go_fixture_set_list(fixture, 1, GO_LIST_SIZES,
			    go_fixture_put_list(fixture, PAIRS({0, 0x20})));
	go_fixture_set_list(fixture, 1, GO_LIST_FILES,
			    go_fixture_put_list(fixture, PAIRS({0, 0x20})));
	go_fixture_set_list(fixture, 1, GO_LIST_LINES,
			    go_fixture_put_list(fixture, PAIRS({30, 0x20})));
	go_fixture_set_list(fixture, 6, GO_LIST_SIZES,
			    go_fixture_put_list(fixture, PAIRS({0, 4}, {16, 0x20})));
}

/* Writes a word of moduledata: into the file, or into a relocation as GNU ld does. */
static void put_word(struct go_fixture *fixture, unsigned int index, uint64_t value)
{
	Elf64_Rela *relocation = fixture->file.relocations;

	if (fixture->format != GO_PIE) {
		fixture->file.module[index] = value;
		return;
	}
	while (relocation->r_info)
		relocation++;
	*relocation = (Elf64_Rela){.r_offset = GO_VADDR(module) + index * sizeof(uint64_t),
				   .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE),
				   .r_addend = (int64_t)value};
}

static void put_moduledata(struct go_fixture *fixture)
{
	static const unsigned int inlined[] = {[GO_1_18] = GO_WORD_INLINED_1_18,
					       [GO_1_20] = GO_WORD_INLINED_1_20,
					       [GO_1_27] = GO_WORD_INLINED_1_27,
					       [GO_PIE] = GO_WORD_INLINED_1_20};

	put_word(fixture, GO_WORD_TABLE, GO_VADDR(table));
	put_word(fixture, GO_WORD_NAMES, GO_VADDR(names));
	put_word(fixture, GO_WORD_VALUES, GO_VADDR(values));
	put_word(fixture, GO_WORD_TEXT, GO_TEXT);
	/* Go 1.27 has other addresses where older ones have that of the inlined calls. */
	if (fixture->format == GO_1_27) {
		put_word(fixture, GO_WORD_INLINED_1_18, GO_VADDR(module));
		put_word(fixture, GO_WORD_INLINED_1_20, GO_VADDR(buildinfo));
		put_word(fixture, GO_WORD_TABLE_END_1_27, GO_VADDR(module_before));
	}
	/* The address of the table occurs before moduledata, too. */
	if (fixture->format != GO_PIE)
		fixture->file.module_before[1] = GO_VADDR(table);
	put_word(fixture, inlined[fixture->format], GO_VADDR(inlined));
}

static void put_sections(struct go_fixture *fixture)
{
	static const char plain[] = "\0.gopclntab\0.noptrdata\0.rela.dyn\0.go.buildinfo\0.shstrtab";
	static const char pie[] = "\0.data.rel.ro\0.data\0.rela.dyn\0.go.buildinfo\0.shstrtab";
	struct go_file *file = &fixture->file;
	const bool is_pie = fixture->format == GO_PIE;
	const uint64_t starts[GO_SECTIONS] = {
	    [GO_SECTION_TABLE] = is_pie ? GO_VADDR(before_table) : GO_VADDR(table),
	    [GO_SECTION_MODULE] = GO_VADDR(module_before),
	    [GO_SECTION_RELOCATIONS] = GO_VADDR(relocations),
	    [GO_SECTION_BUILDINFO] = GO_VADDR(buildinfo),
	    [GO_SECTION_NAMES] = GO_VADDR(section_names),
	};
	const uint64_t ends[GO_SECTIONS] = {
	    [GO_SECTION_TABLE] =
		fixture->format == GO_1_27 ? GO_VADDR(module_before) : GO_VADDR(inlined),
	    [GO_SECTION_MODULE] = GO_VADDR(relocations),
	    [GO_SECTION_RELOCATIONS] = GO_BASE + sizeof(*file),
	    [GO_SECTION_BUILDINFO] = GO_VADDR(before_table),
	    [GO_SECTION_NAMES] = GO_VADDR(buildinfo),
	};
	const char *name = is_pie ? pie : plain;

	memcpy(file->section_names, name, is_pie ? sizeof(pie) : sizeof(plain));
	for (unsigned int i = 1; i < GO_SECTIONS; i++) {
		name += strlen(name) + 1;
		file->sections[i] =
		    (Elf64_Shdr){.sh_name = (uint32_t)(name - (is_pie ? pie : plain)),
				 .sh_type = SHT_PROGBITS,
				 .sh_addr = starts[i],
				 .sh_offset = starts[i] - GO_BASE,
				 .sh_size = ends[i] - starts[i]};
	}
	file->sections[GO_SECTION_RELOCATIONS].sh_type = SHT_RELA;
	file->sections[GO_SECTION_RELOCATIONS].sh_entsize = sizeof(Elf64_Rela);
	file->sections[GO_SECTION_NAMES].sh_type = SHT_STRTAB;
}

void go_fixture_init(struct go_fixture *fixture, enum go_format format)
{
	*fixture = (struct go_fixture){.format = format};
	fixture->file.header =
	    (Elf64_Ehdr)ELF_HEADER(.e_type = format == GO_PIE ? ET_DYN : ET_EXEC,
				   .e_machine = EM_X86_64,
				   .e_phoff = offsetof(struct go_file, segment),
				   .e_shoff = offsetof(struct go_file, sections), .e_phnum = 1,
				   .e_shnum = GO_SECTIONS, .e_shstrndx = GO_SECTION_NAMES);
	fixture->file.segment = (Elf64_Phdr){.p_type = PT_LOAD,
					     .p_flags = PF_R | PF_X,
					     .p_vaddr = GO_BASE,
					     .p_filesz = sizeof(fixture->file),
					     .p_memsz = 0x20000};
	put_sections(fixture);
	put_table(fixture);
	put_moduledata(fixture);
}

int go_open(struct go_opened *opened, const struct go_file *file)
{
	struct elf_image image;

	opened->buffer = (struct elf_buffer){file, sizeof(*file)};
	opened->source = elf_source_from_buffer(&opened->buffer);
	cr_assert_eq(elf_image_init(&image, &opened->source), 0);
	const int r = go_module_find(&opened->module, &image);
	elf_image_fini(&image);
	return r;
}

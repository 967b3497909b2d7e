/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/stable/inputs.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/stable/measure.h"
#include "tests/support/elf_header.h"

enum {
	FILE_BYTES_MAX = 4 << 20,
	PLT_AT = 0x1000,
	TEXT_AT = 0x2000,
	PLT_ENTRY_BYTES = 16,
	GOT_AT = 0x300000, /* beyond the end of the file: never read */
	NAMED_SECTIONS = 9,
	REG_RBX = 3,
	REG_RBP = 6,
	REG_RSP = 7,
	REG_RA = 16,
};
#define STACK_TOP 0x7ffd00000000ull
#define KERNEL_TEXT 0xffffffff81000000ull

/* Each chunk of the file is written after the previous one. */
struct writer {
	uint8_t *data;
	size_t length;
};

static void put(struct writer *w, const void *bytes, size_t length)
{
	NEED(w->length + length <= FILE_BYTES_MAX);
	memcpy(w->data + w->length, bytes, length);
	w->length += length;
}

static void put_int(struct writer *w, uint64_t value, size_t bytes)
{
	put(w, &value, bytes);
}

static void put_uleb(struct writer *w, uint32_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_int(w, value | 0x80, 1);
	put_int(w, value, 1);
}

static void put_text(struct writer *w, const char *text)
{
	put(w, text, strlen(text) + 1);
}

static void align(struct writer *w)
{
	w->length = (w->length + 15) & ~(size_t)15;
}

uint32_t input_random(uint32_t i)
{
	i = (i ^ i >> 16) * 0x7feb352du;
	i = (i ^ i >> 15) * 0x846ca68bu;
	return i ^ i >> 16;
}

void input_name(uint32_t i, char name[INPUT_NAME_BYTES])
{
	switch (i % 8) {
	case 0:
		snprintf(name, INPUT_NAME_BYTES, "_ZN5store9table%04u6insertIiNS_4pairEEEvT_RKT0_",
			 i);
		break;
	case 1:
		snprintf(name, INPUT_NAME_BYTES,
			 "_ZNSt6vectorIN5store9entry%04uESaIS1_EE9push_backERKS1_", i);
		break;
	case 2:
		snprintf(name, INPUT_NAME_BYTES, "_ZN4core3fmt13Formatter%04u9write_fmt17h%016xE",
			 i, input_random(i));
		break;
	case 3:
		snprintf(name, INPUT_NAME_BYTES, "_RNvNtCs1234_7mycrate7parse%02u8next%04u", i % 97,
			 i);
		break;
	case 4:
		snprintf(name, INPUT_NAME_BYTES, "_ZN5store9check%04uEi.cold", i);
		break;
	default:
		snprintf(name, INPUT_NAME_BYTES, "store_%s_%04u", i % 2 ? "read" : "write_page", i);
		break;
	}
}

/* ---- Call frame information, as compilers write it ---- */

enum {
	SHAPE_LEAF,   /* nothing changes */
	SHAPE_LOCALS, /* sub rsp */
	SHAPE_FRAME,  /* push rbp; mov rbp, rsp; sub rsp */
	SHAPE_PUSHES, /* rbp, rbx, r12 and so on, sub rsp; an early way out in the middle */
	SHAPE_ENTRY,  /* the outermost one */
};

static const uint8_t pushed[] = {REG_RBP, REG_RBX, 12, 13, 14, 15};

static void cfa_advance(struct writer *w, uint32_t bytes)
{
	if (bytes < 64) {
		put_int(w, 0x40 | bytes, 1);
	} else if (bytes < 256) {
		put_int(w, 0x02, 1);
		put_int(w, bytes, 1);
	} else {
		put_int(w, 0x03, 1);
		put_int(w, bytes, 2);
	}
}

static void cfa_offset(struct writer *w, uint32_t bytes)
{
	put_int(w, 0x0e, 1);
	put_uleb(w, bytes);
}

static void cfa_saved(struct writer *w, unsigned int reg, uint32_t words)
{
	put_int(w, 0x80 | reg, 1);
	put_uleb(w, words);
}

static void cfa_pushes(struct writer *w, const struct input_function *f)
{
	const uint32_t whole = 8 + 8u * f->pushes + f->frame_bytes;

	for (uint32_t i = 0; i < f->pushes; i++) {
		cfa_advance(w, 2);
		cfa_offset(w, 16 + 8 * i);
		cfa_saved(w, pushed[i], i + 2);
	}
	cfa_advance(w, 4);
	cfa_offset(w, whole);
	cfa_advance(w, f->size * 3 / 4 - 2 * f->pushes - 4);
	put_int(w, 0x0a, 1); /* remember */
	for (uint32_t i = f->pushes; i > 0; i--) {
		cfa_offset(w, 8 + 8 * i);
		cfa_advance(w, 2);
	}
	cfa_offset(w, 8);
	cfa_advance(w, 1);
	put_int(w, 0x0b, 1); /* restore */
}

static void cfa_program(struct writer *w, const struct input_function *f)
{
	switch (f->shape) {
	case SHAPE_LOCALS:
		cfa_advance(w, 4);
		cfa_offset(w, 8 + f->frame_bytes);
		cfa_advance(w, f->size - 5);
		cfa_offset(w, 8);
		break;
	case SHAPE_FRAME:
		cfa_advance(w, 1);
		cfa_offset(w, 16);
		cfa_saved(w, REG_RBP, 2);
		cfa_advance(w, 3);
		put(w, (const uint8_t[]){0x0d, REG_RBP}, 2);
		cfa_advance(w, f->size - 5);
		put(w, (const uint8_t[]){0x0c, REG_RSP, 8}, 3);
		break;
	case SHAPE_PUSHES:
		cfa_pushes(w, f);
		break;
	case SHAPE_ENTRY:
		put(w, (const uint8_t[]){0x07, REG_RA}, 2);
		break;
	}
}

/* Pads an entry to 8 bytes with DW_CFA_nop, and writes its length at its start. */
static void entry_end(struct writer *w, size_t begin)
{
	while ((w->length - begin) % 8)
		put_int(w, 0, 1);
	const uint32_t length = (uint32_t)(w->length - begin - 4);
	memcpy(w->data + begin, &length, sizeof(length));
}

static void put_eh_frame(struct writer *w, struct input_elf *elf)
{
	static const uint8_t cie[] = {1, 'z',  'R',  0,	      1, 0x78,		REG_RA,
				      1, 0x1b, 0x0c, REG_RSP, 8, 0x80 | REG_RA, 1};

	elf->eh_frame = w->length;
	put_int(w, 0, 8);
	put(w, cie, sizeof(cie));
	entry_end(w, elf->eh_frame);
	for (uint32_t i = 0; i < INPUT_FUNCTIONS; i++) {
		const struct input_function *f = &elf->functions[i];
		const size_t begin = w->length;

		put_int(w, 0, 4);
		put_int(w, w->length - elf->eh_frame, 4);
		put_int(w, f->start - w->length, 4);
		put_int(w, f->size, 4);
		put_int(w, 0, 1);
		cfa_program(w, f);
		entry_end(w, begin);
	}
	put_int(w, 0, 4);
	elf->eh_frame_length = w->length - elf->eh_frame;
}

/* ---- The file around it ---- */

static void place_functions(struct input_elf *elf)
{
	uint32_t at = TEXT_AT;

	for (uint32_t i = 0; i < INPUT_FUNCTIONS; i++) {
		const uint32_t random = input_random(i);
		struct input_function *f = &elf->functions[i];

		*f = (struct input_function){.start = at,
					     .size = 48 + random % 400,
					     .frame_bytes = 8 + (random >> 9) % 20 * 16,
					     .shape = (random >> 16) % 4,
					     .pushes = (uint8_t)(1 + (random >> 20) % 6)};
		at = (at + f->size + 15) & ~15u;
	}
	elf->functions[0].shape = SHAPE_ENTRY;
}

/* Writes entries with jmp *GOT(%rip); the rest of each is never read. */
static void put_plt(struct writer *w)
{
	w->length = PLT_AT;
	for (uint32_t i = 0; i < INPUT_IMPORTS; i++) {
		put(w, (const uint8_t[]){0xff, 0x25}, 2);
		put_int(w, GOT_AT + 8 * i - (PLT_AT + PLT_ENTRY_BYTES * i + 6), 4);
		align(w);
	}
}

static void put_relocations(struct writer *w)
{
	for (uint32_t i = 0; i < INPUT_IMPORTS; i++) {
		const Elf64_Rela rela = {.r_offset = GOT_AT + 8 * i,
					 .r_info = ELF64_R_INFO(i + 1ull, R_X86_64_JUMP_SLOT)};

		put(w, &rela, sizeof(rela));
	}
}

static void put_imports(struct writer *symbols, struct writer *strings)
{
	put_text(strings, "");
	put(symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
	for (uint32_t i = 0; i < INPUT_IMPORTS; i++) {
		const Elf64_Sym symbol = {.st_name = (uint32_t)strings->length,
					  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)};
		char name[INPUT_NAME_BYTES];

		snprintf(name, sizeof(name), "import_%u", i);
		put(symbols, &symbol, sizeof(symbol));
		put_text(strings, name);
	}
}

/* Symbols are not sorted by address, as in the output of linkers. */
static void put_symbols(struct writer *symbols, struct writer *strings, const struct input_elf *elf)
{
	put_text(strings, "");
	put(symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
	for (uint32_t i = 0; i < INPUT_FUNCTIONS; i++) {
		const uint32_t index = i * 1021 % INPUT_FUNCTIONS;
		const struct input_function *f = &elf->functions[index];
		const Elf64_Sym symbol = {
		    .st_name = (uint32_t)strings->length,
		    .st_info = ELF64_ST_INFO(index % 3 ? STB_GLOBAL : STB_LOCAL, STT_FUNC),
		    .st_shndx = 2,
		    .st_value = f->start,
		    .st_size = f->size};
		char name[INPUT_NAME_BYTES];

		input_name(index, name);
		put(symbols, &symbol, sizeof(symbol));
		put_text(strings, name);
	}
}

struct sections {
	Elf64_Shdr headers[NAMED_SECTIONS + 1];
	unsigned int count;
	struct writer names;
};

static void add_section(struct sections *s, const char *name, Elf64_Shdr header)
{
	NEED(s->count <= NAMED_SECTIONS);
	header.sh_name = (uint32_t)s->names.length;
	header.sh_addr = header.sh_flags & SHF_ALLOC ? header.sh_offset : 0;
	s->headers[s->count++] = header;
	put_text(&s->names, name);
}

/* Copies a chunk to the file and describes it. */
static void put_section(struct writer *w, struct sections *s, const char *name, Elf64_Shdr header,
			struct writer *chunk)
{
	align(w);
	header.sh_offset = w->length;
	header.sh_size = chunk->length;
	put(w, chunk->data, chunk->length);
	add_section(s, name, header);
	free(chunk->data);
}

static struct writer writer_new(void)
{
	const struct writer w = {.data = calloc(1, FILE_BYTES_MAX)};

	NEED(w.data);
	return w;
}

static void put_headers(struct writer *w, const struct sections *s)
{
	align(w);
	const uint64_t sections_at = w->length;
	put(w, s->headers, s->count * sizeof(s->headers[0]));
	const Elf64_Ehdr header =
	    ELF_HEADER(.e_type = ET_DYN, .e_machine = EM_X86_64, .e_entry = TEXT_AT,
		       .e_phoff = sizeof(header), .e_shoff = sections_at, .e_phnum = 1,
		       .e_shnum = (uint16_t)s->count, .e_shstrndx = (uint16_t)(s->count - 1));
	const Elf64_Phdr load = {
	    .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = w->length, .p_memsz = w->length};
	memcpy(w->data, &header, sizeof(header));
	memcpy(w->data + sizeof(header), &load, sizeof(load));
}

static void put_tables(struct writer *w, struct sections *s, const struct input_elf *elf)
{
	struct writer dynsym = writer_new(), dynstr = writer_new(), rela = writer_new(),
		      symtab = writer_new(), strtab = writer_new();

	put_imports(&dynsym, &dynstr);
	put_relocations(&rela);
	put_symbols(&symtab, &strtab, elf);
	put_section(w, s, ".dynsym",
		    (Elf64_Shdr){.sh_type = SHT_DYNSYM,
				 .sh_flags = SHF_ALLOC,
				 .sh_link = s->count + 1,
				 .sh_entsize = sizeof(Elf64_Sym)},
		    &dynsym);
	put_section(w, s, ".dynstr", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_flags = SHF_ALLOC},
		    &dynstr);
	put_section(w, s, ".rela.plt",
		    (Elf64_Shdr){.sh_type = SHT_RELA,
				 .sh_flags = SHF_ALLOC,
				 .sh_link = s->count - 2,
				 .sh_entsize = sizeof(Elf64_Rela)},
		    &rela);
	put_section(w, s, ".symtab",
		    (Elf64_Shdr){.sh_type = SHT_SYMTAB,
				 .sh_link = s->count + 1,
				 .sh_entsize = sizeof(Elf64_Sym)},
		    &symtab);
	put_section(w, s, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB}, &strtab);
}

struct input_elf *input_elf_new(void)
{
	struct input_elf *elf = calloc(1, sizeof(*elf));
	struct sections s = {.names = writer_new()};
	struct writer w = writer_new();
	const Elf64_Shdr code = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR};

	NEED(elf);
	place_functions(elf);
	const struct input_function *last = &elf->functions[INPUT_FUNCTIONS - 1];
	elf->plt = PLT_AT;
	add_section(&s, "", (Elf64_Shdr){0});
	put_plt(&w);
	Elf64_Shdr plt = code, text = code;
	plt.sh_offset = PLT_AT;
	plt.sh_size = w.length - PLT_AT;
	plt.sh_entsize = PLT_ENTRY_BYTES;
	add_section(&s, ".plt", plt);
	text.sh_offset = TEXT_AT;
	text.sh_size = last->start + last->size - TEXT_AT;
	add_section(&s, ".text", text);
	w.length = last->start + last->size;
	align(&w);
	put_eh_frame(&w, elf);
	add_section(&s, ".eh_frame",
		    (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				 .sh_flags = SHF_ALLOC,
				 .sh_offset = elf->eh_frame,
				 .sh_size = elf->eh_frame_length});
	put_tables(&w, &s, elf);
	struct writer names = s.names;
	put_section(&w, &s, ".shstrtab", (Elf64_Shdr){.sh_type = SHT_STRTAB}, &names);
	put_headers(&w, &s);
	elf->data = w.data;
	elf->length = w.length;
	return elf;
}

/* ---- A thread in it ---- */

static void push(struct input_stack *stack, uint64_t value)
{
	uint64_t *sp = &stack->registers.gpr[REG_RSP];

	*sp -= sizeof(value);
	NEED(*sp >= stack->start);
	memcpy(stack->bytes + (*sp - stack->start), &value, sizeof(value));
}

/* Adds the frame of a function that has run up to its middle. */
static void enter(struct input_stack *stack, const struct input_function *f)
{
	uint64_t *gpr = stack->registers.gpr;

	switch (f->shape) {
	case SHAPE_FRAME:
		push(stack, gpr[REG_RBP]);
		gpr[REG_RBP] = gpr[REG_RSP];
		gpr[REG_RSP] -= f->frame_bytes;
		break;
	case SHAPE_PUSHES:
		for (uint32_t i = 0; i < f->pushes; i++) {
			push(stack, gpr[pushed[i]]);
			gpr[pushed[i]] = input_random(i);
		}
		gpr[REG_RSP] -= f->frame_bytes;
		break;
	case SHAPE_LOCALS:
		gpr[REG_RSP] -= f->frame_bytes;
		break;
	}
	stack->registers.rip = f->start + f->size / 2;
}

struct input_stack *input_stack_new(const struct input_elf *elf)
{
	struct input_stack *stack = calloc(1, sizeof(*stack));

	NEED(stack);
	stack->start = STACK_TOP - INPUT_STACK_BYTES;
	stack->registers.gpr[REG_RSP] = STACK_TOP;
	stack->registers.gpr[15] = 1; /* not at the entry point of a program */
	for (uint32_t i = INPUT_WALK_FRAMES; i > 0; i--) {
		const uint32_t index =
		    i == INPUT_WALK_FRAMES ? 0 : 1 + input_random(i) % (INPUT_FUNCTIONS - 1);

		if (i < INPUT_WALK_FRAMES)
			push(stack, stack->registers.rip);
		enter(stack, &elf->functions[index]);
		/* A caller's frame holds the address of the call, not that of the return. */
		stack->frames[i - 1] = (uint64_t)INPUT_MODULE << BH_FRAME_OFFSET_BITS |
				       (stack->registers.rip - (i > 1));
	}
	return stack;
}

/* ---- Texts of the kernel ---- */

uint64_t input_kernel_address(uint32_t i)
{
	return KERNEL_TEXT + 96ull * i;
}

struct input_text input_kallsyms(uint32_t symbols)
{
	static const char types[] = {'T', 't', 't', 'D', 'W', 't', 'r', 'T'};
	struct input_text out = {0};
	FILE *file = open_memstream(&out.text, &out.length);

	NEED(file);
	fprintf(file, "%016" PRIx64 " T _stext\n", input_kernel_address(0));
	for (uint32_t i = 1; i < symbols; i++) {
		const uint64_t address = input_kernel_address(i);
		const char type = types[i % sizeof(types)];

		if (i == symbols / 4 * 3)
			fprintf(file, "%016" PRIx64 " T _etext\n", address);
		if (i < symbols / 4 * 3)
			fprintf(file, "%016" PRIx64 " %c __do_work_%u\n", address, type, i);
		else
			fprintf(file, "%016" PRIx64 " %c helper_%u\t[driver_%02u]\n",
				address + (64u << 20), type, i, i / 256);
	}
	NEED(!fclose(file));
	return out;
}

struct input_text input_proc_maps(uint32_t lines)
{
	static const char *const modes[] = {"r--p", "r-xp", "rw-p", "r-xp"};
	struct input_text out = {0};
	FILE *file = open_memstream(&out.text, &out.length);

	NEED(file);
	for (uint32_t i = 0; i < lines; i++) {
		const uint64_t start = 0x7f0000000000ull + ((uint64_t)i << 16);

		fprintf(file, "%" PRIx64 "-%" PRIx64 " %s %08x fe:00 %-26u", start, start + 0xf000,
			modes[i % 4], i % 4 << 12, i % 5 ? 1000 + i / 4 : 0);
		fprintf(file, i % 5 ? "/usr/lib/x86_64-linux-gnu/libexample-%u.so.1\n" : "\n",
			i / 4);
	}
	NEED(!fclose(file));
	return out;
}

int input_file(const void *data, size_t length)
{
	const int fd = memfd_create("input", MFD_CLOEXEC);

	NEED(fd >= 0 && write(fd, data, length) == (ssize_t)length);
	return fd;
}

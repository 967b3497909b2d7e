/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rows that are derived from machine code. The assembler below is the input: a region is
 * between the labels NAME and NAME_end, and the rule at each label in it is known.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parse/code_entries.h"
#include "tests/unit/parse/code_flow_fixture.h"

/* ---- One function ---- */

__asm__(".pushsection .rodata\n"
	"pushes: push %rbp\n"
	"pushes_1: push %rbx\n"
	"pushes_2: sub $0x28, %rsp\n"
	"pushes_3: mov 8(%rsp), %rbx\n" /* rbx is not saved there */
	"pushes_4: call *%rax\n"
	"pushes_5: add $0x28, %rsp\n"
	"pushes_6: pop %rbx\n"
	"pushes_7: pop %rbp\n"
	"pushes_8: ret\n"
	"pushes_end:\n"
	".popsection");

Test(code_flow, pushes_and_pops_move_the_frame)
{
	REGION(pushes, painted);

	parse(&painted, &region);
	CFA(pushes, RSP, 8);
	SAVED(pushes, 0, 0);
	CFA(pushes_1, RSP, 16);
	SAVED(pushes_1, -16, 0);
	CFA(pushes_2, RSP, 24);
	SAVED(pushes_2, -16, -24);
	CFA(pushes_3, RSP, 64);
	SAVED(pushes_4, -16, -24);
	CFA(pushes_5, RSP, 64);
	CFA(pushes_6, RSP, 24);
	SAVED(pushes_7, -16, 0);
	CFA(pushes_8, RSP, 8);
	SAVED(pushes_8, 0, 0);
	cr_expect_eq(painted.fdes, 1);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"pointer: push %rbp\n"
	"pointer_1: mov %rsp, %rbp\n"
	"pointer_2: push %rbx\n"
	"pointer_3: and $-64, %rsp\n"
	"pointer_4: sub %rax, %rsp\n"
	"pointer_5: lea -8(%rbp), %rsp\n"
	"pointer_6: pop %rbx\n"
	"pointer_7: leave\n"
	"pointer_8: ret\n"
	"pointer_end:\n"
	".popsection");

Test(code_flow, a_frame_pointer_is_preferred)
{
	REGION(pointer, painted);

	parse(&painted, &region);
	CFA(pointer_1, RSP, 16);
	CFA(pointer_2, RBP, 16);
	CFA(pointer_4, RBP, 16);
	SAVED(pointer_5, -16, -24);
	CFA(pointer_7, RBP, 16);
	SAVED(pointer_7, -16, 0);
	CFA(pointer_8, RSP, 8);
	SAVED(pointer_8, 0, 0);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"ordinary: push %rbp\n"
	"push %rbx\n"
	"lea 0x10(%rsp), %rbp\n"  /* rbp as an ordinary register */
	"ordinary_1: sub $0x100, %rsp\n"
	"ordinary_2: mov (%rdi), %rbp\n"
	"ordinary_3: lea 0x100(%rsp), %rsp\n"
	"pop %rbx\n"
	"pop %rbp\n"
	"ordinary_4: mov %rbx, -8(%rsp)\n" /* below rsp, as old compilers write it */
	"mov %rbp, -16(%rsp)\n"
	"ordinary_5: sub $0x18, %rsp\n"
	"ordinary_6: mov 0x10(%rsp), %rbx\n"
	"mov 8(%rsp), %rbp\n"
	"ordinary_7: add $0x18, %rsp\n"
	"ret\n"
	"ordinary_end:\n"
	".popsection");

Test(code_flow, registers_are_saved_and_restored)
{
	REGION(ordinary, painted);

	parse(&painted, &region);
	CFA(ordinary_1, RSP, 24);
	CFA(ordinary_2, RSP, 24 + 0x100);
	CFA(ordinary_3, RSP, 24 + 0x100);
	SAVED(ordinary_3, -16, -24);
	SAVED(ordinary_4, 0, 0);
	CFA(ordinary_5, RSP, 8);
	SAVED(ordinary_5, -24, -16);
	CFA(ordinary_6, RSP, 32);
	SAVED(ordinary_6, -24, -16);
	SAVED(ordinary_7, 0, 0);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"branches: sub $8, %rsp\n"
	"test %eax, %eax\n"
	"je branches_early\n"
	"push %rbx\n"
	"branches_1: jmp branches_tail\n"
	"branches_early: add $8, %rsp\n"
	"branches_2: ret\n"
	"branches_tail: push %rax\n"
	"branches_3: notrack jmp *%rax\n"
	"branches_case: mov $1, %eax\n" /* reached only through the table */
	"branches_4: pop %rcx\n"
	"branches_5: pop %rbx\n"
	"jmp branches_early\n"
	"branches_end:\n"
	".popsection");

Test(code_flow, all_paths_of_a_function_are_followed)
{
	REGION(branches, painted);

	parse(&painted, &region);
	CFA(branches_1, RSP, 24);
	CFA(branches_early, RSP, 16);
	CFA(branches_2, RSP, 8);
	CFA(branches_tail, RSP, 24);
	CFA(branches_3, RSP, 32);
	CFA(branches_case, RSP, 32);
	SAVED(branches_case, 0, -24);
	CFA(branches_5, RSP, 24);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"grows: mov %rdi, %rcx\n"
	"grows_loop: sub $0x1000, %rsp\n"
	"orq $0, (%rsp)\n"
	"dec %rcx\n"
	"jne grows_loop\n"
	"grows_1: call *%rax\n"
	"ud2\n"
	"grows_end:\n"
	".popsection");

Test(code_flow, a_stack_that_grows_in_a_loop_is_unknown)
{
	REGION(grows, painted);

	parse(&painted, &region);
	CFA(grows, RSP, 8);
	LOST(grows_1);
	cfi_paint_fini(&painted);
}

/* ---- Several functions ---- */

__asm__(".pushsection .rodata\n"
	"several: push %rbx\n"
	"call several_dies\n" /* does not return: another function follows */
	"several_next: push %rbp\n"
	"several_1: call several_returns\n"
	"several_2: pop %rbp\n"
	"ret\n"
	"several_dies: sub $0x18, %rsp\n"
	"several_3: mov $60, %eax\n"
	"several_again: syscall\n"
	"jmp several_again\n"
	"several_returns: push %rax\n"
	"call several_ping\n"
	"several_4: pop %rax\n"
	"ret\n"
	/* Each of these returns if the other one does. */
	"several_ping: test %eax, %eax\n"
	"je several_pong\n"
	"push %rdx\n"
	"call several_pong\n"
	"several_5: pop %rdx\n"
	"jmp several_pong\n"
	"several_pong: push %rcx\n"
	"test %eax, %eax\n"
	"jne several_out\n"
	"call several_ping\n"
	"several_out: pop %rcx\n"
	"several_6: ret\n"
	"several_end:\n"
	".popsection");

Test(code_flow, code_after_a_call_is_reached_if_the_function_returns)
{
	REGION(several, painted);

	parse(&painted, &region);
	CFA(several_next, RSP, 8);
	SAVED(several_next, 0, 0);
	CFA(several_1, RSP, 16);
	CFA(several_2, RSP, 16);
	CFA(several_dies, RSP, 8);
	CFA(several_3, RSP, 32);
	CFA(several_4, RSP, 16);
	CFA(several_5, RSP, 16);
	CFA(several_out, RSP, 16);
	CFA(several_6, RSP, 8);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"table: push %rbx\n"
	"call *%rax\n"		   /* unknown target */
	"lea table_label(%rip), %rdx\n"
	"lea table_handler(%rip), %rcx\n"
	"push %rdx\n"
	"jmp *%rdx\n"
	"table_label: mov $1, %eax\n" /* a label, not a function */
	"table_1: pop %rdx\n"
	"pop %rbx\n"
	"call *%rax\n"
	".balign 16, 0x90\n"
	"table_handler: push %rbp\n"
	"table_2: pop %rbp\n"
	"ret\n"
	"table_end:\n"
	".popsection");

Test(code_flow, taken_addresses_are_functions_unless_labels)
{
	REGION(table, painted);

	parse(&painted, &region);
	CFA(table_label, RSP, 24);
	CFA(table_1, RSP, 24);
	CFA(table_handler, RSP, 8);
	CFA(table_2, RSP, 16);
	cfi_paint_fini(&painted);
}

/* The entry point and the signal trampoline as musl has them. */
__asm__(".pushsection .rodata\n"
	"special: xor %ebp, %ebp\n"
	"mov %rsp, %rdi\n"
	"and $-16, %rsp\n"
	"call special_c\n"
	"special_1: hlt\n"
	"special_c: push %rax\n"
	"call *%rax\n"
	"special_2: pop %rax\n"
	"ret\n"
	"nop\n"
	"special_restore: mov $15, %rax\n"
	"syscall\n"
	"special_3: nop\n"
	"special_clone: mov $56, %al\n"
	"syscall\n"
	"test %eax, %eax\n"
	"jne special_parent\n"
	"xor %ebp, %ebp\n"
	"pop %rdi\n"
	"special_child: call *%r9\n"
	"mov %eax, %edi\n"
	"syscall\n"
	"hlt\n"
	"special_parent: ret\n"
	"special_end:\n"
	".popsection");

Test(code_flow, the_entry_point_and_sigreturn_end_or_cross_stacks)
{
	REGION(special, painted);

	LABEL(special_restore);
	LABEL(special_1);
	const uint64_t entries[] = {(uint64_t)special_restore};
	region.outermost = (uint64_t)special;
	region.entries = entries;
	region.entry_count = 1;
	parse(&painted, &region);
	cr_expect_eq(rule_at(&painted, special)->ra_kind, CFI_SAVE_UNDEFINED);
	cr_expect_eq(rule_before(&painted, special_1, 1)->ra_kind, CFI_SAVE_UNDEFINED);
	CFA(special_2, RSP, 16);
	/* The rule is looked up one byte before its start. */
	cr_expect_eq(rule_before(&painted, special_restore, 1)->signal_frame, 1);
	cr_expect_eq(rule_at(&painted, special_restore)->signal_frame, 1);
	CFA(special_clone, RSP, 8);
	LOST(special_child);
	CFA(special_parent, RSP, 8);
	cfi_paint_fini(&painted);
}

__asm__(".pushsection .rodata\n"
	"padded: push %rax\n"
	"pop %rax\n"
	"ret\n"
	".skip 40, 0xcc\n"
	"padded_next: push %rax\n"
	"pop %rax\n"
	"ret\n"
	".skip 9, 0\n"
	"padded_last: push %rax\n"
	".byte 0x06\n" /* an invalid opcode */
	"padded_end:\n"
	".popsection");

Test(code_flow, padding_and_data_have_no_rows)
{
	REGION(padded, painted);

	parse(&painted, &region);
	LABEL(padded_next);
	cr_expect_null(rule_before(&painted, padded_next, 1));
	CFA(padded_next, RSP, 8);
	CFA(padded_last, RSP, 8);
	cr_expect_eq(painted.fdes, 2);
	cfi_paint_fini(&painted);
}

/* ---- Comparison with the tables of compilers ---- */

struct file {
	uint8_t *data;
	size_t length;
	struct elf_buffer buffer;
	struct elf_image image;
};

static void file_open(struct file *file, const char *path)
{
	struct stat st;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(fstat(fd, &st), 0);
	file->length = (size_t)st.st_size;
	file->data = mmap(NULL, file->length, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert_neq(file->data, MAP_FAILED);
	close(fd);
	file->buffer = (struct elf_buffer){file->data, file->length};
	const struct elf_source source = elf_source_from_buffer(&file->buffer);
	cr_assert_eq(elf_image_init(&file->image, &source), 0);
}

static void file_close(struct file *file)
{
	elf_image_fini(&file->image);
	munmap(file->data, file->length);
}

static void read_eh_frame(struct cfi_paint *painted, const struct elf_image *image, uint64_t text_vaddr)
{
	const struct elf_section *section = elf_image_find_section(image, ".eh_frame");
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	const struct cfi_sink sink = cfi_paint_sink(painted);
	struct elf_window window = {0};
	struct cfi_stats stats;

	cr_assert_not_null(section);
	cr_assert_eq(elf_window_init_section(&window, image, section, 1 << 30), 0);
	const struct cfi_section cfi = {.window = &window, .vaddr = section->vaddr, .text_vaddr = text_vaddr};
	cr_assert_eq(cfi_parse(&cfi, &budget, &sink, &stats), 0);
	elf_window_fini(&window);
}

/* A file of 2 MB with 512 sections that all have the same bytes took 7 s and 541 MB. */
Test(code_flow, tables_of_functions_are_read_once_within_their_cap)
{
	struct file file;
	struct code_entries once, often, none;
	struct elf_section many[64];

	file_open(&file, "/proc/self/exe");
	const struct elf_section *table = elf_image_find_section(&file.image, ".symtab");
	cr_assert_not_null(table);
	struct elf_image forged = file.image;
	for (size_t i = 0; i < 64; i++)
		many[i] = *table;
	forged.sections = many;
	forged.section_count = 1;
	cr_assert_eq(code_entries_read(&once, &forged, table->size), 0);
	cr_assert_gt(once.count, 0);
	forged.section_count = 64;
	cr_assert_eq(code_entries_read(&often, &forged, 3 * table->size + 1), 0);
	cr_expect_eq(often.count, 3 * once.count);
	cr_assert_eq(code_entries_read(&none, &forged, table->size - 1), 0);
	cr_expect_eq(none.count, 0);
	code_entries_fini(&once);
	code_entries_fini(&often);
	code_entries_fini(&none);
	file_close(&file);
}

static bool same_cfa(const struct cfi_rule *a, const struct cfi_rule *b)
{
	return a->cfa_kind == b->cfa_kind && a->cfa_register == b->cfa_register && a->cfa_offset == b->cfa_offset;
}

/* Returns the share of bytes with the same rule, among the bytes of .text that have a rule in both. */
static double share_of_same(const char *path)
{
	struct file file;
	struct cfi_paint by_tables, by_code;
	struct code_entries entries;
	uint64_t both = 0, same = 0;

	file_open(&file, path);
	const struct elf_section *text = elf_image_find_section(&file.image, ".text");
	cr_assert_not_null(text);
	cr_assert_eq(cfi_paint_init(&by_tables, text->vaddr, text->size), 0);
	cr_assert_eq(cfi_paint_init(&by_code, text->vaddr, text->size), 0);
	read_eh_frame(&by_tables, &file.image, text->vaddr);
	cr_assert_eq(code_entries_read(&entries, &file.image, 1 << 30), 0);
	const struct code_region region = {.bytes = file.data + text->offset,
					     .length = text->size,
					     .vaddr = text->vaddr,
					     .entries = entries.vaddrs,
					     .entry_count = entries.count,
					     .outermost = file.image.entry};
	parse(&by_code, &region);
	for (uint64_t vaddr = text->vaddr; vaddr < text->vaddr + text->size; vaddr++) {
		const struct cfi_rule *said = cfi_paint_rule(&by_tables, vaddr), *found = cfi_paint_rule(&by_code, vaddr);

		if (!said || !found)
			continue;
		both++;
		same += same_cfa(said, found);
	}
	cr_assert_gt(both, text->size / 2);
	code_entries_fini(&entries);
	cfi_paint_fini(&by_tables);
	cfi_paint_fini(&by_code);
	file_close(&file);
	return (double)same / (double)both;
}

/* The rest is mostly landing pads of exceptions and cancelled threads, which no path reaches. */
Test(code_flow, agrees_with_the_tables_of_the_c_library)
{
	Dl_info info;

	cr_assert(dladdr((void *)strlen, &info));
	const double share = share_of_same(info.dli_fname);
	cr_expect_gt(share, 0.99, "%f", share);
}

Test(code_flow, agrees_with_the_tables_of_a_program)
{
	const double share = share_of_same("/bin/bash");

	cr_expect_gt(share, 0.995, "%f", share);
}

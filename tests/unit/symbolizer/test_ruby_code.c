/* SPDX-License-Identifier: Apache-2.0 */
/* What is found in Ruby's machine code, from instructions as gcc has written them for Debian. */
#include <criterion/criterion.h>
#include <string.h>

#include "symbolizer/runtime/ruby_code.h"

enum {
	VADDR = 0x10000,
	BYTES = 128
};

static uint8_t code[BYTES];

static void set(const void *bytes, size_t count)
{
	memset(code, 0x90, sizeof(code));
	memcpy(code, bytes, count);
}

#define SET(...) set((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

Test(ruby_code, a_library_has_the_address_of_the_module_and_offset)
{
	struct ruby_thread_local context = {0};

	/* push %rbx; data16 lea 0x1cc650(%rip), %rdi; data16 data16 rex.W call */
	SET(0x53, 0x66, 0x48, 0x8d, 0x3d, 0x50, 0xc6, 0x1c, 0x00, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0,
	    0);
	cr_assert(ruby_code_context(code, BYTES, VADDR, &context));
	cr_assert_eq(context.index, VADDR + 9 + 0x1cc650);
	cr_assert_eq(context.offset, 0);
}

Test(ruby_code, a_program_has_the_distance_from_the_thread_pointer)
{
	struct ruby_thread_local context = {0};

	/* mov %fs:-16, %rax */
	SET(0x64, 0x48, 0x8b, 0x04, 0x25, 0xf0, 0xff, 0xff, 0xff);
	cr_assert(ruby_code_context(code, BYTES, VADDR, &context));
	cr_assert_eq(context.index, 0);
	cr_assert_eq(context.offset, -16);
	/* mov %fs:0, %rax; lea -8(%rax), %rax: what the linker makes of the code of a library */
	SET(0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x8d, 0x80, 0xf8, 0xff, 0xff, 0xff);
	cr_assert(ruby_code_context(code, BYTES, VADDR, &context));
	cr_assert_eq(context.offset, -8);
}

Test(ruby_code, the_canary_of_the_stack_is_no_context)
{
	struct ruby_thread_local context = {0};

	/* mov %fs:0x28, %rax */
	SET(0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0);
	cr_assert_not(ruby_code_context(code, BYTES, VADDR, &context));
	cr_assert_not(ruby_code_context(code, 8, VADDR, &context));
}

Test(ruby_code, the_flags_of_the_collector_are_found)
{
	struct ruby_collector collector = {0};

	/* 3.1: mov 0x2df7a1(%rip), %rax; mov (%rax), %rax; mov 0x450(%rax), %rax;
	 * movzbl 0x10(%rax), %eax; shr $5, %al; and $1, %eax; ret */
	SET(0x48, 0x8b, 0x05, 0xa1, 0xf7, 0x2d, 0x00, 0x48, 0x8b, 0x00, 0x48, 0x8b, 0x80, 0x50,
	    0x04, 0, 0, 0x0f, 0xb6, 0x40, 0x10, 0xc0, 0xe8, 0x05, 0x83, 0xe0, 0x01, 0xc3);
	cr_assert(ruby_code_collector(code, BYTES, VADDR, &collector));
	cr_assert_eq(collector.variable, VADDR + 7 + 0x2df7a1);
	cr_assert(collector.is_indirect);
	cr_assert_eq(collector.space, 0x450);
	cr_assert_eq(collector.flags, 0x10);
	cr_assert_eq(collector.mask, 1 << 5);
	/* 3.3: endbr64; lea 0x372b7d(%rip), %rax; mov (%rax), %rax; test %rax, %rax; je; ... */
	SET(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05, 0x7d, 0x2b, 0x37, 0x00, 0x48, 0x8b, 0x00,
	    0x48, 0x85, 0xc0, 0x74, 0x15, 0x48, 0x8b, 0x80, 0x18, 0x05, 0, 0, 0x0f, 0xb6, 0x40,
	    0x10, 0xc1, 0xe8, 0x05, 0x83, 0xe0, 0x01, 0xc3);
	cr_assert(ruby_code_collector(code, BYTES, VADDR, &collector));
	cr_assert_eq(collector.variable, VADDR + 11 + 0x372b7d);
	cr_assert_not(collector.is_indirect);
	cr_assert_eq(collector.space, 0x518);
	code[30] = 0xc3;
	collector.space = 1;
	cr_assert_not(ruby_code_collector(code, BYTES, VADDR, &collector));
	cr_assert_eq(collector.space, 1, "untouched");
}

Test(ruby_code, the_end_of_rb_vm_exec_starts_after_the_call)
{
	struct function_range leave[RUBY_LEAVE_PARTS] = {0};

	/* call; mov; pop %rbx; pop %rbp; ret, where 0xc3 in the mov is no ret */
	SET(0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0x5b, 0x5d, 0xc3);
	cr_assert(ruby_code_leave(code, BYTES, VADDR, 0, leave));
	cr_assert_eq(leave[0].start, VADDR + 5);
	cr_assert_eq(leave[0].end, VADDR + 11);
	cr_assert_eq(leave[1].end, 0, "there is one part");
	/* call; jmp 0x20 */
	SET(0xe8, 0, 0, 0, 0, 0xe9, 0x16, 0, 0, 0, 0x5b, 0xc3);
	code[0x24] = 0x5b;
	code[0x25] = 0xc3;
	cr_assert(ruby_code_leave(code, BYTES, VADDR, 0, leave));
	cr_assert_eq(leave[0].start, VADDR + 0x20);
	cr_assert_eq(leave[0].end, VADDR + 0x26);
	/* A jump out of the code. */
	SET(0xe8, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0x80);
	cr_assert_not(ruby_code_leave(code, BYTES, VADDR, 0, leave));
	cr_assert_not(ruby_code_leave(code, 8, VADDR, 0, leave));
}

Test(ruby_code, the_end_of_rb_vm_exec_may_be_before_the_call)
{
	struct function_range leave[RUBY_LEAVE_PARTS] = {0};

	/* 2.7: at 0x10, call; test %eax, %eax; je 0; jmp; and at 0, pop %rbx; ret */
	SET(0x90, 0x5b, 0xc3);
	memcpy(code + 0x10,
	       ((const uint8_t[]){0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x0f, 0x84, 0xe3, 0xff, 0xff, 0xff,
				  0xe9}),
	       14);
	cr_assert(ruby_code_leave(code, BYTES, VADDR, 0x10, leave));
	cr_assert_eq(leave[0].start, VADDR + 0x15);
	cr_assert_eq(leave[0].end, VADDR + 0x1d);
	cr_assert_eq(leave[1].start, VADDR);
	cr_assert_eq(leave[1].end, VADDR + 3);
	/* 3.4: call; jmp 0x20. At 0x20, test %esi, %esi; je 0x30. At 0x30, add $0x118, %rsp; ret */
	SET(0xe8, 0, 0, 0, 0, 0xe9, 0x16, 0, 0, 0);
	memcpy(code + 0x20, ((const uint8_t[]){0x85, 0xf6, 0x74, 0x0c}), 4);
	memcpy(code + 0x30, ((const uint8_t[]){0x48, 0x81, 0xc4, 0x18, 0x01, 0, 0, 0xc3}), 8);
	cr_assert(ruby_code_leave(code, BYTES, VADDR, 0, leave));
	cr_assert_eq(leave[0].start, VADDR + 0x20);
	cr_assert_eq(leave[0].end, VADDR + 0x24);
	cr_assert_eq(leave[1].start, VADDR + 0x30);
	cr_assert_eq(leave[1].end, VADDR + 0x38);
}

Test(ruby_code, a_branch_out_of_the_code_is_no_end_of_rb_vm_exec)
{
	struct function_range leave[RUBY_LEAVE_PARTS] = {0};

	SET(0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x0f, 0x84, 0xe3, 0xff, 0xff, 0x80, 0x5b, 0xc3);
	cr_assert_not(ruby_code_leave(code, BYTES, VADDR, 0, leave));
	/* It is cut. */
	cr_assert_not(ruby_code_leave(code, 12, VADDR, 0, leave));
}

Test(ruby_code, the_table_of_names_is_found_by_the_last_id)
{
	uint64_t ids = 0;

	/* 3.1: cmp 0x2d1b60(%rip), %edi */
	SET(0x90, 0x3b, 0x3d, 0x60, 0x1b, 0x2d, 0x00, 0x73, 0x10);
	cr_assert(ruby_code_ids(code, BYTES, VADDR, &ids));
	cr_assert_eq(ids, VADDR + 7 + 0x2d1b60 + 16);
	/* 4.0: mov 0x5323aa(%rip), %eax; cmp %eax, %ebx */
	SET(0x90, 0x8b, 0x05, 0xaa, 0x23, 0x53, 0x00, 0x39, 0xc3, 0x73, 0x46);
	cr_assert(ruby_code_ids(code, BYTES, VADDR, &ids));
	cr_assert_eq(ids, VADDR + 7 + 0x5323aa + 16);
	cr_assert_not(ruby_code_ids(code, 8, VADDR, &ids), "the comparison is cut off");
	/* A variable that is loaded, and another register that is compared. */
	SET(0x90, 0x8b, 0x05, 0xaa, 0x23, 0x53, 0x00, 0x39, 0xcb, 0x73, 0x46);
	cr_assert_not(ruby_code_ids(code, BYTES, VADDR, &ids));
}

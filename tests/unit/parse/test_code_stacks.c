/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules are derived from code that loads the stack pointer. */
#include "tests/unit/parse/code_flow_fixture.h"

/* As Go's systemstack: it calls something on another stack, and comes back. */
__asm__(".pushsection .rodata\n"
	"switched: push %rbp\n"
	"switched_1: mov %rsp, %rbp\n"
	"switched_2: mov 0x38(%rdx), %rsp\n"
	"switched_3: and $-16, %rsp\n"
	"switched_4: call *%rax\n"
	"switched_5: mov %rax, %rsp\n"
	"switched_6: mov %rbp, %rsp\n"
	"switched_7: leave\n"
	"ret\n"
	"switched_end:\n"
	"reloaded: push %rbp\n"
	"mov %rsp, %rbp\n"
	"mov -8(%rbp), %rsp\n" /* from its own frame: its own stack */
	"reloaded_1: leave\n"
	"ret\n"
	"reloaded_end:\n"
	".popsection");

#define OTHER_STACK(label)                                                                         \
	do {                                                                                       \
		LABEL(label);                                                                      \
		const struct cfi_rule *rule = rule_at(&painted, label);                               \
		cr_assert_not_null(rule, #label);                                                  \
		cr_expect_eq(rule->cfa_kind, CFI_CFA_OTHER_STACK, #label);                         \
		cr_expect_eq(rule->cfa_register, RBP, #label);                                     \
		cr_expect_eq(rule->cfa_offset, 16, #label);                                        \
		cr_expect_eq(rule->fp_offset, -16, #label);                                        \
	} while (0)

Test(code_stacks, a_loaded_stack_pointer_means_another_stack)
{
	REGION(switched, painted);

	parse(&painted, &region);
	CFA(switched_2, RBP, 16);
	OTHER_STACK(switched_3);
	OTHER_STACK(switched_4);
	OTHER_STACK(switched_6);
	CFA(switched_7, RBP, 16);
	cfi_paint_fini(&painted);
}

Test(code_stacks, a_stack_pointer_from_the_frame_is_on_the_same_stack)
{
	REGION(reloaded, painted);

	parse(&painted, &region);
	CFA(reloaded_1, RBP, 16);
	cfi_paint_fini(&painted);
}

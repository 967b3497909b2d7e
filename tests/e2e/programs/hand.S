/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as a person or an odd compiler writes them. The functions hand_pass_* call the next one;
 * the others use CPU time themselves. Expressions (DW_CFA_def_cfa_expression is 0x0f, then length,
 * then operations): DW_OP_breg7 (rsp + n) 0x77, DW_OP_breg6 (rbp + n) 0x76, DW_OP_deref 0x06,
 * DW_OP_plus_uconst 0x23.
 */
#define FUNCTION(name)				\
	.globl	name;				\
	.type	name, @function;		\
	.p2align 4;				\
name:	.cfi_startproc
#define END(name)				\
	.cfi_endproc;				\
	.size	name, . - name

	.text
/* rdi: the function to burn in */
FUNCTION(hand_push)
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	push	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	mov	$0x1234, %ebp			/* no frame pointer: walking by it goes nowhere */
	sub	$1000, %rsp
	.cfi_adjust_cfa_offset 1000
	call	hand_pass_rbx
	add	$1000, %rsp
	.cfi_adjust_cfa_offset -1000
	pop	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
END(hand_push)

/* CFA by rbp, which is not where a frame pointer would be: 40 bytes further down */
FUNCTION(hand_pass_rbx)
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	lea	-40(%rsp), %rbp
	.cfi_def_cfa %rbp, 56
	mov	$77, %eax
	shl	$4, %eax
	sub	$48, %rsp
	sub	%rax, %rsp			/* by as much as nobody could know */
	call	hand_pass_deref
	lea	40(%rbp), %rsp
	.cfi_def_cfa %rsp, 16
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
END(hand_pass_rbx)

/* the stack is realigned; its old value is kept at 16(%rsp) */
FUNCTION(hand_pass_deref)
	mov	%rsp, %rax
	.cfi_def_cfa_register %rax
	and	$-128, %rsp
	sub	$256, %rsp
	mov	%rax, 16(%rsp)
	.cfi_escape 0x0f, 5, 0x77, 16, 0x06, 0x23, 8	/* CFA = *(rsp + 16) + 8 */
	call	hand_pass_state
	mov	16(%rsp), %rsp
	.cfi_def_cfa %rsp, 8
	ret
END(hand_pass_deref)

/* two ways out: remember and restore */
FUNCTION(hand_pass_state)
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	push	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	test	%rdi, %rdi
	jnz	1f
	.cfi_remember_state
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
1:	.cfi_restore_state
	call	*%rdi
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
END(hand_pass_state)

/* the stack pointer never rests */
FUNCTION(hand_moving)
1:	push	%rax
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
	sub	$72, %rsp
	.cfi_adjust_cfa_offset 72
	incq	chain_sink(%rip)
	add	$80, %rsp
	.cfi_adjust_cfa_offset -80
	pushf
	.cfi_adjust_cfa_offset 8
	pop	%rax
	.cfi_adjust_cfa_offset -8
	pop	%rax
	.cfi_adjust_cfa_offset -8
	jmp	1b
END(hand_moving)

/* CFA by a register that only the innermost frame can have */
FUNCTION(hand_r10)
	lea	8(%rsp), %r10
	.cfi_def_cfa %r10, 0
	and	$-64, %rsp
	sub	$640, %rsp
1:	incq	chain_sink(%rip)
	jmp	1b
END(hand_r10)

/* CFA = *(rsp + 24): no addition after the load */
FUNCTION(hand_deref)
	lea	8(%rsp), %rax
	.cfi_def_cfa %rax, 0
	and	$-32, %rsp
	sub	$320, %rsp
	mov	%rax, 24(%rsp)
	.cfi_escape 0x0f, 3, 0x77, 24, 0x06
	xor	%eax, %eax
1:	incq	chain_sink(%rip)
	jmp	1b
END(hand_deref)

/* CFA = *(rbp - 8) + 16, rbp saved at CFA - 16 */
FUNCTION(hand_deref_plus)
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov	%rsp, %rax
	.cfi_def_cfa_register %rax
	and	$-64, %rsp
	mov	%rsp, %rbp
	sub	$64, %rsp
	mov	%rax, -8(%rbp)
	.cfi_escape 0x0f, 5, 0x76, 0x78, 0x06, 0x23, 16
	xor	%eax, %eax
1:	incq	chain_sink(%rip)
	jmp	1b
END(hand_deref_plus)

/* CFA by rbx in the innermost frame, while rsp moves */
FUNCTION(hand_rbx)
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	mov	%rsp, %rbx
	.cfi_def_cfa_register %rbx
1:	sub	$4096, %rsp
	incq	chain_sink(%rip)
	add	$4096, %rsp
	jmp	1b
END(hand_rbx)
	.section .note.GNU-stack, "", @progbits

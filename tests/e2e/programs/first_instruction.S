/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction before first_instruction belongs to another function with another frame. */
	.text
	.globl	before_first
	.type	before_first, @function
before_first:
	.cfi_startproc
	sub	$4096, %rsp
	.cfi_adjust_cfa_offset 4096
	ud2
	.cfi_endproc
	.size	before_first, . - before_first

	.globl	first_instruction
	.type	first_instruction, @function
first_instruction:
	.cfi_startproc
	ud2
	ret
	.cfi_endproc
	.size	first_instruction, . - first_instruction
	.section .note.GNU-stack, "", @progbits

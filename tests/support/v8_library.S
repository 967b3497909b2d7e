/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with what V8 has of its builtins: their code, the table that says where each of them
 * is, the table of their names, and the version, which is exported. All of them have symbols,
 * which `strip` removes. There are 1,100 builtins, "B0" to "B1099", of 1 to 127 bytes; the twelfth
 * one is called InterpreterEntryTrampoline. The table of names is in the second buffer of an
 * elf_window (parse/elf_window.h).
 */
	.altmacro

	.macro text_of name, number
	.pushsection .rodata.texts, "a"
text_\number:
	.asciz "\name"
	.popsection
	.endm

	.macro builtin name, number, size
	.pushsection .text.builtins, "ax"
	.type Builtins_\name, @function
	.size Builtins_\name, \size
Builtins_\name:
	.skip \size, 0x90
	.byte 0xcc
	.balign 64, 0xcc
	.popsection
	.pushsection .rodata.table, "a"
	.long Builtins_\name - code, \size, 0
	.popsection
	.pushsection .data.rel.ro.names, "aw"
	.quad text_\number, 1, 0
	.popsection
	text_of <\name>, \number
	.endm

	.macro numbered number, size
	builtin B\number, \number, \size
	.endm

	.pushsection .text.builtins, "ax"
	.balign 4096
code:
	.popsection
	.pushsection .rodata.table, "a"
	.balign 8
	.skip 24, 0x5a
v8_table:
	.popsection
	.pushsection .data.rel.ro.names, "aw"
	.skip 1 << 16
	.balign 8
	.quad 0, 0, 0
v8_names:
	.popsection

	.set number, 0
	.rept 1100
	.if number == 11
	builtin InterpreterEntryTrampoline, 11, 127
	.else
	numbered %number, %(1 + number * 37 % 127)
	.endif
	.set number, number + 1
	.endr

	.pushsection .data.rel.ro.names, "aw"
	.quad 0, 0, 0
	.popsection

	.data
	.globl _ZN2v88internal7Version6major_E
	.type _ZN2v88internal7Version6major_E, @object
	.size _ZN2v88internal7Version6major_E, 4
_ZN2v88internal7Version6major_E:
	.long 13

	.section .note.GNU-stack, "", @progbits

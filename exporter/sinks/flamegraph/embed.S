/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three parts of the flame graph page as bytes in the program. FLAMEGRAPH_HTML, FLAMEGRAPH_CSS
 * and FLAMEGRAPH_JS are absolute paths and come from CMakeLists.txt, because gcc and clang search
 * for the file of an .incbin in different directories.
 */
	.macro embed name, path
	.global \name
	.global \name\()_end
	.type \name, %object
	.type \name\()_end, %object
\name:
	.incbin "\path"
\name\()_end:
	.size \name, . - \name
	.byte 0
	.endm

	.section .rodata, "a", %progbits
	embed flamegraph_html, FLAMEGRAPH_HTML
	embed flamegraph_css, FLAMEGRAPH_CSS
	embed flamegraph_js, FLAMEGRAPH_JS

	.section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's three parts, put into the program as they are. FLAMEGRAPH_HTML, _CSS and _JS are absolute paths and come from
 * CMakeLists.txt: an assembler's search path for .incbin differs between gcc and clang.
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

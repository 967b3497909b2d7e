/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's three parts, put into the program as they are; before the script, what CMakeLists.txt makes of common/runtimes.def. FLAMEGRAPH_HTML, _CSS, _JS and _KINDS are absolute paths and come from
 * CMakeLists.txt: an assembler's search path for .incbin differs between gcc and clang.
 */
	.macro embed name, path, before
	.global \name
	.global \name\()_end
	.type \name, %object
	.type \name\()_end, %object
\name:
	.ifnb \before
	.incbin "\before"
	.endif
	.incbin "\path"
\name\()_end:
	.size \name, . - \name
	.byte 0
	.endm

	.section .rodata, "a", %progbits
	embed flamegraph_html, FLAMEGRAPH_HTML
	embed flamegraph_css, FLAMEGRAPH_CSS
	embed flamegraph_js, FLAMEGRAPH_JS, FLAMEGRAPH_KINDS

	.section .note.GNU-stack, "", %progbits

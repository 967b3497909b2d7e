/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * How much of its frame compiled JavaScript has at the place where it was interrupted, by the
 * instructions from there on.
 *
 * How this works. Baseline, Maglev and TurboFan code builds and removes its frame in one way only
 * (src/codegen/x64, src/compiler/backend/x64/code-generator-x64.cc: AssembleConstructFrame and
 * AssembleReturn):
 *
 *	55		push rbp
 *	48 89 e5	mov rbp, rsp
 *	56 57 50	push rsi; push rdi; push rax	context, function, number of arguments
 *	...
 *	5d or c9	pop rbp, or leave
 *	48 83 f9 02	cmp rcx, 2
 *	7f 03		jg +3
 *	c2 10 00	ret 16
 *	41 5a		pop r10
 *	48 8d 24 cc	lea rsp, [rsp + rcx * 8]
 *	41 52 c3	push r10; ret
 *
 * Maglev uses r8 and r9 for rcx and r10, and may use the long form of jg, 0f 8f and four bytes.
 *
 * Up to V8 12 some instructions before the push check whether the code is still valid. The code of
 * regular expressions has its beginning after its loop, but pushes no rsi there.
 *
 * Example: the bytes at pc are 48 83 f9 02 7f 03 c2 10. So rbp is that of the caller already, and
 * the return address is at rsp: V8_CODE_POPPED.
 */
#ifndef BPF_RUNTIME_V8_CODE_H
#define BPF_RUNTIME_V8_CODE_H

#include "bpf/unwind/bits.h"

enum v8_code_state {
	V8_CODE_COMPLETE,
	V8_CODE_NOT_BEGUN,   /* the return address is at rsp, the function in rdi */
	V8_CODE_PUSHED,	     /* rbp is at rsp, the return address above it, the function in rdi */
	V8_CODE_LINKED,	     /* rbp is set; the function is still only in rdi */
	V8_CODE_POPPED,	     /* the return address is at rsp, and rbp is the caller's */
	V8_CODE_RA_POPPED,   /* the same, and the return address was moved to r9 or r10 */
	V8_CODE_ARGS_POPPED, /* the same, and the arguments were removed */
	V8_CODE_ARGS_PUSHED, /* the same, and the return address was pushed again */
};

enum {
	V8_CODE_BYTES = 40, /* of the code that is examined, with 8 more than are looked at */
	V8_CODE_SEARCH = 28 /* how far before the push pc may be: the checks of V8 11 and 12 */
};

/* Returns 8 bytes of the code at byte `at`. */
static __always_inline uint64_t v8_code_at(const uint64_t *code, uint64_t at)
{
	const uint64_t index = bits_mask(at >> 3, 3), shift = (at & 7) * 8;

	return shift ? code[index] >> shift | code[index + 1] << (64 - shift) : code[index];
}

/* Returns whether the code begins with the jg over the ret. */
static __always_inline int v8_code_is_jump(uint64_t code)
{
	return (code & 0xffffff) == 0xc2037f ||
	       ((code & 0xffff) == 0x8f0f && (code >> 48 & 0xff) == 0xc2);
}

/* Returns whether the code begins with lea rsp, [rsp + rcx * 8] or with r8 for rcx. */
static __always_inline int v8_code_is_lea(uint32_t code)
{
	return code == 0xcc248d48 || code == 0xc4248d4a;
}

static __always_inline int v8_code_state(const uint64_t *code)
{
	const uint64_t first = code[0];

	if ((uint32_t)first == 0x56e58948)
		return V8_CODE_PUSHED;
	if ((first & 0xffffff) == 0x505756 || (first & 0xffff) == 0x5057)
		return V8_CODE_LINKED;
	if ((first & 0xff) == 0xc2 || v8_code_is_jump(first))
		return V8_CODE_POPPED;
	if ((first & 0xff) == 0xc3)
		return V8_CODE_ARGS_PUSHED;
	/* push r9 or r10; ret */
	if ((first & 0xffffff) == 0xc35141 || (first & 0xffffff) == 0xc35241)
		return V8_CODE_ARGS_POPPED;
	if (v8_code_is_lea((uint32_t)first))
		return V8_CODE_RA_POPPED;
	/* pop r9 or r10; lea */
	if (((first & 0xffff) == 0x5941 || (first & 0xffff) == 0x5a41) &&
	    v8_code_is_lea((uint32_t)(first >> 16)))
		return V8_CODE_POPPED;
	/* cmp rcx or r8 with a number of one byte, or of four */
	if (((first & 0xf8fffe) == 0xf88348 && v8_code_is_jump(v8_code_at(code, 4))) ||
	    ((first & 0xf8fffe) == 0xf88148 && v8_code_is_jump(v8_code_at(code, 7))))
		return V8_CODE_POPPED;
	UNWIND_NO_UNROLL
	for (uint64_t i = 0; i < V8_CODE_SEARCH; i++) {
		if ((v8_code_at(code, i) & 0xffffffffff) == 0x56e5894855)
			return V8_CODE_NOT_BEGUN;
	}
	return V8_CODE_COMPLETE;
}

/* Returns whether the code is that of Maglev, with the return address in r9 and the number of
 * arguments in r8, in the states V8_CODE_RA_POPPED and V8_CODE_ARGS_POPPED. */
static __always_inline int v8_code_uses_r9(const uint64_t *code, int state)
{
	return state == V8_CODE_RA_POPPED ? (code[0] & 0xff) == 0x4a
					  : (code[0] >> 8 & 0xff) == 0x51;
}

#endif

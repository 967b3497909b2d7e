/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * How much of its frame a compiled method has at the place where it was interrupted, by its
 * instructions.
 *
 * C1, C2 and the wrappers of native methods build and remove frames in few ways
 * (MacroAssembler::verified_entry and C1_MacroAssembler::build_frame; the epilogues in x86_64.ad
 * and c1_LIRAssembler_x86.cpp).
 *
 * Example: a method begins with "mov [rsp - 0x14000], eax" (7 bytes), "push rbp" (1 byte),
 * "sub rsp, 0x20" (4 bytes). Interrupted up to offset 7 it has no frame. At offset 8 rbp is pushed.
 * At offset 12 the frame is complete.
 */
#ifndef BPF_RUNTIME_HOTSPOT_FRAME_H
#define BPF_RUNTIME_HOTSPOT_FRAME_H

#include "bpf/shared.h"

enum hotspot_frame_state {
	HOTSPOT_COMPLETE,
	HOTSPOT_NOT_BEGUN, /* or removed: the return address is at rsp */
	HOTSPOT_PUSHED,	   /* rbp is at rsp, and the return address above it */
	HOTSPOT_SIZED,	   /* rsp has been moved, and rbp is not saved yet */
	HOTSPOT_UNKNOWN,
};

enum {
	HOTSPOT_PROLOGUE_BYTES = 32,
	HOTSPOT_EPILOGUE_BYTES = 16,
	HOTSPOT_BANG_BYTES = 7, /* mov [rsp - N], eax */
};

/* Returns 8 bytes of the code at byte `at` (a constant). */
static inline __attribute__((always_inline)) uint64_t hotspot_code_at(const uint64_t *code,
								      unsigned int at)
{
	const uint64_t *words = &code[at >> 3];

	return at & 7 ? words[0] >> (at & 7) * 8 | words[1] << (64 - (at & 7) * 8) : words[0];
}

/* Returns the state of a frame that was interrupted `offset` bytes (not 0) after the verified
 * entry. `code` is the code at the entry. */
static inline __attribute__((always_inline)) int hotspot_prologue(const uint64_t *code,
								  uint64_t offset)
{
	uint64_t first = hotspot_code_at(code, 0), next = hotspot_code_at(code, 8), end = 1;

	/* mov [rsp - N], eax: the check of the stack's size. Or a jmp of 5 bytes, which replaces it
	 * once the method is not to be entered any more. */
	if ((first & 0xffffff) == 0x248489 || (first & 0xff) == 0xe9) {
		if (offset <= HOTSPOT_BANG_BYTES)
			return HOTSPOT_NOT_BEGUN;
		offset -= HOTSPOT_BANG_BYTES;
		first = hotspot_code_at(code, 7);
		next = hotspot_code_at(code, 15);
	}
	if ((first & 0xff) == 0x55) { /* push rbp; mov rbp, rsp; sub rsp, N */
		if ((first >> 8 & 0xffffff) == 0xec8b48)
			end = 4;
		const uint64_t at = end == 4 ? first >> 32 | next << 32 : first >> 8;

		if ((at & 0xffffff) == 0xec8348)
			end += 4;
		else if ((at & 0xffffff) == 0xec8148)
			end += 7;
		return offset < end ? HOTSPOT_PUSHED : HOTSPOT_COMPLETE;
	}
	/* sub rsp, N; mov [rsp + M], rbp */
	if ((first & 0xffffff) == 0xec8348)
		end = 4 + ((first >> 48 & 0xff) == 0x6c ? 5 : 8);
	else if ((first & 0xffffff) == 0xec8148)
		end = 7 + ((next >> 8 & 0xff) == 0x6c ? 5 : 8);
	else
		return HOTSPOT_UNKNOWN;
	return offset < end ? HOTSPOT_SIZED : HOTSPOT_COMPLETE;
}

/* Returns the state of a frame that was complete before, and was interrupted at `code`. Between the
 * end of the frame and the return is the poll of the safepoint, in three forms. */
static inline __attribute__((always_inline)) int hotspot_epilogue(const uint64_t *code)
{
	const uint64_t first = hotspot_code_at(code, 0), next = hotspot_code_at(code, 8),
		       ret = 0xc3;
	const uint32_t two = first & 0xffff, three = first & 0xffffff;

	if ((first & 0xff) == 0x5d)
		return HOTSPOT_PUSHED;
	if ((first & 0xff) == ret)
		return HOTSPOT_NOT_BEGUN;
	/* cmp rsp, [r15 + N] */
	if (three == 0xa73b49 || three == 0x673b49)
		return HOTSPOT_NOT_BEGUN;
	/* mov r10, [r15 + N]; test [r10], eax; ret */
	if (three == 0x978b4d && first >> 56 == 0x41 && (next & 0xffffff) == 0xc30285)
		return HOTSPOT_NOT_BEGUN;
	if ((uint32_t)first == 0xc3028541)
		return HOTSPOT_NOT_BEGUN;
	/* test [rip + N], eax; ja; jne; and ret */
	if ((two == 0x0585 || two == 0x870f || two == 0x850f) && (first >> 48 & 0xff) == ret)
		return HOTSPOT_NOT_BEGUN;
	/* cmp qword [r15 + N], 0; jne; ret */
	if ((three == 0x7f8349 && (next >> 24 & 0xff) == ret) ||
	    (three == 0xbf8349 && (next >> 48 & 0xff) == ret))
		return HOTSPOT_NOT_BEGUN;
	return HOTSPOT_COMPLETE;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of a function at one of its instructions, and what an instruction does to it. x86-64,
 * decoded with Zydis. Pure. See code_frame.c for how this works.
 */
#ifndef PARSE_CODE_FRAME_H
#define PARSE_CODE_FRAME_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/cfi_types.h"

enum {
	CODE_LOST = INT32_MIN, /* a distance that is unknown */
};

enum code_frame_kind {
	CODE_FRAME_CALLED,    /* an ordinary function */
	CODE_FRAME_OUTERMOST, /* where the program is entered: there is no caller */
	CODE_FRAME_SIGNAL,    /* the function to which a signal handler returns */
};

/* All distances are in bytes, from the CFA (rsp before the call) downwards. */
struct code_frame {
	int32_t sp; /* of rsp, or CODE_LOST */
	int32_t fp; /* of rbp while it is a frame pointer, otherwise CODE_LOST */
	/* Of the places where the caller's rbp and rbx are saved; 0: still in the register. */
	int32_t fp_saved, bx_saved;
	uint16_t kind; /* enum code_frame_kind */
	/* rsp was loaded with a value that has nothing to do with this frame: the function runs on
	 * another stack now. */
	bool other_stack;
};

/* An instruction, decoded without its operands, which matter for few instructions. */
struct code_instruction {
	ZydisDecodedInstruction head;
	ZydisDecoderContext context;
};

/* Returns the frame at the first instruction of a function. */
struct code_frame code_frame_at_entry(enum code_frame_kind kind);

/* Changes the frame as the instruction does. For a jump that is the frame at its target, for a call
 * that after the return. */
void code_frame_step(struct code_frame *frame, const ZydisDecoder *decoder,
		     const struct code_instruction *instruction);

/* Returns whether the instruction is a nop or int3, with which compilers fill the gap before an
 * aligned function. */
bool code_instruction_is_padding(const struct code_instruction *instruction);

/* Returns whether the bytes start with the code to which a signal handler returns. */
bool code_is_sigreturn(const uint8_t *bytes, size_t left);

bool code_frame_equal(const struct code_frame *a, const struct code_frame *b);

/* Returns the unwind rule of a frame; CFI_CFA_FRAME_POINTER if neither rsp nor rbp is known. */
struct cfi_rule code_frame_rule(const struct code_frame *frame);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function's frame is while it runs, followed through its instructions: what each of them
 * does to rsp, rbp and rbx, and the rule that this makes. x86-64, decoded by Zydis. Pure.
 */
#ifndef PARSE_CODE_FRAME_H
#define PARSE_CODE_FRAME_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

#include "parse/cfi.h"

enum {
	CODE_LOST = INT32_MIN, /* a distance that is not known */
};

enum code_frame_kind {
	CODE_FRAME_CALLED,
	CODE_FRAME_OUTERMOST, /* the program's first: there is no caller */
	CODE_FRAME_SIGNAL,    /* the function that a signal handler returns into */
};

/* All distances are from the canonical frame address (rsp before the call) down, in bytes. */
struct code_frame {
	int32_t sp; /* of rsp, or CODE_LOST */
	int32_t fp; /* of rbp while that is a frame pointer, else CODE_LOST */
	/* Of the place where the caller's rbp, rbx lie; 0 while they are still in the register. */
	int32_t fp_saved, bx_saved;
	uint32_t kind; /* enum code_frame_kind */
};

/* Decoded but for its operands, of which most do not matter. */
struct code_instruction {
	ZydisDecodedInstruction head;
	ZydisDecoderContext context;
};

/* At a function's first instruction. */
struct code_frame code_frame_at_entry(enum code_frame_kind kind);

/* The frame behind an instruction that does not go elsewhere, or where it goes. */
void code_frame_step(struct code_frame *frame, const ZydisDecoder *decoder,
		     const struct code_instruction *instruction);

bool code_frame_equal(const struct code_frame *a, const struct code_frame *b);

/* As a rule; of what is lost, CFI_CFA_FRAME_POINTER. */
struct cfi_rule code_frame_rule(const struct code_frame *frame);

#endif

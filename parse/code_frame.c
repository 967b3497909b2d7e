/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_frame.h"

enum {
	WORD = 8,
	DWARF_RBP = 6,
	DWARF_RSP = 7,
	DISTANCE_MAX = 1 << 24, /* no frame is larger */
};

struct code_frame code_frame_at_entry(enum code_frame_kind kind)
{
	return (struct code_frame){.sp = WORD, .fp = CODE_LOST, .kind = kind};
}

bool code_frame_equal(const struct code_frame *a, const struct code_frame *b)
{
	return a->sp == b->sp && a->fp == b->fp && a->fp_saved == b->fp_saved &&
	       a->bx_saved == b->bx_saved && a->kind == b->kind;
}

/* ---- Distances ---- */

/* `distance` - `offset`, if both are known and a frame can be as large. */
static int32_t distance_less(int32_t distance, int64_t offset)
{
	if (distance == CODE_LOST || offset > DISTANCE_MAX || offset < -DISTANCE_MAX)
		return CODE_LOST;
	const int64_t result = distance - offset;
	return result >= -DISTANCE_MAX && result <= DISTANCE_MAX ? (int32_t)result : CODE_LOST;
}

/* rsp is there now. What lies below it is not saved any more. */
static void frame_move(struct code_frame *frame, int32_t sp)
{
	/* The return address is gone: what this is, is no function's frame. */
	if (sp != CODE_LOST && sp < WORD)
		sp = CODE_LOST;
	const bool shrinks = sp != CODE_LOST && (frame->sp == CODE_LOST || sp < frame->sp);
	if (shrinks && frame->fp_saved > sp)
		frame->fp_saved = 0;
	if (shrinks && frame->bx_saved > sp)
		frame->bx_saved = 0;
	frame->sp = sp;
}

/* Of the memory at [register + displacement], or CODE_LOST. */
static int32_t frame_place(const struct code_frame *frame, const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    operand->mem.index != ZYDIS_REGISTER_NONE ||
	    operand->mem.segment == ZYDIS_REGISTER_FS || operand->mem.segment == ZYDIS_REGISTER_GS)
		return CODE_LOST;
	if (operand->mem.base == ZYDIS_REGISTER_RSP)
		return distance_less(frame->sp, operand->mem.disp.value);
	if (operand->mem.base == ZYDIS_REGISTER_RBP)
		return distance_less(frame->fp, operand->mem.disp.value);
	return CODE_LOST;
}

/* ---- Registers ---- */

/* An instruction with its operands. */
struct step {
	const ZydisDecodedInstruction *head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool operand_is(const ZydisDecodedOperand *operand, ZydisRegister reg)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && operand->reg.value == reg;
}

/* A register goes to the place: if it still is the caller's, that is where it is found. */
static void frame_save(struct code_frame *frame, const ZydisDecodedOperand *from, int32_t place)
{
	if (place == CODE_LOST || place <= WORD)
		return;
	if (operand_is(from, ZYDIS_REGISTER_RBP) && !frame->fp_saved && frame->fp == CODE_LOST)
		frame->fp_saved = place;
	if (operand_is(from, ZYDIS_REGISTER_RBX) && !frame->bx_saved)
		frame->bx_saved = place;
}

/* A register comes from the place: the caller's, if that is where it was saved. */
static void frame_restore(struct code_frame *frame, const ZydisDecodedOperand *to, int32_t place)
{
	if (operand_is(to, ZYDIS_REGISTER_RBP)) {
		frame->fp = CODE_LOST;
		if (place != CODE_LOST && place == frame->fp_saved)
			frame->fp_saved = 0;
	}
	if (operand_is(to, ZYDIS_REGISTER_RBX) && place != CODE_LOST && place == frame->bx_saved)
		frame->bx_saved = 0;
}

static void frame_pop(struct code_frame *frame, const ZydisDecodedOperand *to)
{
	const int32_t place = frame->sp;

	frame_restore(frame, to, place);
	frame_move(frame,
		   operand_is(to, ZYDIS_REGISTER_RSP) ? CODE_LOST : distance_less(place, WORD));
}

/* rsp or rbp gets a value that is `distance` below the CFA. */
static bool frame_assign(struct code_frame *frame, const ZydisDecodedOperand *to, int32_t distance)
{
	if (operand_is(to, ZYDIS_REGISTER_RSP))
		frame_move(frame, distance);
	else if (operand_is(to, ZYDIS_REGISTER_RBP))
		frame->fp = distance;
	else
		return false;
	return true;
}

/* Any other instruction: what it writes is not known any more. */
static void frame_overwrite(struct code_frame *frame, const struct step *step)
{
	for (int i = 0; i < step->head->operand_count; i++) {
		const ZydisDecodedOperand *operand = &step->operands[i];

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(
		    ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value);
		if (whole == ZYDIS_REGISTER_RSP)
			frame_move(frame, CODE_LOST);
		if (whole == ZYDIS_REGISTER_RBP)
			frame->fp = CODE_LOST;
	}
}

/* ---- Instructions ---- */

static void step_mov(struct code_frame *frame, const struct step *step)
{
	const ZydisDecodedOperand *to = &step->operands[0], *from = &step->operands[1];

	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		frame_save(frame, from, frame_place(frame, to));
		return;
	}
	if (operand_is(from, ZYDIS_REGISTER_RSP) && frame_assign(frame, to, frame->sp))
		return;
	if (operand_is(from, ZYDIS_REGISTER_RBP) && frame_assign(frame, to, frame->fp))
		return;
	const int32_t place = frame_place(frame, from);
	frame_overwrite(frame, step);
	frame_restore(frame, to, place);
}

static void step_add(struct code_frame *frame, const struct step *step, int sign)
{
	const ZydisDecodedOperand *to = &step->operands[0], *by = &step->operands[1];

	if (by->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand_is(to, ZYDIS_REGISTER_RSP))
		frame_move(frame, distance_less(frame->sp, sign * by->imm.value.s));
	else
		frame_overwrite(frame, step);
}

static void step_lea(struct code_frame *frame, const struct step *step)
{
	if (!frame_assign(frame, &step->operands[0], frame_place(frame, &step->operands[1])))
		frame_overwrite(frame, step);
}

static void step_push(struct code_frame *frame, const struct step *step)
{
	const bool whole = step->head->operand_width == 64;

	frame_move(frame, whole ? distance_less(frame->sp, -WORD) : CODE_LOST);
	frame_save(frame, &step->operands[0], frame->sp);
}

static void step_leave(struct code_frame *frame)
{
	static const ZydisDecodedOperand rbp = {.type = ZYDIS_OPERAND_TYPE_REGISTER,
						.reg.value = ZYDIS_REGISTER_RBP};

	frame_move(frame, frame->fp);
	frame_pop(frame, &rbp);
}

/* By the lower three bits of its number: rbx, rsp, rbp, and three that do not matter. */
static bool may_be_frame_register(unsigned int number)
{
	return number >= 3 && number <= 5;
}

/* Can it name rsp, rbp or rbx? Most cannot, by the fields of their ModRM byte (Intel SDM, volume 2,
 * 2.1.5). */
static bool may_touch_frame(const ZydisDecodedInstruction *head)
{
	if (!(head->attributes & ZYDIS_ATTRIB_HAS_MODRM) || head->mnemonic == ZYDIS_MNEMONIC_PUSH ||
	    head->mnemonic == ZYDIS_MNEMONIC_POP)
		return true;
	return may_be_frame_register(head->raw.modrm.reg) ||
	       (head->raw.modrm.mod == 3 && may_be_frame_register(head->raw.modrm.rm));
}

void code_frame_step(struct code_frame *frame, const ZydisDecoder *decoder,
		     const struct code_instruction *instruction)
{
	struct step step; /* its operands are many, and written when they are decoded */

	step.head = &instruction->head;
	if (!may_touch_frame(step.head) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder, &instruction->context, step.head,
						     step.operands, step.head->operand_count)))
		return;
	switch (step.head->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		step_push(frame, &step);
		break;
	case ZYDIS_MNEMONIC_POP:
		frame_pop(frame, &step.operands[0]);
		break;
	case ZYDIS_MNEMONIC_PUSHFQ:
		frame_move(frame, distance_less(frame->sp, -WORD));
		break;
	case ZYDIS_MNEMONIC_POPFQ:
		frame_move(frame, distance_less(frame->sp, WORD));
		break;
	case ZYDIS_MNEMONIC_LEAVE:
		step_leave(frame);
		break;
	case ZYDIS_MNEMONIC_MOV:
		step_mov(frame, &step);
		break;
	case ZYDIS_MNEMONIC_LEA:
		step_lea(frame, &step);
		break;
	case ZYDIS_MNEMONIC_ADD:
		step_add(frame, &step, 1);
		break;
	case ZYDIS_MNEMONIC_SUB:
		step_add(frame, &step, -1);
		break;
	case ZYDIS_MNEMONIC_CALL: /* comes back with rsp as it was */
	case ZYDIS_MNEMONIC_SYSCALL:
		break;
	default:
		frame_overwrite(frame, &step);
		break;
	}
}

/* ---- Rules ---- */

static void rule_set_saved(uint8_t *kind, int32_t *offset, int32_t saved)
{
	*kind = saved ? CFI_SAVE_CFA : CFI_SAVE_SAME;
	*offset = -saved;
}

struct cfi_rule code_frame_rule(const struct code_frame *frame)
{
	struct cfi_rule rule = {.ra_kind = CFI_SAVE_CFA, .ra_offset = -WORD};

	if (frame->kind == CODE_FRAME_OUTERMOST)
		return (struct cfi_rule){.ra_kind = CFI_SAVE_UNDEFINED};
	if (frame->kind == CODE_FRAME_SIGNAL) {
		rule.signal_frame = 1;
		rule.cfa_kind = CFI_CFA_DEREF;
		rule.cfa_register = DWARF_RSP;
		return rule;
	}
	/* A frame pointer, which points to where its caller's is, is to be believed more than the
	 * sum of all that was done to rsp. */
	if (frame->fp != CODE_LOST && (frame->fp == frame->fp_saved || frame->sp == CODE_LOST)) {
		rule.cfa_register = DWARF_RBP;
		rule.cfa_offset = frame->fp;
	} else if (frame->sp != CODE_LOST) {
		rule.cfa_register = DWARF_RSP;
		rule.cfa_offset = frame->sp;
	} else {
		return (struct cfi_rule){.cfa_kind = CFI_CFA_FRAME_POINTER};
	}
	rule.cfa_kind = CFI_CFA_REGISTER;
	rule_set_saved(&rule.fp_kind, &rule.fp_offset, frame->fp_saved);
	rule_set_saved(&rule.bx_kind, &rule.bx_offset, frame->bx_saved);
	return rule;
}

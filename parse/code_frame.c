/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the frame through instructions.
 *
 * How this works: a frame says how far rsp is below the CFA, whether rbp is a frame pointer and how
 * far below the CFA it points, and where the caller's rbp and rbx are saved. At the entry of a
 * function rsp is 8 below the CFA, because the call has pushed the return address. Each instruction
 * changes this in a way that follows from its operands:
 *
 *	push, pop, pushf, popf		move rsp by 8; a push saves a register, a pop restores it
 *	add, sub of a constant to rsp	move rsp
 *	mov, lea between rsp and rbp	copy or set a distance
 *	mov to or from [rsp/rbp + d]	saves or restores a register
 *	leave				is mov %rbp,%rsp; pop %rbp
 *	anything else			loses the distances of the registers that it writes
 *
 * A function that loads rsp from anywhere else has switched to another stack, where it calls
 * something (Go's systemstack). rbp still points to its frame, which is on the old one.
 *
 * A saved register is lost when rsp rises above its place. Only the first save counts, for later
 * the register does not have the caller's value any more.
 *
 * Example (distances from the CFA, 0 means not saved):
 *
 *	instruction		sp	fp	fp_saved	rule
 *	(entry)			8	lost	0		CFA = rsp + 8
 *	push %rbp		16	lost	16		CFA = rsp + 16, rbp at CFA - 16
 *	mov %rsp,%rbp		16	16	16		CFA = rbp + 16, rbp at CFA - 16
 *	and $-32,%rsp		lost	16	16		CFA = rbp + 16, rbp at CFA - 16
 *	leave			8	lost	0		CFA = rsp + 8
 */
#include "parse/code_frame.h"

#include <string.h>

enum {
	WORD = 8,
	/* DWARF numbers of registers. */
	DWARF_RBP = 6,
	DWARF_RSP = 7,
	DISTANCE_MAX = 1 << 24, /* bytes; no frame is larger than the stack, 8 MiB by default */
};

struct code_frame code_frame_at_entry(enum code_frame_kind kind)
{
	return (struct code_frame){.sp = WORD, .fp = CODE_LOST, .kind = (uint16_t)kind};
}

bool code_frame_equal(const struct code_frame *a, const struct code_frame *b)
{
	return a->sp == b->sp && a->fp == b->fp && a->fp_saved == b->fp_saved &&
	       a->bx_saved == b->bx_saved && a->kind == b->kind && a->other_stack == b->other_stack;
}

/* ---- Distances ---- */

/* Returns `distance` - `offset`; CODE_LOST if the distance is unknown or the result is out of
 * range. */
static int32_t distance_less(int32_t distance, int64_t offset)
{
	if (distance == CODE_LOST || offset > DISTANCE_MAX || offset < -DISTANCE_MAX)
		return CODE_LOST;
	const int64_t result = distance - offset;
	return result >= -DISTANCE_MAX && result <= DISTANCE_MAX ? (int32_t)result : CODE_LOST;
}

/* Sets the distance of rsp. What was saved below it is lost. */
static void frame_move(struct code_frame *frame, int32_t sp)
{
	/* rsp is above the return address: this is not the frame of a function. */
	if (sp != CODE_LOST && sp < WORD)
		sp = CODE_LOST;
	const bool shrinks = sp != CODE_LOST && (frame->sp == CODE_LOST || sp < frame->sp);
	if (shrinks && frame->fp_saved > sp)
		frame->fp_saved = 0;
	if (shrinks && frame->bx_saved > sp)
		frame->bx_saved = 0;
	if (sp != CODE_LOST)
		frame->other_stack = false;
	frame->sp = sp;
}

/* Returns the distance of the memory operand [rsp or rbp + displacement]; CODE_LOST for any other
 * operand. */
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

/* An instruction with its operands decoded. */
struct step {
	const ZydisDecodedInstruction *head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool operand_is(const ZydisDecodedOperand *operand, ZydisRegister reg)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && operand->reg.value == reg;
}

/* Stores a register at `place`. If it still has the caller's value, it is saved there. */
static void frame_save(struct code_frame *frame, const ZydisDecodedOperand *from, int32_t place)
{
	if (place == CODE_LOST || place <= WORD)
		return;
	if (operand_is(from, ZYDIS_REGISTER_RBP) && !frame->fp_saved && frame->fp == CODE_LOST)
		frame->fp_saved = place;
	if (operand_is(from, ZYDIS_REGISTER_RBX) && !frame->bx_saved)
		frame->bx_saved = place;
}

/* Loads a register from `place`. If it was saved there, it has the caller's value again. */
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

/* Sets rsp or rbp to the CFA minus `distance`. Returns false if `to` is neither. */
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

/* Handles any other instruction: the registers that it writes have an unknown value. */
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
	if (operand_is(to, ZYDIS_REGISTER_RSP) && place == CODE_LOST)
		frame->other_stack = true;
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

/* Returns whether a register can be rbx, rsp or rbp, by the lower three bits of its number (3, 4,
 * 5). r11 - r13 have the same bits, which only costs time. */
static bool may_be_frame_register(unsigned int number)
{
	return number >= 3 && number <= 5;
}

/* Returns whether the instruction can refer to rsp, rbp or rbx. The ModRM byte of most excludes it
 * (Intel SDM, volume 2, section 2.1.5), so their operands need not be decoded. */
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
	struct step step; /* not initialised: its operands are large and are decoded below */

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
	case ZYDIS_MNEMONIC_CALL: /* after the return rsp is as before */
	case ZYDIS_MNEMONIC_SYSCALL:
		break;
	default:
		frame_overwrite(frame, &step);
		break;
	}
}

/* ---- Code that is recognised by its bytes ---- */

bool code_instruction_is_padding(const struct code_instruction *instruction)
{
	return instruction->head.mnemonic == ZYDIS_MNEMONIC_NOP ||
	       instruction->head.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* The code is `mov $15, %eax; syscall` (rt_sigreturn) in one of two encodings. gdb recognises it by
 * the same bytes (amd64-linux-tdep.c). */
bool code_is_sigreturn(const uint8_t *bytes, size_t left)
{
	static const uint8_t with_eax[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t with_rax[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};

	return (left >= sizeof(with_eax) && !memcmp(bytes, with_eax, sizeof(with_eax))) ||
	       (left >= sizeof(with_rax) && !memcmp(bytes, with_rax, sizeof(with_rax)));
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
	/* A frame pointer that points to the caller's saved one is more reliable than the sum of
	 * all changes to rsp. */
	if (frame->fp != CODE_LOST && (frame->fp == frame->fp_saved || frame->sp == CODE_LOST)) {
		rule.cfa_register = DWARF_RBP;
		rule.cfa_offset = frame->fp;
	} else if (frame->sp != CODE_LOST) {
		rule.cfa_register = DWARF_RSP;
		rule.cfa_offset = frame->sp;
	} else {
		return (struct cfi_rule){.cfa_kind = CFI_CFA_FRAME_POINTER};
	}
	rule.cfa_kind = frame->other_stack ? CFI_CFA_OTHER_STACK : CFI_CFA_REGISTER;
	rule_set_saved(&rule.fp_kind, &rule.fp_offset, frame->fp_saved);
	rule_set_saved(&rule.bx_kind, &rule.bx_offset, frame->bx_saved);
	return rule;
}

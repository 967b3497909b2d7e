/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Unwinding of one native frame by its rule.
 *
 * The canonical frame address (CFA) is the value of rsp in the caller right after the frame has
 * returned. A rule says how to compute it, and where rbp and rbx of the caller are saved. The
 * return address is the word below the CFA.
 *
 * Example: a function begins with "push rbp; mov rbp, rsp; sub rsp, 32". After that its rule is
 * CFA = rbp + 16, rbp saved at CFA - 16. With rbp = 0x7ffd1000 the CFA is 0x7ffd1010. The return
 * address is the word at 0x7ffd1008, the caller's rbp the word at 0x7ffd1000, and the caller's rsp
 * is the CFA.
 */
#ifndef BPF_UNWIND_CFA_H
#define BPF_UNWIND_CFA_H

#include "bpf/unwind/stack.h"

/*
 * Unwinds a signal frame. In it rsp points to the ucontext that the kernel pushed (struct ucontext
 * of the x86-64 Linux ABI). uc_mcontext begins at offset 40, with the registers r8 to r15, rdi,
 * rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. Thus all registers of the interrupted frame are known
 * again.
 */
static __always_inline int cfa_apply_signal_frame(struct unwind_state *s, UNWIND_ENV env)
{
	/* They are read into the window, because BPF's stack is short. After that the window no
	 * longer holds a part of the stack. */
	uint64_t *saved = s->window;

	s->window_start = STACK_NO_WINDOW;
	if (env_read(env, saved, 17 * sizeof(saved[0]), s->sp + 40))
		return BH_REASON_READ_FAULT;
	for (int i = 0; i < 8; i++)
		s->gpr[8 + i] = saved[i];
	s->gpr[BH_REG_RDI] = saved[8];
	s->gpr[BH_REG_RSI] = saved[9];
	s->gpr[BH_REG_RBP] = saved[10];
	s->gpr[BH_REG_RBX] = saved[11];
	s->gpr[BH_REG_RDX] = saved[12];
	s->gpr[BH_REG_RAX] = saved[13];
	s->gpr[BH_REG_RCX] = saved[14];
	s->gpr[BH_REG_RSP] = saved[15];
	s->registers_known = 1;
	s->bx_known = 1;
	s->fp = saved[10];
	s->sp = saved[15];
	s->pc = saved[16];
	return s->pc ? UNWIND_CONTINUE : BH_REASON_COMPLETE;
}

/* Sets *value to the register from which a CFA is computed. rsp and rbp are always known, rbx as
 * long as no rule on the way lost it, another register only in a frame that was interrupted.
 * Returns UNWIND_CONTINUE or BH_REASON_REGISTER_LOST. */
static __always_inline int cfa_read_register(const struct unwind_state *s, uint32_t number,
					     uint64_t *value)
{
	if (number == BH_REG_RSP)
		*value = s->sp;
	else if (number == BH_REG_RBP)
		*value = s->fp;
	else if (s->registers_known || (number == BH_REG_RBX && s->bx_known))
		*value = s->gpr[number & 15];
	else
		return BH_REASON_REGISTER_LOST;
	return UNWIND_CONTINUE;
}

/* Returns whether the process is at its first instructions. The kernel starts a program with all
 * registers but rsp zero (ELF_PLAT_INIT in arch/x86/include/asm/elf.h). The first instructions of
 * ld.so have no unwind rules. */
static __always_inline int cfa_at_process_entry(const struct unwind_state *s)
{
	return s->registers_known &&
	       !(s->gpr[BH_REG_RBX] | s->gpr[12] | s->gpr[13] | s->gpr[14] | s->gpr[15]);
}

/* Sets *cfa to the CFA of the frame by `rule`. Returns UNWIND_CONTINUE, or the
 * reason that ends the stack. */
static __always_inline int cfa_find(struct unwind_state *s, UNWIND_ENV env,
				    const struct bh_rule *rule, uint64_t *cfa)
{
	uint64_t base = 0;
	int end;

	switch (rule->kind) {
	case BH_RULE_SP:
	case BH_RULE_RA_REGISTER:
		*cfa = s->sp + (int64_t)rule->cfa;
		return UNWIND_CONTINUE;
	case BH_RULE_OTHER_STACK:
		/* The caller's stack may be anywhere. With 0, the check that stacks get shorter
		 * holds for it. A forged cycle of switches ends with the steps of the stack. */
		s->sp = 0;
		*cfa = s->fp + (int64_t)rule->cfa;
		return UNWIND_CONTINUE;
	case BH_RULE_FP:
		*cfa = s->fp + (int64_t)rule->cfa;
		return UNWIND_CONTINUE;
	case BH_RULE_FRAME_POINTER:
		/* A frame pointer of zero ends the chain: code that starts a thread pushes it. */
		*cfa = s->fp + 16;
		if (!s->fp)
			return s->frame_count > 1 || cfa_at_process_entry(s) ? BH_REASON_COMPLETE
									     : BH_REASON_NO_RULE;
		return UNWIND_CONTINUE;
	case BH_RULE_PLT:
		*cfa = s->sp + (int64_t)rule->cfa +
		       ((s->pc & 15) >= (uint64_t)(int64_t)rule->extra ? 8 : 0);
		return UNWIND_CONTINUE;
	case BH_RULE_REGISTER:
		end = cfa_read_register(s, rule->reg, &base);
		if (end != UNWIND_CONTINUE)
			return end;
		*cfa = base + (int64_t)rule->cfa;
		return UNWIND_CONTINUE;
	case BH_RULE_DEREF:
		end = cfa_read_register(s, rule->reg, &base);
		if (end != UNWIND_CONTINUE)
			return end;
		end = stack_read_word(s, env, s->sp, base + (int64_t)rule->cfa, cfa);
		*cfa += (int64_t)rule->extra;
		return end;
	case BH_RULE_REFUSED:
		return BH_REASON_REFUSED;
	case BH_RULE_COMPAT:
		return BH_REASON_COMPAT;
	default:
		return BH_REASON_NO_RULE;
	}
}

/* Sets the registers to those of the caller by `rule`. Returns UNWIND_CONTINUE, or the reason that
 * ends the stack. */
static __always_inline int cfa_apply_rule(struct unwind_state *s, UNWIND_ENV env,
					  const struct bh_rule *rule)
{
	uint64_t cfa = 0, ra = 0, fp = s->fp;
	int end = cfa_find(s, env, rule, &cfa);

	if (end != UNWIND_CONTINUE)
		return end;
	/* Towards the caller the stack only gets shorter. Where the return address was popped into
	 * a register, the stack pointer may stay the same. */
	if (cfa <= s->sp && !(cfa == s->sp && rule->kind == BH_RULE_RA_REGISTER))
		return BH_REASON_BAD_CFA;
	if (rule->kind == BH_RULE_RA_REGISTER)
		end = cfa_read_register(s, rule->reg, &ra);
	else
		end = stack_read_word(s, env, s->sp, cfa - 8, &ra);
	if (end != UNWIND_CONTINUE)
		return end;
	if (rule->kind == BH_RULE_FRAME_POINTER)
		end = stack_read_word(s, env, s->sp, s->fp, &fp);
	else if (rule->fp_kind == BH_FP_CFA)
		end = stack_read_word(s, env, s->sp, cfa + (int64_t)rule->fp * 8, &fp);
	else if (rule->fp_kind == BH_FP_REGISTER)
		end = stack_read_word(s, env, s->sp, s->fp + (int64_t)rule->fp * 8, &fp);
	else if (rule->fp_kind == BH_FP_LOST)
		fp = 0;
	if (end != UNWIND_CONTINUE)
		return end;
	if (rule->bx_kind == BH_FP_CFA) {
		end = stack_read_word(s, env, s->sp, cfa + (int64_t)rule->bx * 8,
				      &s->gpr[BH_REG_RBX]);
		s->bx_known = 1;
	} else if (rule->bx_kind != BH_FP_SAME || rule->kind == BH_RULE_FRAME_POINTER) {
		s->bx_known = 0;
	}
	if (end != UNWIND_CONTINUE)
		return end;
	s->fp = fp;
	s->sp = cfa;
	s->pc = ra;
	s->registers_known = 0;
	/* Code that makes a stack by hand marks its outermost frame by a return address of zero. */
	return ra ? UNWIND_CONTINUE : BH_REASON_COMPLETE;
}

#endif

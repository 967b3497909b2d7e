/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The task that was sampled, and its user registers. */
#ifndef BPF_SAMPLE_TASK_H
#define BPF_SAMPLE_TASK_H

#include "bpf/env.h"

/* For kernels without a helper that finds the user registers (before 5.15): they are at the end of
 * the kernel stack. THREAD_SIZE of x86-64, __USER_CS, and PF_KTHREAD of include/linux/sched.h. */
enum {
	X86_THREAD_BYTES = 16384,
	X86_USER_CODE_SEGMENT = 0x33,
	KERNEL_THREAD_FLAG = 0x00200000,
};

/* What is read of the task that was sampled. */
struct sampled_task {
	__u64 process_start_ns;
	bool has_user_stack; /* not so for kernel threads, and for processes that exit */
	bool is_executing;   /* in execve: the memory is the new program's, the registers are not */
};

/* Reads the task through BTF pointers where the kernel has them (5.11). Each costs only a load. */
static __always_inline void describe_task(struct sampled_task *out)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)) {
		struct task_struct *task = bpf_get_current_task_btf();

		out->process_start_ns = task->group_leader->start_boottime;
		out->has_user_stack = task->mm && !(task->flags & KERNEL_THREAD_FLAG);
		out->is_executing = bpf_core_field_exists(task->in_execve) &&
				    BPF_CORE_READ_BITFIELD(task, in_execve);
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();

		out->process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
		out->has_user_stack =
		    BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & KERNEL_THREAD_FLAG);
		out->is_executing = bpf_core_field_exists(task->in_execve) &&
				    BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
	}
}

/* Returns the FS base of the current thread. Without a walker nobody needs it. */
static __always_inline __u64 read_thread_pointer(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		return bpf_get_current_task_btf()->thread.fsbase;
	struct task_struct *task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, thread.fsbase);
}

/* Copies the registers to `gpr`, by their DWARF register numbers. */
static __always_inline void copy_registers(uint64_t gpr[16], const struct pt_regs *regs)
{
	gpr[0] = regs->rax;
	gpr[1] = regs->rdx;
	gpr[2] = regs->rcx;
	gpr[3] = regs->rbx;
	gpr[4] = regs->rsi;
	gpr[5] = regs->rdi;
	gpr[6] = regs->rbp;
	gpr[7] = regs->rsp;
	gpr[8] = regs->r8;
	gpr[9] = regs->r9;
	gpr[10] = regs->r10;
	gpr[11] = regs->r11;
	gpr[12] = regs->r12;
	gpr[13] = regs->r13;
	gpr[14] = regs->r14;
	gpr[15] = regs->r15;
}

/* Returns whether the tick interrupted user mode, by the privilege level in CS. */
static __always_inline bool is_user_mode(const struct bpf_perf_event_data *ctx)
{
	return (ctx->regs.cs & 3) == 3;
}

/* Loads the user registers of the current task: those of the tick if it interrupted user mode, and
 * otherwise those that the kernel saved at its entry. Returns UNWIND_CONTINUE, or the reason why
 * there is no stack. */
static __always_inline int load_registers(struct bpf_perf_event_data *ctx, struct cpu_state *cpu,
					  bool user_mode)
{
	const struct pt_regs *regs = &cpu->regs;
	struct unwind_state *s = &cpu->unwind;

	if (user_mode) {
		cpu->regs = *(struct pt_regs *)&ctx->regs;
	} else {
		const void *at;

		if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
			at = (const void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
		} else {
			struct task_struct *task = (void *)bpf_get_current_task();

			at = (const char *)BPF_CORE_READ(task, stack) + X86_THREAD_BYTES -
			     sizeof(*regs);
		}
		if (bpf_probe_read_kernel(&cpu->regs, sizeof(cpu->regs), at))
			return BH_REASON_READ_FAULT;
	}
	copy_registers(s->gpr, regs);
	s->fp = regs->rbp;
	s->sp = regs->rsp;
	s->pc = regs->rip;
	return regs->cs == X86_USER_CODE_SEGMENT ? UNWIND_CONTINUE : BH_REASON_COMPAT;
}

#endif

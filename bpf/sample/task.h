/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The task that was sampled, and its user registers.
 *
 * How this works. From Linux 5.15 on, two helpers return pointers that the verifier knows the types
 * of: to the current task, and to the user registers that the kernel saved. Through them, a field
 * is read by a load. Before, bpf_probe_read_kernel() must be called for each field. This takes
 * longer, and lockdown=confidentiality forbids it. All calls of that helper are in the functions
 * named before_5_15_*(). When the object is loaded, CO-RE decides by task_has_types() which way
 * remains, and the verifier removes the other one.
 *
 * Example: a thread is interrupted in read(2), on Linux 6.12. describe_task() takes four loads, and
 * load_registers() takes 21 loads from the top of the thread's kernel stack.
 */
#ifndef BPF_SAMPLE_TASK_H
#define BPF_SAMPLE_TASK_H

#include "bpf/env.h"

/* Before 5.15, the user registers are found at the end of the kernel stack: its size is THREAD_SIZE
 * of x86-64. The others are __USER_CS, and PF_KTHREAD of include/linux/sched.h. */
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

/* Returns whether the kernel has both helpers that return typed pointers. */
static __always_inline bool task_has_types(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf) &&
	       bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs);
}

static __always_inline void before_5_15_describe_task(struct sampled_task *out)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	out->process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	out->has_user_stack =
	    BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & KERNEL_THREAD_FLAG);
	out->is_executing = bpf_core_field_exists(task->in_execve) &&
			    BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

static __always_inline __u64 before_5_15_read_thread_pointer(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread.fsbase);
}

static __always_inline bool before_5_15_read_saved_registers(struct pt_regs *to)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	const char *end = (const char *)BPF_CORE_READ(task, stack) + X86_THREAD_BYTES;

	return !bpf_probe_read_kernel(to, sizeof(*to), end - sizeof(*to));
}

static __always_inline void describe_task(struct sampled_task *out)
{
	if (!task_has_types()) {
		before_5_15_describe_task(out);
		return;
	}
	struct task_struct *task = bpf_get_current_task_btf();

	out->process_start_ns = task->group_leader->start_boottime;
	out->has_user_stack = task->mm && !(task->flags & KERNEL_THREAD_FLAG);
	out->is_executing =
	    bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD(task, in_execve);
}

/* Returns the FS base of the current thread. Without a walker nobody needs it. */
static __always_inline __u64 read_thread_pointer(void)
{
	if (!task_has_types())
		return before_5_15_read_thread_pointer();
	return bpf_get_current_task_btf()->thread.fsbase;
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

/* Copies the user registers that the kernel saved at its entry. Returns false if they cannot be
 * read. */
static __always_inline bool read_saved_registers(struct pt_regs *to)
{
	if (!task_has_types())
		return before_5_15_read_saved_registers(to);
	*to = *(const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	/* Otherwise the compiler makes one copy of this and of that of load_registers(). The
	 * verifier refuses an instruction that loads through pointers of two kinds. */
	barrier();
	return true;
}

/* Loads the user registers of the current task: those of the tick if it interrupted user mode, and
 * otherwise those that the kernel saved at its entry. Returns UNWIND_CONTINUE, or the reason why
 * there is no stack. */
static __always_inline int load_registers(struct bpf_perf_event_data *ctx, struct cpu_state *cpu,
					  bool user_mode)
{
	const struct pt_regs *regs = &cpu->regs;
	struct unwind_state *s = &cpu->unwind;

	if (user_mode)
		cpu->regs = *(struct pt_regs *)&ctx->regs;
	else if (!read_saved_registers(&cpu->regs))
		return BH_REASON_READ_FAULT;
	copy_registers(s->gpr, regs);
	s->fp = regs->rbp;
	s->sp = regs->rsp;
	s->pc = regs->rip;
	/* With FRED, the processor stores flags above the 16 bits of CS (struct fred_cs of
	 * Linux 6.9). */
	return (__u16)regs->cs == X86_USER_CODE_SEGMENT ? UNWIND_CONTINUE : BH_REASON_COMPAT;
}

#endif

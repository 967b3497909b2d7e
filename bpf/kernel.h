/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernel structures, written by hand, with only the fields in use. CO-RE relocates them when the
 * object is loaded. */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

struct thread_struct {
	unsigned long fsbase; /* 4.18+ */
};

struct task_struct {
	struct mm_struct *mm;
	void *stack;
	int pid, tgid;
	unsigned int flags;
	unsigned in_execve : 1;
	struct task_struct *group_leader;
	__u64 start_boottime; /* 5.5+ */
	struct thread_struct thread;
};

#pragma clang attribute pop

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel part of a stack. */
#ifndef BPF_SAMPLE_KERNEL_STACK_H
#define BPF_SAMPLE_KERNEL_STACK_H

#include "bpf/env.h"

const volatile bool want_kernel = true;

/* Returns the number of frames that bpf_get_stack() has written. It takes a fault in the vsyscall
 * page for one in the kernel; that frame is dropped. */
static __always_inline __u8 kernel_frames(const __u64 *frames, long bytes)
{
	__u64 count = bytes > 0 ? (__u64)bytes / 8 : 0;

	if (count && count <= BH_KERNEL_FRAMES_MAX && frames[count - 1] >> 12 == BH_VSYSCALL_PAGE)
		count--;
	return count;
}

#endif

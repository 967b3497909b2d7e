/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <linux/types.h>

enum {
	/* The default of kernel.perf_event_max_stack, which limits bpf_get_stack(). */
	FLOOR_FRAMES_MAX = 127,
	FLOOR_RING_BYTES = 4 << 20,
};

struct floor_sample {
	__u64 time_ns;
	__u64 pid_tgid;
	__u32 user_count, kernel_count;
	__u64 frames[2 * FLOOR_FRAMES_MAX + 2];
};

#endif

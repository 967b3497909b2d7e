/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The floor that bulkhead_sample is compared with: the least that a profiler can do with a sample.
 * It writes both stacks, as the kernel's own frame-pointer walk finds them, into a ring, and
 * filters nothing.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include "tests/bench/floor.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FLOOR_RING_BYTES);
} floor_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct floor_sample);
} floor_scratch SEC(".maps");

SEC("perf_event")
int floor_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct floor_sample *s = bpf_map_lookup_elem(&floor_scratch, &zero);

	if (!s)
		return 0;
	s->time_ns = bpf_ktime_get_ns();
	s->pid_tgid = bpf_get_current_pid_tgid();
	long user = bpf_get_stack(ctx, s->frames, FLOOR_FRAMES_MAX * 8, BPF_F_USER_STACK);

	if (user < 0)
		user = 0;
	__u64 at = (__u64)user / 8;
	long kernel = 0;

	asm volatile("" : "+r"(at));
	if (at <= FLOOR_FRAMES_MAX)
		kernel = bpf_get_stack(ctx, &s->frames[at], FLOOR_FRAMES_MAX * 8, 0);
	if (kernel < 0)
		kernel = 0;
	s->user_count = at;
	s->kernel_count = (__u64)kernel / 8;
	__u64 size = sizeof(*s) - sizeof(s->frames) + (__u64)user + (__u64)kernel;

	if (size <= sizeof(*s))
		bpf_ringbuf_output(&floor_ring, s, size, BPF_RB_NO_WAKEUP);
	return 0;
}

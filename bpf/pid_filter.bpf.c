/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeps the map pid_filter equal to the selected processes and all that they start. It is loaded
 * only if forks are to be followed. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf/kernel.h"
#include "bpf/maps.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(bulkhead_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	__u8 one = 1;

	if (from != to && bpf_map_lookup_elem(&pid_filter, &from))
		bpf_map_update_elem(&pid_filter, &to, &one, BPF_ANY);
	return 0;
}

/* Called when a task is freed. A process leaves the filter with its leader. Threads that outlive
 * their leader are rare; the filter then no longer selects them. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(bulkhead_free, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->pid == task->tgid)
		bpf_map_delete_elem(&pid_filter, &tgid);
	return 0;
}

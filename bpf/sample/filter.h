/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which threads are sampled. */
#ifndef BPF_SAMPLE_FILTER_H
#define BPF_SAMPLE_FILTER_H

#include "bpf/env.h"

/* Filters. They are set before the program is loaded, and the verifier removes the code of those
 * that are off. */
const volatile bool filter_pids;	  /* only processes in the map pid_filter */
const volatile __u32 filter_tid;	  /* only this thread */
const volatile __u64 filter_cgroup;	  /* only in this cgroup (v2 id) or below, ... */
const volatile __u32 filter_cgroup_level; /* ... which has this depth */
const volatile bool filter_comm;	  /* only threads with this name */
const volatile char filter_comm_name[BH_COMM_BYTES];

static __always_inline bool in_cgroup(void)
{
	return bpf_get_current_ancestor_cgroup_id(filter_cgroup_level) == filter_cgroup;
}

static __always_inline bool comm_matches(const char *comm)
{
	for (int i = 0; i < BH_COMM_BYTES; i++) {
		if (comm[i] != filter_comm_name[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

/* Returns whether the filters select the thread. */
static __always_inline bool selected(__u32 tgid, __u32 tid, const char *comm)
{
	if (filter_pids && !bpf_map_lookup_elem(&pid_filter, &tgid))
		return false;
	if (filter_tid && tid != filter_tid)
		return false;
	if (filter_cgroup && !in_cgroup())
		return false;
	if (filter_comm && !comm_matches(comm))
		return false;
	return true;
}

#endif

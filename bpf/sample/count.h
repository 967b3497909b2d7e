/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The counters of the kernel side. */
#ifndef BPF_SAMPLE_COUNT_H
#define BPF_SAMPLE_COUNT_H

#include "bpf/env.h"

/* Increments a counter of this CPU. */
static __always_inline void count(enum bh_counter counter)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct bh_counters *c = bpf_map_lookup_elem(&counters, &cpu);

	if (c)
		c->value[counter]++;
}

#endif

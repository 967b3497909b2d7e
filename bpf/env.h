/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The environment of the unwinder and the walkers in the kernel: maps, and
 * the current task's memory. */
#ifndef BPF_ENV_H
#define BPF_ENV_H

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <stdbool.h>
#include "bpf/kernel.h"
#include "bpf/maps.h"

/* The verifier requires that a global function has an argument and that callers pass it. The
 * compiler would drop an argument that the function does not use. */
#define GLOBAL_ARGUMENT(argument) asm volatile("" : : "r"(argument))

#define UNWIND_ENV int
#define RULE_CACHE_BITS 10
#define MAPPING_HINT_BITS 11
#define METHOD_CACHE_BITS 12

static __always_inline const __u8 *env_slab(int env, __u32 index)
{
	__u32 zero = 0;
	void *slab = bpf_map_lookup_elem(&slabs, &index);

	(void)env;
	return slab ? bpf_map_lookup_elem(slab, &zero) : NULL;
}

static __always_inline const struct bh_module *env_module(int env, __u32 slot)
{
	(void)env;
	return bpf_map_lookup_elem(&modules, &slot);
}

static __always_inline const struct bh_rule *env_rule(int env, __u32 id)
{
	(void)env;
	return bpf_map_lookup_elem(&rules, &id);
}

static __always_inline const struct bh_runtime_table *env_runtimes(int env)
{
	__u32 zero = 0;

	(void)env;
	return bpf_map_lookup_elem(&runtimes, &zero);
}

/* bpf_probe_read_user(), by an id that the loader replaces (loader/user_reads.c). */
#define READ_USER_ID (BH_USER_READ_MARK + BPF_FUNC_probe_read_user)
static long (*const read_user)(void *to, __u32 bytes, const void *from) = (void *)READ_USER_ID;

#define env_read(env, destination, bytes, address)                                                 \
	read_user((destination), (bytes), (const void *)(address))

int stack_move_window_global(__u64 near, __u64 address, __u64 end);
#define STACK_MOVE_WINDOW(s, env, near, address, end)                                              \
	stack_move_window_global((near), (address), (end))

#include "bpf/unwind/step.h"
#include "bpf/runtime/method_cache.h"

enum {
	NEW_CODES_MAX = 64 /* frames of a sample for which memory is copied */
};

/* What one program leaves for the next one that continues the same sample (sample/unwind.h). */
struct sample_progress {
	__s32 end;		/* why the stack ended: enum bh_reason */
	__u32 batches;		/* of steps so far */
	__u32 process_slot;	/* in `processes` */
	__u32 process_sequence; /* of that slot when the walk began */
	__u32 process_found;	/* the two fields above are valid */
	__u32 runtime_allowed;	/* that of the process */
	__u32 program_changes;	/* so far */
	__u32 walker_is_due;	/* the walker comes before the next step */
	__u32 is_executing;	/* struct sampled_task */
	__u64 kernel_sum;	/* of the hashes of kernel frames (sample/submit.h) */
	__u32 kernel_hashed;	/* frames in that sum */
	__u32 code_next; /* the next word in which to look for new code (sample/new_code.h) */
	__u32 new_codes; /* frames with new code so far */
	__u32 new_codes_copied;	       /* how many of them are copied, or need no copy */
	__u64 send_flags;	       /* of the record for bpf_ringbuf_output() */
	__u32 new_code[NEW_CODES_MAX]; /* the words at which these frames begin */
};

/* What a CPU keeps between samples. It is in three maps, because a value of a per-CPU map has at
 * most 32 KiB (PCPU_MIN_UNIT_SIZE). method_caches is larger, so it is an array with an entry for
 * each CPU. */
struct cpu_state {
	struct unwind_state unwind;
	struct sample_progress progress;
	struct pt_regs regs;	 /* user registers; the stack of 512 bytes has no room for them */
	__u32 unannounced_bytes; /* written to the ring since the worker was last woken */
	__u32 copies_owed;	 /* to the stacks of this process (sample/new_code.h); 0: to none */
	__u64 generated_ns;	 /* when the worker was last woken for generated code */
	__u64 generated_waits;	 /* it is to be woken for some (sample/submit.h) */
	__u64 thread_pointer;	 /* FS base of the thread: its thread-local storage; for walkers */
};

_Static_assert(sizeof(struct cpu_state) <= 32768, "a value of a per-CPU map");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule_cache);
} rule_caches SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries,
	       1); /* one for each possible CPU, set by the loader if there are runtimes */
	__type(key, __u32);
	__type(value, struct method_cache);
} method_caches SEC(".maps") __weak;

/* stack_move_window() as a global function. */
__noinline int stack_move_window_global(__u64 near, __u64 address, __u64 end)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	return cpu && stack_move_window(&cpu->unwind, 0, near, address, end);
}

static __always_inline __u64 env_thread_pointer(int env)
{
	__u32 zero = 0;
	const struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	(void)env;
	return cpu ? cpu->thread_pointer : 0;
}

static __always_inline struct method_cache *env_method_cache(int env)
{
	__u32 cpu = bpf_get_smp_processor_id();

	(void)env;
	return bpf_map_lookup_elem(&method_caches, &cpu);
}

#endif

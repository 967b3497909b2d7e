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

/* Returns the FS base of the thread: the address of its thread-local storage. */
static __always_inline __u64 env_thread_pointer(int env)
{
	(void)env;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		return bpf_get_current_task_btf()->thread.fsbase;
	struct task_struct *task = (void *)bpf_get_current_task();
	return BPF_CORE_READ(task, thread.fsbase);
}

#define env_read(env, destination, bytes, address)                                                 \
	bpf_probe_read_user((destination), (bytes), (const void *)(address))

#include "bpf/unwind/step.h"
#include "bpf/runtime/method_cache.h"

/* What a CPU keeps between samples. It is in three maps, because a value of a per-CPU map has at
 * most 32 KiB (PCPU_MIN_UNIT_SIZE). method_caches is larger, so it is an array with an entry for
 * each CPU. */
struct cpu_state {
	struct unwind_state unwind;
	struct pt_regs regs;	 /* user registers; the stack of 512 bytes has no room for them */
	__u32 unannounced_bytes; /* written to the ring since the worker was last woken */
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

static __always_inline struct method_cache *env_method_cache(int env)
{
	__u32 cpu = bpf_get_smp_processor_id();

	(void)env;
	return bpf_map_lookup_elem(&method_caches, &cpu);
}

#endif

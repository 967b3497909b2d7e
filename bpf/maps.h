/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All maps. They are declared in a header because the object is linked from several sources, and
 * weak so that the linker merges equal definitions. The loader sets the sizes that depend on the
 * host.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "bpf/shared.h"

/* The type of a slab. The loader makes as many as the manager asks for. */
struct slab_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, BH_SLAB_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, BH_SLABS_MAX);
	__type(key, __u32);
	__array(values, struct slab_map);
} slabs SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_process_table);
} processes SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << BH_MODULES_BITS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_module);
} modules SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << BH_RULES_BITS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_rule);
} rules SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one for each possible CPU, set by the loader */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_counters);
} counters SEC(".maps") __weak;

/* Written by the worker. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_worker_control);
} worker_control SEC(".maps") __weak;

/* Written by the worker. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bh_runtime_table);
} runtimes SEC(".maps") __weak;

/* The programs that go on with a sample, by enum bh_program. The loader puts those of a runtime
 * here when the first file of the runtime is found on the host. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, BH_PROGRAM_COUNT);
	__uint(key_size, 4);
	__uint(value_size, 4);
} programs SEC(".maps") __weak;

/* The stacks that were sent, by the low bits of their ids (sample/submit.h). An entry is the id,
 * with the epoch in place of its lowest 16 bits. It is one word, so that CPUs need no lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << BH_DEDUP_BITS);
	__type(key, __u32);
	__type(value, __u64);
} stack_dedup SEC(".maps") __weak;

/* The managed code that was sampled (sample/new_code.h). */
enum {
	CODE_SEEN_BITS = 14
};

struct code_seen {
	__u32 tags[1 << CODE_SEEN_BITS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct code_seen);
} code_seen SEC(".maps") __weak;

/* The loader sets the sizes of the rings. They depend on the host and the frequency. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} samples SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} deferred SEC(".maps") __weak;

/* The tgids that the filter by process selects. pid_filter.bpf.c adds those that they fork. */
struct {
	/* It is preallocated, because before 6.1 a perf_event program may not use any other. */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as many as the filter may need, set by the loader */
	__type(key, __u32);
	__type(value, __u8);
} pid_filter SEC(".maps") __weak;

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The one header that kernel side and user space share: map layouts, records, limits. Fixed widths,
 * no pointers, no implicit padding; both compilers assert the sizes.
 */
#ifndef BPF_SHARED_H
#define BPF_SHARED_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
#else
#include <stdint.h>
#endif

#define BH_ASSERT_SIZE(type, bytes)                                                                \
	_Static_assert(sizeof(type) == (bytes), #type " is " #bytes " bytes")

enum {
	/* Words of a record: a native frame is one, a managed frame two or three. Room for 300
	 * levels of a recursion in which the interpreter has three frames of its own between two of
	 * the program's. */
	BH_USER_FRAMES_MAX = 2048,
	/* Steps of the walk of one stack, each some native frames or a call of a runtime's walker:
	 * in turns, so that the verifier's work is the sum of the two, not the product. */
	BH_UNWIND_BATCHES = 32,
	BH_UNWIND_BATCH_STEPS = 32,
	/* kernel.perf_event_max_stack's default, which caps bpf_get_stack */
	BH_KERNEL_FRAMES_MAX = 127,
	BH_FRAMES_ROOM = BH_USER_FRAMES_MAX + BH_KERNEL_FRAMES_MAX + 1,
	BH_COMM_BYTES = 16,

	BH_SLAB_BYTES = 2 << 20,
	BH_SLABS_MAX = 32, /* 64 MiB of unwind data */

	BH_PAGE_BITS = 10,	  /* a page of the index covers 1 KiB of a module's file */
	BH_PAGE_DELTAS_BITS = 10, /* at most one delta a byte */

	BH_PROCESSES_BITS = 14,	       /* slots of the process table */
	BH_PROCESS_PROBES = 16,	       /* slots looked at for one tgid */
	BH_PROCESS_MAPPINGS_BITS = 12, /* executable mappings a process */
	BH_MODULES_BITS = 13,
	BH_RULES_BITS = 16,

	BH_RED_ZONE_BYTES = 128, /* below the stack pointer, still in use (x86-64 psABI 3.2.2) */
	/* of a deferred stack: up to 16 KiB, page-wise from the red zone on */
	BH_STACK_COPY_PAGES = 4,
	BH_STACK_COPY_BYTES = BH_STACK_COPY_PAGES * 4096,
	/* deferred samples a process may have in one second: some ms of copying */
	BH_DEFERRED_PER_SECOND_MAX = 512,

	BH_DEDUP_BITS = 14,	  /* stacks that the kernel side remembers having sent */
	BH_DEDUP_EPOCH_BITS = 31, /* of a time in ns: 2.1 s */
	BH_DEDUP_EPOCHS = 8,	  /* for how long it refers to them */

	BH_RUNTIME_SLOTS_BITS = 10, /* processes with a language runtime */
	BH_RUNTIME_PROBES = 8,
	BH_RUNTIME_BLOCKS_BITS = 10,
	BH_RUNTIME_BLOCK_BYTES = 256,
	BH_RUNTIME_RANGES_BITS = 13,	    /* of all processes together */
	BH_RUNTIME_PROCESS_RANGES_BITS = 9, /* of one */
	BH_RUNTIME_CODE_FILTERS = 2,

	BH_CGROUP_LEVELS_MAX = 16,
	BH_PID_FILTER_MAX = 65536, /* tgids that a filter by process may grow to through forks */
};

/* Why the walk of a user stack ended. */
enum bh_reason {
	BH_REASON_COMPLETE,
#define INCOMPLETE_REASON(id, name) BH_REASON_##id,
#include "common/incomplete_reasons.def"
#undef INCOMPLETE_REASON
	BH_REASON_COUNT
};

/* A stack whose process, mapping or table was missing may be complete once the manager has caught
 * up. */
static inline int bh_reason_is_temporary(unsigned int reason)
{
	return reason == BH_REASON_NO_PROCESS || reason == BH_REASON_NO_MAPPING ||
	       reason == BH_REASON_NO_TABLE || reason == BH_REASON_CHANGED;
}

/* What BPF counts, one slot a CPU and counter. */
#define BH_COUNTERS(X)                                                                             \
	X(TAKEN, "taken")	       /* samples that passed the filters */                       \
	X(LOST_RING_FULL, "ring_full") /* of them, those that found the ring `samples` full */     \
	X(DEFERRED, "deferred")	       /* stacks copied for the manager to walk */                 \
	X(DEFERRED_LIMITED, "deferred_limited") /* not copied: a process's burst was used up */    \
	X(DEFERRED_FULL, "deferred_full")	/* not copied: the ring `deferred` was full */     \
	X(FILTERED, "filtered")			/* ticks that a filter rejected */                 \
	X(IDLE, "idle")				/* ticks in the idle task */

#define BH_COUNTER_ENUM(name, text) BH_COUNTER_##name,
enum bh_counter {
	BH_COUNTERS(BH_COUNTER_ENUM) BH_COUNTER_COUNT
};

struct bh_counters {
	uint64_t value[16];
};
_Static_assert(BH_COUNTER_COUNT <= 16, "counters fit their slot");

/* A frame of the user stack: module number and offset in the module's file, or, with the top bit
 * set, an address in memory that belongs to no file (JIT code). Callers' frames hold the return
 * address less one, so that they lie in the call. */
#define BH_FRAME_RAW (1ull << 63)
#define BH_VSYSCALL_PAGE (0xffffffffff600000ull >> 12)
#define BH_FRAME_OFFSET_BITS 40
#define BH_FRAME_OFFSET_MASK ((1ull << BH_FRAME_OFFSET_BITS) - 1)
#define BH_MODULE_ID_MAX ((1u << 22) - 1)

/* Not more than 48 bits of a raw address, whatever a register held: above them, kernel addresses
 * look the same. */
#define BH_ADDRESS_MASK ((1ull << 48) - 1)

static inline uint64_t bh_frame_raw(uint64_t pc)
{
	return BH_FRAME_RAW | (pc & BH_ADDRESS_MASK);
}

/* The language runtimes; 0 is none. */
enum bh_runtime {
	BH_RUNTIME_NONE,
#define RUNTIME(id, name, frame_type, title) BH_RUNTIME_##id,
#include "common/runtimes.def"
#undef RUNTIME
	BH_RUNTIME_COUNT
};

/* A set of runtimes has the bit 1 << number of each. */
#define BH_RUNTIMES_ALL ((1u << BH_RUNTIME_COUNT) - 2u)
_Static_assert(BH_RUNTIME_COUNT <= 32, "a set of runtimes is one word");

/*
 * A managed frame: a word with the two top bits set, how many words follow it (not more than
 * BH_MANAGED_EXTRA_MAX, so that no kernel address looks like one), the runtime, and 48 bits that
 * are, like the words behind, the runtime's own business (bpf/runtime/NAME.h).
 */
#define BH_FRAME_MANAGED (3ull << 62)
#define BH_MANAGED_EXTRA_SHIFT 58
#define BH_MANAGED_EXTRA_MAX 3
#define BH_MANAGED_RUNTIME_SHIFT 48
#define BH_MANAGED_RUNTIME_MASK 0x3ffu

static inline uint64_t bh_frame_managed(unsigned int runtime, uint64_t payload, unsigned int extra)
{
	return BH_FRAME_MANAGED | (uint64_t)extra << BH_MANAGED_EXTRA_SHIFT |
	       (uint64_t)runtime << BH_MANAGED_RUNTIME_SHIFT | (payload & BH_ADDRESS_MASK);
}

static inline int bh_frame_is_managed(uint64_t frame)
{
	return frame >> 60 == 0xc;
}

static inline unsigned int bh_frame_runtime(uint64_t frame)
{
	return (unsigned int)(frame >> BH_MANAGED_RUNTIME_SHIFT) & BH_MANAGED_RUNTIME_MASK;
}

/* Words of the frame that begins with this one. */
static inline unsigned int bh_frame_words(uint64_t frame)
{
	return bh_frame_is_managed(frame) ? 1 + (unsigned int)(frame >> BH_MANAGED_EXTRA_SHIFT & 3)
					  : 1;
}

/* ---- Tables: written by the manager in place, read by the walker. ---- */

/* An executable mapping. A process has an array of them in a slab, sorted by start, not
 * overlapping. */
struct bh_mapping {
	uint64_t start, end;
	uint64_t bias;	    /* address - bias = offset in the file; 0 for memory without a file */
	uint32_t slot;	    /* in `modules` */
	uint32_t module_id; /* never used twice in a recording */
};
BH_ASSERT_SIZE(struct bh_mapping, 32);

enum bh_module_state {
	BH_MODULE_PENDING, /* tables not built yet: defer */
	BH_MODULE_READY,
	BH_MODULE_FRAME_POINTERS, /* nothing known: frame pointers */
};

/* Slot 0 stands for memory without a file: frame pointers. */
struct bh_module {
	uint32_t state; /* enum bh_module_state */
	uint32_t id;	/* must equal the module_id of the mapping: a slot may be used again */
	uint32_t page_slab, page_offset;
	uint32_t first_page, page_count;
};
BH_ASSERT_SIZE(struct bh_module, 24);

/* Where the deltas of one page are. The first one's address is 0: the rule that holds at the page's
 * begin. */
struct bh_page {
	uint32_t offset;
	uint16_t slab;
	uint16_t count; /* at least 1 */
};
BH_ASSERT_SIZE(struct bh_page, 8);

struct bh_delta {
	uint16_t low; /* file offset within its page */
	uint16_t rule;
};
BH_ASSERT_SIZE(struct bh_delta, 4);

enum bh_rule_kind {
	BH_RULE_FRAME_POINTER, /* no table says otherwise; rule 0 is this */
	BH_RULE_END,	       /* outermost frame: the return address is undefined */
	BH_RULE_SP,	       /* CFA = rsp + cfa */
	BH_RULE_FP,	       /* CFA = rbp + cfa */
	BH_RULE_REGISTER, /* CFA = another register + cfa: rbx, or any where all registers are known
			   */
	BH_RULE_DEREF,	  /* CFA = *(register + cfa) + extra */
	BH_RULE_PLT,	  /* CFA = rsp + cfa + ((rip & 15) >= extra ? 8 : 0) */
	BH_RULE_SIGNAL,	  /* rsp points to the ucontext of a signal frame */
	BH_RULE_RA_REGISTER, /* CFA = rsp + cfa, the return address is in `reg` */
	BH_RULE_UNKNOWN,     /* the table describes what we cannot evaluate */
};

enum bh_fp_kind {
	BH_FP_SAME,
	BH_FP_CFA,	/* at *(CFA + fp) */
	BH_FP_REGISTER, /* at *(rbp + fp) */
	BH_FP_LOST,
};

struct bh_rule {
	uint8_t kind; /* enum bh_rule_kind */
	uint8_t reg;  /* DWARF number */
	/* enum bh_fp_kind, of rbp and of rbx (BH_FP_REGISTER: rbp only) */
	uint8_t fp_kind, bx_kind;
	int32_t cfa;
	int32_t extra;
	int16_t fp, bx; /* in words of 8 bytes */
};
BH_ASSERT_SIZE(struct bh_rule, 16);

/* Open addressing by tgid. `sequence` is odd while the manager writes; a walker that sees it odd,
 * or changed at the end, does not trust what it read. */
struct bh_process {
	uint32_t tgid; /* 0: free */
	uint32_t sequence;
	uint32_t mapping_slab, mapping_offset, mapping_count;
	uint32_t reserved[3];
};
BH_ASSERT_SIZE(struct bh_process, 32);

struct bh_process_table {
	struct bh_process slots[1 << BH_PROCESSES_BITS];
};

static inline uint32_t bh_process_hash(uint32_t tgid)
{
	return (tgid * 2654435761u) >> (32 - BH_PROCESSES_BITS);
}

/*
 * What the worker tells of processes with a language runtime: open addressing by tgid. `sequence`
 * as in struct bh_process. A process has ranges of addresses, sorted, not overlapping, in which a
 * runtime knows the frames better than unwind tables do: an interpreter's loop, compiled code.
 */
struct bh_runtime_range {
	uint64_t start, end;
	uint16_t runtime; /* enum bh_runtime */
	uint16_t block;	  /* in `blocks`: of this runtime in this process */
	uint32_t data;	  /* the runtime's own */
};
BH_ASSERT_SIZE(struct bh_runtime_range, 24);

/* Addresses that a range in a file may be at: what walks past plain native frames looks here only.
 */
struct bh_runtime_code_filter {
	uint64_t start, bytes;
};

struct bh_runtime_slot {
	uint32_t tgid; /* 0: free */
	uint32_t sequence;
	uint32_t first_range, range_count;
	struct bh_runtime_code_filter code_filters[BH_RUNTIME_CODE_FILTERS];
};
BH_ASSERT_SIZE(struct bh_runtime_slot, 48);

/* Only a runtime's own two files know what is in it. */
struct bh_runtime_block {
	uint64_t words[BH_RUNTIME_BLOCK_BYTES / 8];
};
BH_ASSERT_SIZE(struct bh_runtime_block, BH_RUNTIME_BLOCK_BYTES);

struct bh_runtime_table {
	struct bh_runtime_slot slots[1 << BH_RUNTIME_SLOTS_BITS];
	struct bh_runtime_block blocks[1 << BH_RUNTIME_BLOCKS_BITS];
	struct bh_runtime_range ranges[1 << BH_RUNTIME_RANGES_BITS];
};

static inline uint32_t bh_runtime_hash(uint32_t tgid)
{
	return (tgid * 2654435761u) >> (32 - BH_RUNTIME_SLOTS_BITS);
}

/* What the worker tells the kernel side. */
struct bh_worker_control {
	uint32_t generation; /* changed: forget what was sent, send every stack again */
	uint32_t reserved;
};
BH_ASSERT_SIZE(struct bh_worker_control, 8);

/* ---- Records. ---- */

enum bh_origin {
	BH_ORIGIN_CPU_CLOCK
};

enum {
	BH_SAMPLE_MANAGED = 1, /* there are managed frames among the user frames */
};

/*
 * In the ring `samples`: header, user frames, kernel frames (addresses); 8 bytes each, leaf first.
 *
 * A stack that was seen a moment ago is not sent again: `stack` is its number, a keyed hash of the
 * process and the frames; the record that has them came earlier through the same ring, not more
 * than BH_DEDUP_EPOCHS epochs ago. Two stacks of one process may share a number by rare chance or
 * if that process wants it so; a process cannot know the numbers of another.
 */
struct bh_sample {
	uint64_t stack_id;	   /* 0: it has none, and is not referred to later */
	uint64_t time_ns;	   /* CLOCK_MONOTONIC */
	uint64_t process_start_ns; /* boot time of the process's start: tells two users of a tgid
				      apart */
	uint64_t cgroup_id;
	uint32_t tgid, tid;
	uint16_t cpu;
	uint16_t
	    user_count; /* words; this and kernel_count 0 and a stack: that stack, sent before */
	uint8_t kernel_count;
	uint8_t flags;	/* BH_SAMPLE_* */
	uint8_t reason; /* enum bh_reason: how the user stack ended */
	uint8_t origin; /* enum bh_origin */
	char comm[BH_COMM_BYTES];
};
BH_ASSERT_SIZE(struct bh_sample, 64);

struct bh_sample_record {
	struct bh_sample header;
	uint64_t frames[BH_FRAMES_ROOM];
};

/* User registers by their DWARF numbers, then rip. */
enum {
	BH_REG_RAX,
	BH_REG_RDX,
	BH_REG_RCX,
	BH_REG_RBX,
	BH_REG_RSI,
	BH_REG_RDI,
	BH_REG_RBP,
	BH_REG_RSP
};
struct bh_registers {
	uint64_t gpr[16];
	uint64_t rip;
};

/* In the ring `deferred`: a sample without user frames, and what is needed to find them later. Cut
 * after `copied` bytes of stack. */
struct bh_deferred {
	struct bh_sample header; /* user_count 0 */
	struct bh_registers registers;
	uint64_t stack_start;
	uint32_t copied; /* bytes of `stack` */
	uint32_t reserved;
	uint64_t kernel_frames[BH_KERNEL_FRAMES_MAX];
	uint8_t stack[BH_STACK_COPY_BYTES];
};

#endif

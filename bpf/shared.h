/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The header that the kernel side and user space share: layouts of maps, records, and limits. All
 * fields have fixed widths. There are no pointers and no implicit padding, and both compilers check
 * the sizes.
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
	/* Words of a record. A native frame has one, a managed frame two or three. There is room
	 * for 300 levels of a recursion in which the interpreter has three frames of its own
	 * between two of the program. */
	BH_USER_FRAMES_MAX = 2048,
	/* Steps in which one stack is unwound. A step unwinds some native frames or calls the
	 * walker of a runtime. The steps are made in batches, so that the work of the verifier is
	 * the sum of both numbers, not their product. */
	BH_UNWIND_BATCHES = 32,
	BH_UNWIND_BATCH_STEPS = 32,
	/* Changes from the program of one runtime to that of another in one stack. With the first
	 * program and BH_PROGRAM_FINISH these are 32 tail calls, as many as every kernel allows
	 * (MAX_TAIL_CALL_CNT of include/linux/bpf.h is 32 or 33). If one more is refused, new
	 * code is not looked for. */
	BH_PROGRAM_CHANGES_MAX = 30,
	/* The default of kernel.perf_event_max_stack, which limits bpf_get_stack(). */
	BH_KERNEL_FRAMES_MAX = 127,
	BH_FRAMES_ROOM = BH_USER_FRAMES_MAX + BH_KERNEL_FRAMES_MAX + 1, /* and a goroutine */
	BH_COMM_BYTES = 16,

	BH_SLAB_BYTES = 2 << 20,
	BH_SLABS_MAX = 32, /* 64 MiB of unwind data */

	BH_PAGE_BITS = 10,	  /* an entry of the index is for 1 KiB of the module's file */
	BH_PAGE_DELTAS_BITS = 10, /* at most one delta for each byte */

	BH_PROCESSES_BITS = 14,	       /* slots of the process table */
	BH_PROCESS_PROBES = 16,	       /* slots in which one tgid is searched */
	BH_PROCESS_MAPPINGS_BITS = 12, /* executable mappings of a process */
	BH_MODULES_BITS = 13,
	BH_RULES_BITS = 16,

	/* Is added to the id of the helper bpf_probe_read_user(); loader/user_reads.c says why. */
	BH_USER_READ_MARK = 1 << 16,

	BH_RED_ZONE_BYTES = 128, /* in use below the stack pointer (x86-64 psABI 3.2.2) */
	/* The copy of a deferred stack: up to 16 KiB, in pages, from the red zone on. */
	BH_STACK_COPY_PAGES = 4,
	BH_STACK_COPY_BYTES = BH_STACK_COPY_PAGES * 4096,
	/* Stacks of a process that are deferred in one second. Copying them takes some ms. */
	BH_DEFERRED_PER_SECOND_MAX = 512,

	BH_DEDUP_BITS = 14,	  /* entries for stacks that were sent */
	BH_DEDUP_EPOCH_BITS = 31, /* an epoch is 2^31 ns, which is 2.1 s */
	BH_DEDUP_EPOCHS = 8,	  /* for this long a stack is not sent again */

	BH_RUNTIME_SLOTS_BITS = 13, /* processes with a language runtime: at most 3,072 */
	BH_RUNTIME_PROBES = 8,
	BH_RUNTIME_BLOCKS_BITS = 12, /* one for each runtime of a process */
	BH_RUNTIME_BLOCK_BYTES = 256,
	BH_RUNTIME_RANGES_BITS = 14,	    /* of all processes */
	BH_RUNTIME_PROCESS_RANGES_BITS = 9, /* of one process */
	BH_RUNTIME_CODE_FILTERS = 2,

	BH_PID_FILTER_MAX = 65536, /* tgids in the filter by process, with those that were forked */
};

/* Why the unwinding of a user stack ended. */
enum bh_reason {
	BH_REASON_COMPLETE,
#define INCOMPLETE_REASON(id, name) BH_REASON_##id,
#include "common/incomplete_reasons.def"
#undef INCOMPLETE_REASON
	BH_REASON_COUNT
};

/* Returns whether the stack may be complete once the manager has caught up: its process, mapping or
 * table was missing. */
static inline int bh_reason_is_temporary(unsigned int reason)
{
	return reason == BH_REASON_NO_PROCESS || reason == BH_REASON_NO_MAPPING ||
	       reason == BH_REASON_NO_TABLE || reason == BH_REASON_CHANGED;
}

/* The counters of the kernel side. Each CPU has one of each. */
#define BH_COUNTERS(X)                                                                             \
	X(TAKEN, "taken") /* samples that passed the filters */                                    \
	X(LOST_RING_FULL,                                                                          \
	  "ring_full")		/* of them, those lost because the ring `samples` was full */      \
	X(DEFERRED, "deferred") /* stacks sent to the manager */                                   \
	X(DEFERRED_LIMITED, "deferred_limited") /* not sent: too many of this process */           \
	X(DEFERRED_FULL, "deferred_full")	/* not sent: the ring `deferred` was full */       \
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

/* A native frame of the user stack: module id and offset in the module's file. With the top bit set
 * it is an address in memory that belongs to no file (JIT code). The frame of a caller has the
 * return address - 1, so that it lies in the call. */
#define BH_FRAME_RAW (1ull << 63)
#define BH_VSYSCALL_PAGE (0xffffffffff600000ull >> 12)
#define BH_FRAME_OFFSET_BITS 40
#define BH_FRAME_OFFSET_MASK ((1ull << BH_FRAME_OFFSET_BITS) - 1)
#define BH_MODULE_ID_MAX ((1u << 22) - 1)

/* A raw address has 48 bits, whatever a register contained. With more bits it would look like a
 * kernel address. */
#define BH_ADDRESS_MASK ((1ull << 48) - 1)

static inline uint64_t bh_frame_raw(uint64_t pc)
{
	return BH_FRAME_RAW | (pc & BH_ADDRESS_MASK);
}

static inline int bh_frame_is_raw(uint64_t frame)
{
	return frame >> 48 == BH_FRAME_RAW >> 48;
}

/* The ids of the language runtimes. 0 is none. */
enum bh_runtime {
	BH_RUNTIME_NONE,
#define RUNTIME(id, name, frame_type, title) BH_RUNTIME_##id,
#include "common/runtimes.def"
#undef RUNTIME
	BH_RUNTIME_COUNT
};

/* The programs between which a sample is passed on, as indexes into the map `programs`. */
enum bh_program {
	/* Plus a runtime: walks the rest of a stack (bpf/sample/unwind.h). */
	BH_PROGRAM_WALK = 0,
	BH_PROGRAM_FINISH = BH_PROGRAM_WALK, /* ends the sample; no runtime is 0 */
	/* Plus a runtime: sends a stack with managed frames, and before it what the names of new
	 * code need (bpf/sample/new_code.h). */
	BH_PROGRAM_SEND = BH_RUNTIME_COUNT,
	BH_PROGRAM_COUNT = BH_PROGRAM_SEND + BH_RUNTIME_COUNT
};

/* In a set of runtimes each one has the bit 1 << id. */
#define BH_RUNTIMES_ALL ((1u << BH_RUNTIME_COUNT) - 2u)
_Static_assert(BH_RUNTIME_COUNT <= 32, "a set of runtimes is one word");

/*
 * A managed frame. The first word has the two top bits set, then the number of words that follow it
 * (at most BH_MANAGED_EXTRA_MAX, so that no kernel address looks like one), the runtime's id, and a
 * payload of 48 bits. Payload and the following words are defined by the runtime
 * (bpf/runtime/NAME.h).
 */
#define BH_FRAME_MANAGED (3ull << 62)
#define BH_MANAGED_EXTRA_SHIFT 57
#define BH_MANAGED_EXTRA_MAX 7
#define BH_MANAGED_RUNTIME_SHIFT 48
#define BH_MANAGED_RUNTIME_MASK 0x1ffu

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

/* Returns the number of words of the frame that begins with this one. */
static inline unsigned int bh_frame_words(uint64_t frame)
{
	return bh_frame_is_managed(frame)
		   ? 1 + (unsigned int)(frame >> BH_MANAGED_EXTRA_SHIFT & BH_MANAGED_EXTRA_MAX)
		   : 1;
}

/* ---- Tables. The manager writes them in place, and the unwinder reads them. ---- */

/* An executable mapping. A process has an array of them in a slab, sorted by address, without
 * overlaps. */
struct bh_mapping {
	uint64_t start, end;
	uint64_t bias;	    /* offset in the file = address - bias; 0 for memory without a file */
	uint32_t slot;	    /* in `modules` */
	uint32_t module_id; /* never used twice in a recording */
};
BH_ASSERT_SIZE(struct bh_mapping, 32);

enum bh_module_state {
	BH_MODULE_PENDING, /* the table is not built yet: defer the stack */
	BH_MODULE_READY,
	BH_MODULE_FRAME_POINTERS, /* there is no table: use frame pointers */
	BH_MODULE_REFUSED,	  /* its table is not built for now: the stack ends here */
	BH_MODULE_COMPAT,	  /* a file of 32 bits: the stack ends here */
};

/* A module: a file that has been mapped. Slot 0 is memory without a file, with frame pointers. */
struct bh_module {
	uint32_t state; /* enum bh_module_state */
	uint32_t id;	/* must equal the module_id of the mapping: a slot may be used again */
	uint32_t page_slab, page_offset;
	uint32_t first_page, page_count;
};
BH_ASSERT_SIZE(struct bh_module, 24);

/* Where the deltas of one page are. The address of the first one is 0: the rule that applies from
 * the start of the page. */
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
	BH_RULE_FRAME_POINTER, /* the default where no table has a rule; rule 0 */
	BH_RULE_END,	       /* the outermost frame: its return address is undefined */
	BH_RULE_SP,	       /* CFA = rsp + cfa */
	BH_RULE_FP,	       /* CFA = rbp + cfa */
	BH_RULE_REGISTER,      /* CFA = another register + cfa */
	BH_RULE_DEREF,	       /* CFA = *(register + cfa) + extra */
	BH_RULE_PLT,	       /* CFA = rsp + cfa + ((rip & 15) >= extra ? 8 : 0) */
	BH_RULE_SIGNAL,	       /* rsp points to the ucontext of a signal frame */
	BH_RULE_RA_REGISTER,   /* CFA = rsp + cfa; the return address is in `reg` */
	BH_RULE_OTHER_STACK,   /* CFA = rbp + cfa, on another stack: it may be lower */
	BH_RULE_UNKNOWN,       /* the rule cannot be evaluated */
	BH_RULE_REFUSED,       /* there was no room for the rule; rule 1 */
	BH_RULE_COMPAT,	       /* code of a file of 32 bits; rule 2 */
};

/* The rules that are always in the table. */
enum {
	BH_RULE_ID_FRAME_POINTER,
	BH_RULE_ID_REFUSED,
	BH_RULE_ID_COMPAT,
	BH_RULE_IDS_FIXED
};

enum bh_fp_kind {
	BH_FP_SAME,
	BH_FP_CFA,	/* saved at CFA + fp */
	BH_FP_REGISTER, /* saved at rbp + fp */
	BH_FP_LOST,
};

struct bh_rule {
	uint8_t kind; /* enum bh_rule_kind */
	uint8_t reg;  /* DWARF number */
	/* enum bh_fp_kind, for rbp and rbx. BH_FP_REGISTER is only for rbp. */
	uint8_t fp_kind, bx_kind;
	int32_t cfa;
	int32_t extra;
	int16_t fp, bx; /* in words of 8 bytes */
};
BH_ASSERT_SIZE(struct bh_rule, 16);

/* A process. The table uses open addressing by tgid. `sequence` is odd while the manager writes. A
 * reader that sees an odd number, or another one at the end, must not trust what it has read. */
struct bh_process {
	uint32_t tgid; /* 0: free */
	uint32_t sequence;
	uint32_t mapping_slab, mapping_offset, mapping_count;
	/* The manager allows to read its memory as that of a language runtime. Without that, a slot
	 * in struct bh_runtime_table, which the worker writes, counts for nothing. */
	uint32_t runtime_allowed;
	/* When the process was known to be running, in ns of boot time: one that started later is
	 * another process with the same tgid. */
	uint64_t alive_ns;
};
BH_ASSERT_SIZE(struct bh_process, 32);

struct bh_process_table {
	struct bh_process slots[1 << BH_PROCESSES_BITS];
	/* For the next manager: how many stacks have been taken from the ring `deferred`, without
	 * those that were counted as lost. */
	uint64_t deferred_taken;
};

static inline uint32_t bh_process_hash(uint32_t tgid)
{
	return (tgid * 2654435761u) >> (32 - BH_PROCESSES_BITS);
}

/*
 * What the worker publishes about processes with a language runtime, by open addressing by tgid.
 * `sequence` is as in struct bh_process. A process has sorted ranges of addresses, without
 * overlaps, in which a runtime knows the frames better than unwind rules do: the loop of an
 * interpreter, or compiled code.
 */
struct bh_runtime_range {
	uint64_t start, end;
	uint16_t runtime; /* enum bh_runtime */
	uint16_t block;	  /* index in `blocks`, of this runtime in this process */
	uint32_t data;	  /* defined by the runtime */
};
BH_ASSERT_SIZE(struct bh_runtime_range, 24);

/* An interval that contains ranges in mapped files. The fast path over native
 * frames checks only these. */
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

/* The data of a runtime for one process. Only the files of that runtime know its layout. */
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

/* What the worker sets for the kernel side. */
struct bh_worker_control {
	uint32_t generation; /* a new one: all stacks are sent again */
	uint32_t reserved;
	/* Samples that have been taken from the ring or from the manager, and are in batches or
	 * wait for names. It is for the next worker. */
	uint64_t position;
	/* Deferred stacks that the manager has sent (symbolizer/worker/deferred_count.h). Also for
	 * the next worker. */
	uint64_t deferred_received;
};
BH_ASSERT_SIZE(struct bh_worker_control, 24);

/* ---- Records in the rings. ---- */

enum bh_origin {
	BH_ORIGIN_CPU_CLOCK
};

enum {
	BH_SAMPLE_MANAGED = 1,	 /* some of the user frames are managed frames */
	BH_RECORD_COPY = 2,	 /* the record is a struct bh_memory_copy, not a sample */
	BH_SAMPLE_GOROUTINE = 4, /* a word with the id of a goroutine follows the frames */
};

/*
 * A record in the ring `samples`: this header, the user frames, the kernel frames (addresses), and
 * with BH_SAMPLE_GOROUTINE a word. A frame or word has 8 bytes. The leaf is first.
 *
 * A stack that was sent a moment ago is not sent again. Then both counts are 0, and stack_id is
 * that of the earlier record, which came through the same ring at most BH_DEDUP_EPOCHS epochs ago.
 * The goroutine is no part of the stack, and each sample has its own.
 * The id is a keyed hash of the process and the frames. Two stacks of one process may have the same
 * id by rare chance or if the process forces it; a process cannot know the ids of another one.
 */
struct bh_sample {
	uint64_t stack_id;	   /* 0: it has no id, and is not referred to later */
	uint64_t time_ns;	   /* CLOCK_MONOTONIC */
	uint64_t process_start_ns; /* in boot time; a tgid may be used again by another process */
	uint64_t cgroup_id;
	uint32_t tgid, tid;
	uint16_t cpu;
	uint16_t user_count; /* words of user frames */
	uint8_t kernel_count;
	uint8_t flags;	/* BH_SAMPLE_* */
	uint8_t reason; /* enum bh_reason: why the user stack ended */
	uint8_t origin; /* enum bh_origin */
	char comm[BH_COMM_BYTES];
};
BH_ASSERT_SIZE(struct bh_sample, 64);

struct bh_sample_record {
	struct bh_sample header;
	uint64_t frames[BH_FRAMES_ROOM];
};

/*
 * Another record in the ring `samples`: a copy of what a name needs from the memory of a process,
 * because the memory may be free when the worker reads it. It comes before the sample in which the
 * managed frame is. The header has no frames; its flags are BH_RECORD_COPY.
 *
 * After this struct follow parts: a struct bh_memory_part and then `room` bytes, of which the first
 * `bytes` are a copy of the memory at `address`.
 */
struct bh_memory_copy {
	struct bh_sample header;
	uint64_t frame;	  /* the first word of the managed frame */
	uint64_t word;	  /* its second word */
	uint64_t more[2]; /* the next ones, if it has them */
};
BH_ASSERT_SIZE(struct bh_memory_copy, 96);

struct bh_memory_part {
	uint64_t address;
	uint32_t bytes; /* 0: could not be read, or is too long */
	uint32_t room;	/* a multiple of 8 */
};
BH_ASSERT_SIZE(struct bh_memory_part, 16);

enum {
	BH_MEMORY_COPY_MAX = 2048 /* bytes of such a record */
};

/* User registers by their DWARF register numbers, and rip. */
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

/* A record in the ring `deferred`: a sample without user frames, and what is needed to unwind the
 * stack later. The reason of the sample is why it could not be unwound at once. It ends after
 * `copied` bytes of the stack. */
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

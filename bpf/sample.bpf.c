/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sampling program: one tick of a CPU's clock becomes one record in the ring `samples`, or one
 * in `deferred`. */
#include "bpf/env.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Filters, set before the program is loaded: what is off is dead code for the verifier. */
const volatile bool filter_pids;	  /* only tgids in `pid_filter` */
const volatile __u32 filter_tid;	  /* only this thread */
const volatile __u64 filter_cgroup;	  /* only below this cgroup (v2 id) ... */
const volatile __u32 filter_cgroup_level; /* ... which is at this depth */
const volatile bool filter_comm;	  /* only threads of this name */
const volatile char filter_comm_name[BH_COMM_BYTES];
const volatile bool want_kernel = true;
const volatile bool want_user = true;
/* Wake the worker when a CPU has put this much into the ring since it last did. */
const volatile __u32 wakeup_bytes = 256 << 10;
/* By enum bh_runtime. */
const volatile bool runtime_wanted[BH_RUNTIME_COUNT];
/* Secret and odd: with it, who controls frames cannot choose the numbers of stacks. */
const volatile __u64 stack_key = 1;

/* When the worker was last woken for the sake of managed stacks, by whichever CPU. */
static volatile __u64 last_fast_notify_ns;

/* sizeof(struct pt_regs) and THREAD_SIZE of x86-64, for kernels that have no helper to find the
 * user registers. */
enum {
	X86_THREAD_BYTES = 16384,
	X86_USER_CODE_SEGMENT = 0x33,
	KERNEL_THREAD_FLAG = 0x00200000,
	/* How long new managed stacks may wait. */
	NOTIFY_INTERVAL_NS = 100000000,
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64); /* second << 32 | deferred in it */
} defer_rate_limit SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bh_deferred);
} deferred_scratch SEC(".maps");

static __always_inline void count(enum bh_counter counter)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct bh_counters *c = bpf_map_lookup_elem(&counters, &cpu);

	if (c)
		c->value[counter]++;
}

/* A global function, so that the verifier walks it once and not at each step. */
__noinline int unwind_steps_global(__u32 unused)
{
	__u32 zero = 0;

	GLOBAL_ARGUMENT(unused);
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	struct rule_cache *cache = bpf_map_lookup_elem(&rule_caches, &zero);

	return cpu && cache ? unwind_steps(&cpu->unwind, 0, cache) : BH_REASON_BAD_TABLE;
}

#define RUNTIME(id, name, frame_type, title) int walker_##name(__u32 zero);
#include "common/runtimes.def"
#undef RUNTIME

/* Hand over to the walker of the runtime in whose range the frame is. */
static __always_inline int call_walker(__u32 runtime)
{
#define RUNTIME(id, name, frame_type, title)                                                       \
	if (runtime_wanted[BH_RUNTIME_##id] && runtime == BH_RUNTIME_##id)                         \
		return walker_##name(0);
#include "common/runtimes.def"
#undef RUNTIME
	return BH_REASON_BAD_TABLE;
}

/* Steps until the stack ends, and not more than a turn has. */
__noinline int unwind_batch(__u32 unused)
{
	__u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	int end = UNWIND_CONTINUE;

	GLOBAL_ARGUMENT(unused);
	if (!cpu)
		return BH_REASON_BAD_TABLE;
	for (int i = 0; i < BH_UNWIND_BATCH_STEPS; i++) {
		end = unwind_steps_global(0);
		if (end == UNWIND_CALL_WALKER)
			end = call_walker(cpu->unwind.runtime.id);
		if (end != UNWIND_CONTINUE)
			break;
	}
	return end;
}

/* The task of the sample: what is read of it. */
struct sampled_task {
	__u64 process_start_ns;
	bool has_user_stack; /* kernel threads never had one, a process that exits has given it back
			      */
	bool is_executing;   /* between two programs: the memory is the new one's already, the
				registers are still the old one's */
};

/* By BTF pointers, which cost a load each, where the kernel has them (5.11). */
static __always_inline void describe_task(struct sampled_task *out)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)) {
		struct task_struct *task = bpf_get_current_task_btf();

		out->process_start_ns = task->group_leader->start_boottime;
		out->has_user_stack = task->mm && !(task->flags & KERNEL_THREAD_FLAG);
		out->is_executing = bpf_core_field_exists(task->in_execve) &&
				    BPF_CORE_READ_BITFIELD(task, in_execve);
	} else {
		struct task_struct *task = (void *)bpf_get_current_task();

		out->process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
		out->has_user_stack =
		    BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & KERNEL_THREAD_FLAG);
		out->is_executing = bpf_core_field_exists(task->in_execve) &&
				    BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
	}
}

/* The user registers of the current task: the tick's own if it hit user mode, else those that the
 * kernel saved at its entry. */
static __always_inline int load_registers(struct bpf_perf_event_data *ctx, struct cpu_state *cpu,
					  bool user_mode)
{
	const struct pt_regs *regs = &cpu->regs;
	struct unwind_state *s = &cpu->unwind;

	if (user_mode) {
		cpu->regs = *(struct pt_regs *)&ctx->regs;
	} else {
		const void *at;

		if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
			at = (const void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
		} else {
			struct task_struct *task = (void *)bpf_get_current_task();

			at = (const char *)BPF_CORE_READ(task, stack) + X86_THREAD_BYTES -
			     sizeof(*regs);
		}
		if (bpf_probe_read_kernel(&cpu->regs, sizeof(cpu->regs), at))
			return BH_REASON_READ_FAULT;
	}
	s->gpr[0] = regs->rax;
	s->gpr[1] = regs->rdx;
	s->gpr[2] = regs->rcx;
	s->gpr[3] = regs->rbx;
	s->gpr[4] = regs->rsi;
	s->gpr[5] = regs->rdi;
	s->gpr[6] = s->fp = regs->rbp;
	s->gpr[7] = s->sp = regs->rsp;
	s->gpr[8] = regs->r8;
	s->gpr[9] = regs->r9;
	s->gpr[10] = regs->r10;
	s->gpr[11] = regs->r11;
	s->gpr[12] = regs->r12;
	s->gpr[13] = regs->r13;
	s->gpr[14] = regs->r14;
	s->gpr[15] = regs->r15;
	s->pc = regs->rip;
	return regs->cs == X86_USER_CODE_SEGMENT ? UNWIND_CONTINUE : BH_REASON_COMPAT;
}

/* The process's entry in the table: its mappings into s, its sequence number out. */
static __always_inline int find_process(struct unwind_state *s, __u32 tgid,
					struct bh_process **found, __u32 *sequence)
{
	__u32 zero = 0;
	struct bh_process_table *table = bpf_map_lookup_elem(&processes, &zero);

	if (!table)
		return BH_REASON_BAD_TABLE;
	__u32 slot = bh_process_hash(tgid);

	for (int i = 0; i < BH_PROCESS_PROBES; i++) {
		struct bh_process *p = &table->slots[(slot + i) & ((1 << BH_PROCESSES_BITS) - 1)];

		if (p->tgid != tgid)
			continue;
		*sequence = *(volatile __u32 *)&p->sequence;
		s->mapping_slab = p->mapping_slab;
		s->mapping_offset = p->mapping_offset;
		s->mapping_count = p->mapping_count;
		*found = p;
		return (*sequence & 1) ? BH_REASON_CHANGED : UNWIND_CONTINUE;
	}
	return BH_REASON_NO_PROCESS;
}

static __always_inline int unwind_user_stack(struct unwind_state *s, __u32 tgid)
{
	struct bh_process *process = NULL;
	__u32 sequence = 0;
	int end = find_process(s, tgid, &process, &sequence);

	unwind_start(s);
	if (end != UNWIND_CONTINUE) {
		push_native(s, bh_frame_raw(s->pc));
		return end;
	}
	managed_find_slot(s, 0, tgid);
	for (int i = 0; i < BH_UNWIND_BATCHES; i++) {
		end = unwind_batch(0);
		if (end != UNWIND_CONTINUE)
			break;
	}
	if (process && *(volatile __u32 *)&process->sequence != sequence)
		end = BH_REASON_CHANGED;
	if (managed_slot_changed(s, 0))
		end = BH_REASON_CHANGED;
	return end == UNWIND_CONTINUE ? BH_REASON_TOO_DEEP : end;
}

static __always_inline bool burst_allows(__u32 tgid, __u64 now)
{
	__u64 second = now >> 30, fresh = second << 32 | 1;
	__u64 *burst = bpf_map_lookup_elem(&defer_rate_limit, &tgid);

	if (!burst || *burst >> 32 != (second & 0xffffffff)) {
		bpf_map_update_elem(&defer_rate_limit, &tgid, &fresh, BPF_ANY);
		return true;
	}
	if ((*burst & 0xffffffff) >= BH_DEFERRED_PER_SECOND_MAX)
		return false;
	(*burst)++;
	return true;
}

/* Copy the stack page by page, so that its end costs only what lies behind it. */
static __always_inline __u32 copy_stack(struct bh_deferred *d, __u64 sp)
{
	__u32 copied = 0;

	for (int i = 0; i < BH_STACK_COPY_PAGES; i++) {
		__u32 chunk = 4096 - ((sp + copied) & 4095);

		if (copied > BH_STACK_COPY_BYTES - 4096 || chunk > 4096)
			break;
		if (bpf_probe_read_user(d->stack + copied, chunk, (const void *)(sp + copied)))
			break;
		copied += chunk;
	}
	return copied;
}

/* How many frames bpf_get_stack gave. A fault in the vsyscall page looks to it like one in the
 * kernel. */
static __always_inline __u8 kernel_frames(const __u64 *frames, long bytes)
{
	__u64 count = bytes > 0 ? (__u64)bytes / 8 : 0;

	if (count && count <= BH_KERNEL_FRAMES_MAX && frames[count - 1] >> 12 == BH_VSYSCALL_PAGE)
		count--;
	return count;
}

/* Hand the stack to the manager. false if that cannot be: the sample then goes its usual way, cut.
 */
static __noinline bool defer(struct unwind_state *s, struct bpf_perf_event_data *ctx, __u64 sp,
			     __u64 fp, __u64 pc)
{
	__u32 zero = 0;
	struct bh_deferred *d = bpf_map_lookup_elem(&deferred_scratch, &zero);

	if (!d)
		return false;
	if (!burst_allows(s->header.tgid, s->header.time_ns)) {
		count(BH_COUNTER_DEFERRED_LIMITED);
		return false;
	}
	d->header = s->header;
	d->header.stack_id = 0;
	d->header.user_count = 0;
	__builtin_memcpy(d->registers.gpr, s->gpr, sizeof(s->gpr));
	d->registers.gpr[BH_REG_RSP] = sp;
	d->registers.gpr[BH_REG_RBP] = fp;
	d->registers.rip = pc;
	d->reserved = 0;
	d->header.kernel_count = 0;
	if (want_kernel)
		d->header.kernel_count =
		    kernel_frames(d->kernel_frames, bpf_get_stack(ctx, d->kernel_frames,
								  sizeof(d->kernel_frames), 0));
	/* What was popped a moment ago lies below rsp, and the tables may still say so. */
	d->stack_start = sp - BH_RED_ZONE_BYTES;
	d->copied = copy_stack(d, d->stack_start);
	if (!d->copied) {
		d->stack_start = sp;
		d->copied = copy_stack(d, sp);
	}
	/* The fault that brings the stack's next page: all that was ever written lies above. */
	if (!d->copied) {
		d->stack_start = (sp + 4095) & ~4095ull;
		d->copied = copy_stack(d, d->stack_start);
	}
	__u64 size = sizeof(*d) - sizeof(d->stack) + (d->copied & (2 * BH_STACK_COPY_BYTES - 1));

	if (size > sizeof(*d))
		return false;
	if (bpf_ringbuf_output(&deferred, d, size, 0)) {
		count(BH_COUNTER_DEFERRED_FULL);
		return false;
	}
	count(BH_COUNTER_DEFERRED);
	return true;
}

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

static __always_inline void fill_header(struct bh_sample *h, const struct sampled_task *task,
					__u64 id)
{
	h->time_ns = bpf_ktime_get_ns();
	h->process_start_ns = task->process_start_ns;
	h->cgroup_id = bpf_get_current_cgroup_id();
	h->tgid = id >> 32;
	h->tid = (__u32)id;
	h->cpu = bpf_get_smp_processor_id();
	h->kernel_count = 0;
	h->user_count = 0;
	h->reason = BH_REASON_COMPLETE;
	h->origin = BH_ORIGIN_CPU_CLOCK;
	h->flags = 0;
}

/* The secret that the numbers of stacks are made with, another for each generation. */
static __always_inline __u64 generation_key(void)
{
	__u32 zero = 0;
	const struct bh_worker_control *control = bpf_map_lookup_elem(&worker_control, &zero);
	__u64 generation = control ? *(volatile __u32 *)&control->generation : 0;

	return stack_key + (generation << 32);
}

/* The number of the stack in s->frames, never 0. Over a seed that is the process's own. */
static __always_inline __u64 number_stack(const struct unwind_state *s)
{
	const struct bh_sample *h = &s->header;
	__u64 sum = ((__u64)h->tgid << 32 | (__u32)h->user_count << 16 | h->reason) ^ s->stack_key;
	__u32 first = h->user_count & (2 * BH_USER_FRAMES_MAX - 1), count = h->kernel_count;

	sum = sum * stack_key;
	sum ^= sum >> 32;
	sum += s->stack_sum;
	for (__u32 i = 0; i < BH_KERNEL_FRAMES_MAX && i < count; i++) {
		__u64 at = bits_mask(first + i, 2 * BH_USER_FRAMES_MAX - 1);

		if (at >= BH_FRAMES_ROOM)
			break;
		sum += push_hash_frame(s, s->frames[at], at);
	}
	sum *= stack_key;
	sum ^= sum >> 32;
	return sum ? sum : 1;
}

/* A process's memory may be gone, or hold other things, when the worker comes to read the names of
 * a new managed stack from it: it is woken, not too often. */
static __always_inline bool hurry(const struct cpu_state *cpu)
{
	const __u64 now = cpu->unwind.header.time_ns;

	/* Signed: another CPU may have been here with a later time. */
	if (!cpu->unwind.runtime.managed_frames ||
	    (__s64)(now - last_fast_notify_ns) < NOTIFY_INTERVAL_NS)
		return false;
	last_fast_notify_ns = now;
	return true;
}

static __always_inline bool output(struct cpu_state *cpu, __u64 size, bool news)
{
	__u64 flags = BPF_RB_NO_WAKEUP;

	cpu->unannounced_bytes += size;
	if (cpu->unannounced_bytes >= wakeup_bytes || (news && hurry(cpu))) {
		cpu->unannounced_bytes = 0;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (!bpf_ringbuf_output(&samples, &cpu->unwind.header, size, flags))
		return true;
	count(BH_COUNTER_LOST_RING_FULL);
	return false;
}

/* With its frames, or if they were sent a moment ago, without. */
static __always_inline void submit(struct cpu_state *cpu)
{
	struct bh_sample *h = &cpu->unwind.header;
	__u64 frames = (__u64)h->user_count + h->kernel_count;
	__u64 size = sizeof(*h) + frames * 8;

	if (size > sizeof(*h) + sizeof(cpu->unwind.frames))
		size = sizeof(*h) + sizeof(cpu->unwind.frames);
	h->stack_id = number_stack(&cpu->unwind);
	__u32 index = h->stack_id & ((1 << BH_DEDUP_BITS) - 1);
	__u64 *seen = bpf_map_lookup_elem(&stack_dedup, &index);
	__u64 epoch = h->time_ns >> BH_DEDUP_EPOCH_BITS & 0xffff;
	__u64 entry = (h->stack_id & ~0xffffull) | epoch;

	if (!seen)
		return;
	__u64 last = *(volatile __u64 *)seen;
	bool known = (entry ^ last) >> 16 == 0 && (__u16)(entry - last) < BH_DEDUP_EPOCHS;
	if (frames && known) {
		h->user_count = 0;
		h->kernel_count = 0;
		output(cpu, sizeof(*h), false);
	} else if (output(cpu, size, true)) {
		*(volatile __u64 *)seen = entry;
	}
}

SEC("perf_event")
int bulkhead_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	__u64 id = bpf_get_current_pid_tgid();
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);

	if (!cpu)
		return 0;
	struct unwind_state *s = &cpu->unwind;
	if (!(__u32)id) {
		count(BH_COUNTER_IDLE);
		return 0;
	}
	bpf_get_current_comm(s->header.comm, sizeof(s->header.comm));
	if (!selected(id >> 32, (__u32)id, s->header.comm)) {
		count(BH_COUNTER_FILTERED);
		return 0;
	}
	count(BH_COUNTER_TAKEN);
	bool user_mode = (ctx->regs.cs & 3) == 3;
	struct sampled_task task;

	describe_task(&task);
	fill_header(&s->header, &task, id);
	s->stack_key = generation_key();
	unwind_clear_frames(s);
	if (want_user && task.has_user_stack) {
		int end = load_registers(ctx, cpu, user_mode);

		if (end == UNWIND_CONTINUE) {
			__u64 sp = s->sp, fp = s->fp, pc = s->pc;

			end = unwind_user_stack(s, id >> 32);
			if (end != BH_REASON_COMPLETE && task.is_executing) {
				unwind_clear_frames(s);
				end = BH_REASON_COMPLETE;
			}
			if (bh_reason_is_temporary(end) && defer(s, ctx, sp, fp, pc))
				return 0;
		}
		s->header.reason = end;
		s->header.user_count = s->frame_count;
		if (s->runtime.managed_frames)
			s->header.flags = BH_SAMPLE_MANAGED;
	}
	if (want_kernel && !user_mode) {
		__u64 at = s->header.user_count;

		/* Checked and used in one register, as the verifier wants it. */
		asm volatile("" : "+r"(at));
		if (at <= BH_USER_FRAMES_MAX) {
			long got = bpf_get_stack(ctx, &s->frames[at], BH_KERNEL_FRAMES_MAX * 8, 0);

			s->header.kernel_count = kernel_frames(&s->frames[at], got);
		}
	}
	submit(cpu);
	return 0;
}

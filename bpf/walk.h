/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker: one step from a frame to its caller. The same source runs in the kernel on live
 * stacks (sample.bpf.c) and in the manager on copied ones (deferred.c). Who includes it defines
 * before
 *
 *	walk_slab(env, index)    the bytes of a slab, or NULL
 *	walk_module(env, slot)   struct bh_module *, or NULL
 *	walk_rule(env, number)   struct bh_rule *, or NULL
 *	walk_runtimes(env)       struct bh_runtime_table *, or NULL
 *	walk_read(env, destination, bytes, address)
 *	                         0, or not 0 if the memory cannot be read
 *	WALK_CACHE_BITS          how many rules a walk_cache remembers
 *	WALK_HINT_BITS           for how many pages a walk_state remembers where their mapping is
 *
 * Searches are lower bounds without a branch but the end of the loop: with one that depends on what
 * was compared the verifier would follow each of 2^10 ways. `walk_below_or_equal` turns a
 * comparison into a mask, and every offset is masked to the slab, so no bound has to be proved.
 */
#ifndef BPF_WALK_H
#define BPF_WALK_H

#include "bpf/shared.h"

#ifdef __clang__
#define WALK_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define WALK_NO_UNROLL
#endif

enum {
	WALK_WINDOW_WORDS = 256, /* a power of two */
	WALK_PLAIN_FRAMES = 16,
	WALK_HEAP_WORDS = 256, /* a power of two */
	WALK_MEMORY_WORDS = 8,
	WALK_AHEAD_FRAMES = 8, /* a power of two */
	WALK_GO_ON = -1,
	WALK_RUNTIME = -2, /* s->runtime says which runtime's walker knows this frame */
};

/* What a runtime's walker did with the native frame it was called for. */
enum walk_passed {
	WALK_PASSED_NOTHING,
	WALK_PASSED_NOTED,   /* its frames stand for the native one: go over that, do not note it */
	WALK_PASSED_UNKNOWN, /* it knows nothing of it: a native frame like any other */
	WALK_PASSED_LATER,   /* go over the native frame, and call again: s->runtime.behind */
	WALK_PASSED_AGAIN,   /* it has more frames than it takes in one call */
};

/* Is the native frame that a walker is called for still at s->pc? */
enum walk_behind {
	WALK_NOT_BEHIND,
	WALK_JUST_BEHIND, /* WALK_PASSED_LATER: it was from frame_start to frame_end */
	WALK_BEHIND,
};

/* A point in the frames noted, to which one may go back. */
struct walk_mark {
	uint64_t sum;
	uint32_t count;
	uint32_t reserved;
};

/* A managed frame with one word behind its first. */
struct walk_ahead {
	uint64_t frame, extra;
};

/* Of language runtimes, while a stack is walked. A runtime's walker may use heap and memory. */
struct walk_runtime {
	uint32_t first_range, range_count; /* of the process; 0: it has no runtime */
	uint32_t frames;		   /* managed ones in the stack */
	uint32_t passed;		   /* enum walk_passed, of the frame at s->pc */
	uint32_t behind;		   /* enum walk_behind */
	uint32_t sequence, slot;
	/* Of bpf/runtime/known.h: what its keys are made with, another for each process and state
	 * of its slot; where the entry is that was used last. */
	uint64_t known_key, known_place;
	/* The range that s->pc is in, with WALK_RUNTIME. */
	uint32_t runtime, block, data;
	uint64_t range_start, range_end;
	/* Behind the native frame: stack pointers in it and in its caller (all ones if there is
	 * none), where its frames begin, and how the walk goes on: what the walker returns at last.
	 */
	uint64_t frame_start, frame_end;
	struct walk_mark begun;
	int32_t result;
	uint32_t scratch_identity;
	uint64_t argument[2]; /* of a walker's parts */
	uint64_t scratch_address;
	uint64_t scratch[16];
	struct bh_runtime_text texts[BH_RUNTIME_TEXTS];
	/* Frames noted ahead (walk_note_ahead): each stands for the next native frame in a range of
	 * this block, most of which are in this range. */
	uint32_t ahead_next, ahead_count, ahead_runtime, ahead_block;
	uint64_t ahead_start, ahead_end;
	struct walk_ahead ahead[WALK_AHEAD_FRAMES];
	/* What a walker keeps from one of its frames to the next; 0 at a stack's begin. */
	uint64_t memory[BH_RUNTIME_COUNT][WALK_MEMORY_WORDS];
	/* A copy of memory from heap_start on, as the stack's window. */
	uint64_t heap_start, heap_bytes;
	uint64_t heap[WALK_HEAP_WORDS];
};

/* Odd, its bits well mixed (2^64 / golden ratio): the high bits of a product depend on all of the
 * other factor's. */
#define WALK_SPREAD 0x9e3779b97f4a7c15ull

/* No address is less than a window above it. */
#define WALK_NO_WINDOW (~0ull >> 1)

/*
 * Rules of places in the code, as they were found. A module's number is never used twice, and its
 * table does not change once it is there, so that an entry never becomes wrong. They are kept in
 * the order in which stacks were first walked: the rule of a frame's caller mostly lies behind the
 * frame's, so that it is looked for there first and a cold cache is read in a row, not at random.
 * The oldest entry goes first.
 */
enum {
	WALK_CACHED_MAX = 1 << WALK_CACHE_BITS,
};

struct walk_cached {
	uint64_t frame; /* as in the record, of what has no file BH_FRAME_RAW; 0: empty */
	struct bh_rule rule;
};

struct walk_cache {
	uint32_t added; /* in all; the next goes to this place */
	/* Places of entries, by a hash of the frame: of those that share a pair, the last two. Of
	 * two frames that a recursion repeats neither pushes the other out. */
	uint16_t index[WALK_CACHED_MAX][2];
	struct walk_cached entries[WALK_CACHED_MAX];
};

struct walk_state {
	uint64_t pc, sp, fp;
	uint64_t gpr[16]; /* by DWARF number; only while registers_known, but rbx while bx_known */
	uint32_t registers_known; /* the frame was interrupted, not called: all registers are those
				     of the frame */
	uint32_t bx_known; /* rbx is that of the frame: some hand-written code has its CFA there */
	uint32_t mapping_slab, mapping_offset, mapping_count;
	uint32_t frame_count;
	/* Of the frames so far, each with all its words hashed with its place in the stack and a
	 * secret: none depends on what came before, so that the multiplications overlap. */
	uint64_t stack_sum, stack_key;
	uint64_t place;		/* in the cache, of the rule of the frame before */
	struct bh_mapping last; /* the mapping of the frame before */
	/* Where in a list of mappings that of a page was found, by a hash of the page: modules that
	 * call each other need not search. Whether it is there is looked at. */
	uint16_t hints[1 << WALK_HINT_BITS];
	uint64_t window_start;
	uint64_t window[WALK_WINDOW_WORDS]; /* a copy of the stack from window_start on */
	struct walk_runtime runtime;
	/* The record under construction: what goes into the ring is one piece from here on. */
	struct bh_sample header;
	uint64_t frames[BH_FRAMES_ROOM];
};

static __always_inline uint64_t walk_hash(const struct walk_state *s, uint64_t frame, uint64_t at)
{
	const uint64_t hash = (frame ^ (s->stack_key + at * WALK_SPREAD)) * WALK_SPREAD;

	return hash ^ hash >> 32;
}

/* No frame yet. */
static __always_inline void walk_clear(struct walk_state *s)
{
	s->frame_count = 0;
	s->stack_sum = 0;
}

static __always_inline void walk_start(struct walk_state *s)
{
	walk_clear(s);
	s->place = 0;
	s->registers_known = 1;
	s->bx_known = 1;
	s->last.start = 0;
	s->last.end = 0;
	s->window_start = WALK_NO_WINDOW;
	s->runtime.range_count = 0;
	s->runtime.frames = 0;
	s->runtime.passed = WALK_PASSED_NOTHING;
	s->runtime.behind = WALK_NOT_BEHIND;
	s->runtime.known_place = 0;
	s->runtime.ahead_next = 0;
	s->runtime.ahead_count = 0;
	s->runtime.texts[0].bytes = 0;
	s->runtime.texts[1].bytes = 0;
}

/* All ones if a <= b, else 0. Both are below 2^63. */
static __always_inline uint64_t walk_below_or_equal(uint64_t a, uint64_t b)
{
	return (uint64_t)((int64_t)(a - b - 1) >> 63);
}

/* Masked where it is used, as the verifier wants it, whatever the compiler knows of `index`. */
static __always_inline uint64_t walk_masked(uint64_t index, uint64_t mask)
{
	__asm__("" : "+r"(index));
	return index & mask;
}

static __always_inline uint64_t walk_in_slab(uint64_t offset, uint64_t align)
{
	return offset & (BH_SLAB_BYTES - 1) & ~(align - 1);
}

static __always_inline const struct bh_mapping *walk_mapping_at(const struct walk_state *s,
								const uint8_t *slab, uint64_t index)
{
	return (const void *)(slab +
			      walk_in_slab(s->mapping_offset + index * sizeof(struct bh_mapping),
					   sizeof(struct bh_mapping)));
}

static __always_inline uint16_t *walk_hint(struct walk_state *s, uint64_t pc)
{
	const uint64_t hash = (pc >> 12) * WALK_SPREAD;

	return &s->hints[walk_masked(hash >> 32, (1 << WALK_HINT_BITS) - 1)];
}

/* The mapping of `pc` into s->last, without a search. Else 0. */
static __always_inline int walk_remember_mapping(struct walk_state *s, WALK_ENV env, uint64_t pc)
{
	if (pc - s->last.start < s->last.end - s->last.start)
		return 1;
	const uint8_t *slab = walk_slab(env, s->mapping_slab);
	const uint64_t hint = *walk_hint(s, pc);
	if (!slab || hint >= s->mapping_count)
		return 0;
	const struct bh_mapping *mapping = walk_mapping_at(s, slab, hint);
	if (pc - mapping->start >= mapping->end - mapping->start)
		return 0;
	s->last = *mapping;
	return 1;
}

/* The mapping of `pc` into s->last. */
static __always_inline int walk_find_mapping(struct walk_state *s, WALK_ENV env, uint64_t pc)
{
	const uint8_t *slab = walk_slab(env, s->mapping_slab);
	if (!slab)
		return BH_REASON_BAD_TABLE;
	uint64_t count = s->mapping_count & ((1 << BH_PROCESS_MAPPINGS_BITS) - 1);
	uint64_t base = 0;

	for (int i = 0; i < BH_PROCESS_MAPPINGS_BITS && count > 1; i++) {
		uint64_t half = count >> 1;

		base +=
		    half & walk_below_or_equal(walk_mapping_at(s, slab, base + half)->start, pc);
		count -= half;
	}
	s->last = *walk_mapping_at(s, slab, base);
	if (pc < s->last.start || pc >= s->last.end)
		return BH_REASON_NO_MAPPING;
	*walk_hint(s, pc) = (uint16_t)base;
	return WALK_GO_ON;
}

/* The rule number for file offset `offset` of a module that is ready. 0 (frame pointers) outside of
 * its pages. */
static __always_inline int walk_find_rule(const struct bh_module *module, WALK_ENV env,
					  uint64_t offset, uint32_t *rule)
{
	uint64_t page = (offset >> BH_PAGE_BITS) - module->first_page;

	*rule = 0;
	if (page >= module->page_count)
		return WALK_GO_ON;
	const uint8_t *slab = walk_slab(env, module->page_slab);
	if (!slab)
		return BH_REASON_BAD_TABLE;
	const struct bh_page *entry =
	    (const void *)(slab + walk_in_slab(module->page_offset + page * sizeof(*entry),
					       sizeof(*entry)));
	uint64_t count = entry->count, first = entry->offset;
	if (entry->slab != module->page_slab) {
		slab = walk_slab(env, entry->slab);
		if (!slab)
			return BH_REASON_BAD_TABLE;
	}
	uint64_t key = offset & ((1 << BH_PAGE_BITS) - 1), base = 0;

	for (int i = 0; i < BH_PAGE_DELTAS_BITS && count > 1; i++) {
		uint64_t half = count >> 1;
		uint64_t at = walk_in_slab(first + (base + half) * sizeof(struct bh_delta),
					   sizeof(struct bh_delta));

		base += half & walk_below_or_equal(*(const uint16_t *)(slab + at), key);
		count -= half;
	}
	uint64_t at = walk_in_slab(first + base * sizeof(struct bh_delta), sizeof(struct bh_delta));
	*rule = ((const struct bh_delta *)(slab + at))->rule;
	return WALK_GO_ON;
}

/* A word of the stack, out of the window if it is there, else the window moves so that it begins at
 * `near` (the frame's stack pointer). */
static __always_inline int walk_read_stack(struct walk_state *s, WALK_ENV env, uint64_t near,
					   uint64_t address, uint64_t *value)
{
	const uint64_t reach = (WALK_WINDOW_WORDS - 1) * 8;
	uint64_t distance = address - s->window_start;

	if (distance > reach || (distance & 7)) {
		uint64_t start = near & ~7ull;

		if (address - start > reach)
			start = address & ~7ull;
		if (address & 7)
			return walk_read(env, value, 8, address) ? BH_REASON_READ_FAULT
								 : WALK_GO_ON;
		if (walk_read(env, s->window, sizeof(s->window), start)) {
			/* Near the end of the stack's mapping: only what is needed. */
			s->window_start = WALK_NO_WINDOW;
			return walk_read(env, value, 8, address) ? BH_REASON_READ_FAULT
								 : WALK_GO_ON;
		}
		s->window_start = start;
		distance = address - start;
	}
	*value = s->window[(distance >> 3) & (WALK_WINDOW_WORDS - 1)];
	return WALK_GO_ON;
}

/*
 * A signal frame: rsp is at the ucontext that the kernel pushed (struct ucontext of the x86-64 ABI:
 * uc_mcontext at 40, its registers r8 - r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip). All
 * registers of the interrupted frame are there.
 */
static __always_inline int walk_signal_frame(struct walk_state *s, WALK_ENV env)
{
	/* In the window, since BPF's stack is short; it is none of the stack any more. */
	uint64_t *saved = s->window;

	s->window_start = WALK_NO_WINDOW;
	if (walk_read(env, saved, 17 * sizeof(saved[0]), s->sp + 40))
		return BH_REASON_READ_FAULT;
	for (int i = 0; i < 8; i++)
		s->gpr[8 + i] = saved[i];
	s->gpr[BH_REG_RDI] = saved[8];
	s->gpr[BH_REG_RSI] = saved[9];
	s->gpr[BH_REG_RBP] = saved[10];
	s->gpr[BH_REG_RBX] = saved[11];
	s->gpr[BH_REG_RDX] = saved[12];
	s->gpr[BH_REG_RAX] = saved[13];
	s->gpr[BH_REG_RCX] = saved[14];
	s->gpr[BH_REG_RSP] = saved[15];
	s->registers_known = 1;
	s->bx_known = 1;
	s->fp = saved[10];
	s->sp = saved[15];
	s->pc = saved[16];
	return s->pc ? WALK_GO_ON : BH_REASON_COMPLETE;
}

/* The base of a CFA: rsp and rbp always, rbx where no caller's rule lost it, another register only
 * in a frame that was interrupted. */
static __always_inline int walk_register(const struct walk_state *s, uint32_t number,
					 uint64_t *value)
{
	if (number == BH_REG_RSP)
		*value = s->sp;
	else if (number == BH_REG_RBP)
		*value = s->fp;
	else if (s->registers_known || (number == BH_REG_RBX && s->bx_known))
		*value = s->gpr[number & 15];
	else
		return BH_REASON_REGISTER_LOST;
	return WALK_GO_ON;
}

/* The kernel starts a program with all registers but rsp zero (ELF_PLAT_INIT); its first
 * instructions, ld.so's, have no table. */
static __always_inline int walk_at_entry(const struct walk_state *s)
{
	return s->registers_known &&
	       !(s->gpr[BH_REG_RBX] | s->gpr[12] | s->gpr[13] | s->gpr[14] | s->gpr[15]);
}

static __always_inline int walk_find_cfa(struct walk_state *s, WALK_ENV env,
					 const struct bh_rule *rule, uint64_t *cfa)
{
	uint64_t base = 0;
	int end;

	switch (rule->kind) {
	case BH_RULE_SP:
	case BH_RULE_RA_REGISTER:
		*cfa = s->sp + (int64_t)rule->cfa;
		return WALK_GO_ON;
	case BH_RULE_FP:
		*cfa = s->fp + (int64_t)rule->cfa;
		return WALK_GO_ON;
	case BH_RULE_FRAME_POINTER:
		/* Zero ends a chain of frame pointers: whoever starts a thread pushes it. */
		*cfa = s->fp + 16;
		if (!s->fp)
			return s->frame_count > 1 || walk_at_entry(s) ? BH_REASON_COMPLETE
								      : BH_REASON_NO_RULE;
		return WALK_GO_ON;
	case BH_RULE_PLT:
		*cfa = s->sp + (int64_t)rule->cfa +
		       ((s->pc & 15) >= (uint64_t)(int64_t)rule->extra ? 8 : 0);
		return WALK_GO_ON;
	case BH_RULE_REGISTER:
		end = walk_register(s, rule->reg, &base);
		if (end != WALK_GO_ON)
			return end;
		*cfa = base + (int64_t)rule->cfa;
		return WALK_GO_ON;
	case BH_RULE_DEREF:
		end = walk_register(s, rule->reg, &base);
		if (end != WALK_GO_ON)
			return end;
		end = walk_read_stack(s, env, s->sp, base + (int64_t)rule->cfa, cfa);
		*cfa += (int64_t)rule->extra;
		return end;
	default:
		return BH_REASON_NO_RULE;
	}
}

/* From a frame to its caller by `rule`. */
static __always_inline int walk_apply(struct walk_state *s, WALK_ENV env,
				      const struct bh_rule *rule)
{
	uint64_t cfa = 0, ra = 0, fp = s->fp;
	int end = walk_find_cfa(s, env, rule, &cfa);

	if (end != WALK_GO_ON)
		return end;
	/* Towards the caller the stack only gets shorter; where the return address was popped into
	 * a register it may stay. */
	if (cfa <= s->sp && !(cfa == s->sp && rule->kind == BH_RULE_RA_REGISTER))
		return BH_REASON_BAD_CFA;
	if (rule->kind == BH_RULE_RA_REGISTER)
		end = walk_register(s, rule->reg, &ra);
	else
		end = walk_read_stack(s, env, s->sp, cfa - 8, &ra);
	if (end != WALK_GO_ON)
		return end;
	if (rule->kind == BH_RULE_FRAME_POINTER)
		end = walk_read_stack(s, env, s->sp, s->fp, &fp);
	else if (rule->fp_kind == BH_FP_CFA)
		end = walk_read_stack(s, env, s->sp, cfa + (int64_t)rule->fp * 8, &fp);
	else if (rule->fp_kind == BH_FP_REGISTER)
		end = walk_read_stack(s, env, s->sp, s->fp + (int64_t)rule->fp * 8, &fp);
	else if (rule->fp_kind == BH_FP_LOST)
		fp = 0;
	if (end != WALK_GO_ON)
		return end;
	if (rule->bx_kind == BH_FP_CFA) {
		end = walk_read_stack(s, env, s->sp, cfa + (int64_t)rule->bx * 8,
				      &s->gpr[BH_REG_RBX]);
		s->bx_known = 1;
	} else if (rule->bx_kind != BH_FP_SAME || rule->kind == BH_RULE_FRAME_POINTER) {
		s->bx_known = 0;
	}
	if (end != WALK_GO_ON)
		return end;
	s->fp = fp;
	s->sp = cfa;
	s->pc = ra;
	s->registers_known = 0;
	/* A return address of zero: the outermost frame of hand-made stacks. */
	return ra ? WALK_GO_ON : BH_REASON_COMPLETE;
}

/* Does a stack have room for a word behind `count` others? Asked so that the verifier learns
 * nothing of the count: in a loop it would follow each that there may be. */
static __always_inline int walk_has_room(uint64_t count)
{
	return !walk_masked(count, ~(BH_USER_FRAMES_MAX - 1ull));
}

static __always_inline void walk_note(struct walk_state *s, uint64_t frame)
{
	s->frames[walk_masked(s->frame_count, BH_USER_FRAMES_MAX - 1)] = frame;
	s->stack_sum += walk_hash(s, frame, s->frame_count);
	s->frame_count++;
}

/* Forget the frames noted since. */
static __always_inline void walk_rewind(struct walk_state *s, const struct walk_mark *mark)
{
	s->frame_count = mark->count;
	s->stack_sum = mark->sum;
}

/* The managed frame `frame`, with `extra` words behind it; the caller has seen to the room. */
static __always_inline void walk_put_managed(struct walk_state *s, uint64_t frame,
					     unsigned int extra, const uint64_t *words)
{
	const uint32_t count = s->frame_count;
	uint64_t all = frame;

	s->frames[walk_masked(count, BH_USER_FRAMES_MAX - 1)] = frame;
	for (unsigned int i = 0; i < extra && i < BH_MANAGED_EXTRA_MAX; i++) {
		s->frames[walk_masked(count + 1 + i, BH_USER_FRAMES_MAX - 1)] = words[i];
		all = all * WALK_SPREAD + words[i];
	}
	s->stack_sum += walk_hash(s, all, count);
	s->frame_count = count + 1 + extra;
	s->runtime.frames++;
}

/* A managed frame with `extra` words behind its first. 0, or BH_REASON_TOO_DEEP. */
static __always_inline int walk_note_managed(struct walk_state *s, unsigned int runtime,
					     uint64_t payload, unsigned int extra,
					     const uint64_t *words)
{
	if (!walk_has_room(s->frame_count + extra))
		return BH_REASON_TOO_DEEP;
	walk_put_managed(s, bh_frame_managed(runtime, payload, extra), extra, words);
	return 0;
}

/*
 * For a runtime's walker whose frames stand for one native frame each: it may note the frames that
 * stand for the next native ones in its ranges too (walk_note_ahead); the walk goes over those
 * without a call. May it now? Not while another block's wait.
 */
static __always_inline int walk_begin_ahead(struct walk_state *s)
{
	struct walk_runtime *r = &s->runtime;

	if (r->ahead_next != r->ahead_count)
		return 0;
	r->ahead_next = 0;
	r->ahead_count = 0;
	r->ahead_runtime = r->runtime;
	r->ahead_block = r->block;
	r->ahead_start = r->range_start;
	r->ahead_end = r->range_end;
	return 1;
}

/* The managed frame, with one word behind its first, for the next native one. At most
 * WALK_AHEAD_FRAMES after walk_begin_ahead. */
static __always_inline void walk_note_ahead(struct walk_state *s, uint64_t payload, uint64_t extra)
{
	struct walk_runtime *r = &s->runtime;
	struct walk_ahead *ahead = &r->ahead[walk_masked(r->ahead_count, WALK_AHEAD_FRAMES - 1)];

	ahead->frame = bh_frame_managed(r->runtime, payload, 1);
	ahead->extra = extra;
	r->ahead_count++;
}

/* Note the next frame noted ahead: the walk is at a native one in its ranges. 0 if there is
 * none, or no room for it. */
static __always_inline int walk_take_ahead(struct walk_state *s)
{
	struct walk_runtime *r = &s->runtime;

	if (r->ahead_next == r->ahead_count || !walk_has_room(s->frame_count + 1))
		return 0;
	const struct walk_ahead *ahead =
	    &r->ahead[walk_masked(r->ahead_next++, WALK_AHEAD_FRAMES - 1)];

	walk_put_managed(s, ahead->frame, 1, &ahead->extra);
	r->passed = WALK_PASSED_NOTED;
	return 1;
}

/* Which ranges the process has. */
static __always_inline void walk_find_slot(struct walk_state *s, WALK_ENV env, uint32_t tgid)
{
	const struct bh_runtime_table *table = walk_runtimes(env);
	struct walk_runtime *r = &s->runtime;
	uint32_t at = bh_runtime_hash(tgid);

	if (!table)
		return;
	WALK_NO_UNROLL
	for (int i = 0; i < BH_RUNTIME_PROBES; i++, at++) {
		const uint64_t index = walk_masked(at, (1 << BH_RUNTIME_SLOTS_BITS) - 1);
		const struct bh_runtime_slot *slot = &table->slots[index];

		if (!slot->tgid)
			return;
		if (slot->tgid != tgid)
			continue;
		r->slot = (uint32_t)index;
		r->sequence = *(const volatile uint32_t *)&slot->sequence;
		if (r->sequence & 1)
			return;
		r->first_range = slot->first_range;
		r->range_count = slot->range_count;
		r->known_key = ((uint64_t)r->sequence << 32 | tgid) * WALK_SPREAD;
		r->texts[0] = slot->texts[0];
		r->texts[1] = slot->texts[1];
		r->heap_bytes = 0;
		for (int j = 0; j < BH_RUNTIME_COUNT; j++)
			for (int k = 0; k < WALK_MEMORY_WORDS; k++)
				r->memory[j][k] = 0;
		return;
	}
}

/* The worker wrote the slot while the stack was walked. */
static __always_inline int walk_slot_changed(const struct walk_state *s, WALK_ENV env)
{
	const struct bh_runtime_table *table = walk_runtimes(env);
	const uint64_t index = walk_masked(s->runtime.slot, (1 << BH_RUNTIME_SLOTS_BITS) - 1);

	return s->runtime.range_count && table &&
	       *(const volatile uint32_t *)&table->slots[index].sequence != s->runtime.sequence;
}

/* Is `pc` in a runtime's range? Then that is in s->runtime. */
static __always_inline int walk_find_range(struct walk_state *s, WALK_ENV env, uint64_t pc)
{
	const struct bh_runtime_table *table = walk_runtimes(env);
	const uint64_t last = (1 << BH_RUNTIME_RANGES_BITS) - 1;
	struct walk_runtime *r = &s->runtime;
	uint64_t count = r->range_count & ((1 << BH_RUNTIME_PROCESS_RANGES_BITS) - 1);
	uint64_t base = r->first_range;

	if (!table)
		return 0;
	WALK_NO_UNROLL
	for (int i = 0; i < BH_RUNTIME_PROCESS_RANGES_BITS && count > 1; i++) {
		const uint64_t half = count >> 1;

		base += half & walk_below_or_equal(
				   table->ranges[walk_masked(base + half, last)].start, pc);
		count -= half;
	}
	const struct bh_runtime_range *range = &table->ranges[walk_masked(base, last)];
	if (pc - range->start >= range->end - range->start)
		return 0;
	r->runtime = range->runtime;
	r->block = range->block;
	r->data = range->data;
	r->range_start = range->start;
	r->range_end = range->end;
	return 1;
}

/* May `pc` be in a range that is in a file? */
static __always_inline int walk_in_text(const struct walk_state *s, uint64_t pc)
{
	const struct bh_runtime_text *texts = s->runtime.texts;

	return (pc - texts[0].start < texts[0].bytes) | (pc - texts[1].start < texts[1].bytes);
}

/*
 * For a runtime's walker: a copy of the `bytes` at `address`, in memory near which it has read
 * before; walk_heap_word() has the words. The copy is moved so that it ends `above` bytes (a
 * constant, up to 2048, not less than `bytes`) behind the address: mostly there is more to come
 * below, as far as the page goes. WALK_GO_ON or BH_REASON_READ_FAULT.
 */
static __always_inline int walk_read_heap(struct walk_state *s, WALK_ENV env, uint64_t address,
					  uint64_t bytes, const uint64_t above)
{
	struct walk_runtime *r = &s->runtime;

	if (address & 7)
		return BH_REASON_READ_FAULT;
	if (address - r->heap_start < r->heap_bytes &&
	    address - r->heap_start + bytes <= r->heap_bytes)
		return WALK_GO_ON;
	const uint64_t page = address & ~4095ull;
	uint64_t below = sizeof(r->heap) - above;

	/* What lies beyond may be nobody's, and a read that fails costs a microsecond. */
	if (below > address - page)
		below = address - page;
	r->heap_start = address - below;
	r->heap_bytes = below + above;
	if (!walk_read(env, r->heap, walk_masked(below + above - 1, sizeof(r->heap) - 1) + 1,
		       r->heap_start))
		return WALK_GO_ON;
	r->heap_bytes = walk_masked(page + 4095 - r->heap_start, 4095) + 1;
	if (r->heap_bytes < below + bytes || r->heap_bytes > sizeof(r->heap) ||
	    walk_read(env, r->heap, r->heap_bytes, r->heap_start)) {
		r->heap_bytes = 0;
		return BH_REASON_READ_FAULT;
	}
	return WALK_GO_ON;
}

/* The word at `address`, which is in the copy and a multiple of 8. */
static __always_inline uint64_t walk_heap_word(const struct walk_state *s, uint64_t address)
{
	const uint8_t *heap = (const uint8_t *)s->runtime.heap;
	const uint64_t at =
	    walk_masked(address - s->runtime.heap_start, sizeof(s->runtime.heap) - 8);

	return *(const uint64_t *)(const void *)(heap + at);
}

/* The page at a fixed address that old programs call into; the kernel emulates its three functions,
 * each on a stack that has the return address on top and nothing else
 * (arch/x86/entry/vsyscall/vsyscall_64.c). */
static __always_inline int walk_vsyscall(struct walk_state *s, WALK_ENV env)
{
	uint64_t ra = 0;
	int end;

	walk_note(s, bh_frame_raw(s->pc));
	end = walk_read_stack(s, env, s->sp, s->sp, &ra);
	if (end != WALK_GO_ON)
		return end;
	s->sp += 8;
	s->pc = ra;
	s->registers_known = 0;
	return WALK_GO_ON;
}

static __always_inline uint64_t walk_frame(const struct walk_state *s, uint64_t pc)
{
	return (uint64_t)s->last.number << BH_FRAME_OFFSET_BITS |
	       ((pc - s->last.bias) & BH_FRAME_OFFSET_MASK);
}

static __always_inline uint16_t *walk_index(struct walk_cache *cache, uint64_t frame)
{
	return cache->index[(frame * WALK_SPREAD) >> (64 - WALK_CACHE_BITS)];
}

/* The last two places of an index's word, the newer first. */
static __always_inline void walk_index_add(uint16_t pair[2], uint64_t place)
{
	pair[1] = pair[0];
	pair[0] = (uint16_t)place;
}

/* Where the frame's rule is, if it is anywhere: behind that of the frame before, or where the index
 * says. */
static __always_inline uint64_t walk_place(struct walk_cache *cache, uint64_t before,
					   uint64_t frame)
{
	const uint64_t behind = walk_masked(before + 1, WALK_CACHED_MAX - 1);

	if (cache->entries[behind].frame == frame)
		return behind;
	const uint16_t *index = walk_index(cache, frame);
	const uint64_t place = walk_masked(index[0], WALK_CACHED_MAX - 1);

	if (cache->entries[place].frame == frame)
		return place;
	return walk_masked(index[1], WALK_CACHED_MAX - 1);
}

/* CFA from rsp or rbp, return address below it, rbp and rbx unchanged or saved there. */
static __always_inline int walk_rule_is_plain(const struct bh_rule *rule)
{
	_Static_assert(BH_RULE_SP == 2 && BH_RULE_FP == 3 && BH_FP_SAME == 0 && BH_FP_CFA == 1,
		       "told apart by the lowest bit");
	return (((rule->kind ^ BH_RULE_SP) | rule->fp_kind | rule->bx_kind) & ~1u) == 0;
}

/* If the lowest bit of `choice` is set b, else a. */
static __always_inline uint64_t walk_choose(uint64_t choice, uint64_t a, uint64_t b)
{
	return a ^ ((a ^ b) & -(choice & 1));
}

/*
 * The common case, as long as it lasts, and at most WALK_PLAIN_FRAMES: a caller whose mapping and
 * rule are remembered, the rule is a plain one, and the stack is in the window. What a
 * rule says is data here, not a branch that a processor that comes here 20 times a second would
 * guess wrong. Everything else, walk_one does. A frame that managed ones stand for is not noted.
 */
static __always_inline void walk_plain(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	const uint64_t last = WALK_WINDOW_WORDS - 1;
	uint64_t pc = s->pc - 1, sp = s->sp, fp = s->fp, bx = s->gpr[BH_REG_RBX];
	uint64_t place = s->place;
	uint32_t bx_known = s->bx_known;
	struct walk_runtime *r = &s->runtime;

	if (s->registers_known || (r->passed && r->passed != WALK_PASSED_NOTED))
		return;
	WALK_NO_UNROLL
	for (int i = 0; i < WALK_PLAIN_FRAMES; i++) {
		if (walk_in_text(s, pc) && !r->passed &&
		    (pc - r->ahead_start >= r->ahead_end - r->ahead_start || !walk_take_ahead(s)))
			break;
		if (!walk_remember_mapping(s, env, pc) || !s->last.number)
			break;
		const uint64_t frame = walk_frame(s, pc);
		const uint64_t found = walk_place(cache, place, frame);
		const struct walk_cached *entry = &cache->entries[found];
		const struct bh_rule *rule = &entry->rule;

		if (entry->frame != frame || !walk_rule_is_plain(rule) ||
		    !walk_has_room(s->frame_count))
			break;
		const uint64_t cfa = walk_choose(rule->kind, sp, fp) + (int64_t)rule->cfa;
		const uint64_t above = cfa - s->window_start;
		const uint64_t word = above >> 3;
		const uint64_t fp_word = word + (int64_t)rule->fp;
		const uint64_t bx_word = word + (int64_t)rule->bx;

		if (cfa <= sp || (above & 7) ||
		    ((word - 1) | fp_word | bx_word) >= WALK_WINDOW_WORDS)
			break;
		const uint64_t ra = s->window[walk_masked(word - 1, last)];
		if (!ra)
			break;
		if (!r->passed)
			walk_note(s, frame);
		r->passed = WALK_PASSED_NOTHING;
		fp = walk_choose(rule->fp_kind, fp, s->window[walk_masked(fp_word, last)]);
		bx = walk_choose(rule->bx_kind, bx, s->window[walk_masked(bx_word, last)]);
		bx_known |= rule->bx_kind;
		sp = cfa;
		pc = ra - 1;
		place = found;
	}
	s->pc = pc + 1;
	s->sp = sp;
	s->fp = fp;
	s->gpr[BH_REG_RBX] = bx;
	s->bx_known = bx_known;
	s->place = place;
}

/* The frame's rule out of its module's table into the cache, at *place. */
static __always_inline int walk_look_up(struct walk_state *s, WALK_ENV env,
					struct walk_cache *cache, uint64_t offset, uint64_t key,
					uint64_t *place)
{
	const struct bh_module *module = walk_module(env, s->last.slot);
	uint32_t number = 0;

	if (!module)
		return BH_REASON_BAD_TABLE;
	if (module->number != s->last.number)
		return BH_REASON_CHANGED;
	if (module->state == BH_MODULE_PENDING)
		return BH_REASON_NO_TABLE;
	if (module->state == BH_MODULE_READY) {
		int end = walk_find_rule(module, env, offset, &number);

		if (end != WALK_GO_ON)
			return end;
	} else if (s->last.number) {
		key = 0; /* it may have a table one day: not to be found again */
	}
	const struct bh_rule *rule = walk_rule(env, number);
	if (!rule)
		return BH_REASON_BAD_TABLE;
	*place = walk_masked(cache->added++, WALK_CACHED_MAX - 1);
	cache->entries[*place].rule = *rule;
	cache->entries[*place].frame = key;
	walk_index_add(walk_index(cache, key), *place);
	return WALK_GO_ON;
}

/* Note the native frame at s->pc, if it is to be, and go to its caller. WALK_GO_ON, or how the
 * stack ended. */
static __always_inline int walk_native(struct walk_state *s, WALK_ENV env, struct walk_cache *cache,
				       uint64_t pc, int note)
{
	int end;

	if (pc >> 12 == BH_VSYSCALL_PAGE && s->registers_known)
		return walk_vsyscall(s, env);
	if (!walk_remember_mapping(s, env, pc)) {
		end = walk_find_mapping(s, env, pc);
		if (end != WALK_GO_ON) {
			if (s->frame_count == 0)
				walk_note(s, bh_frame_raw(pc));
			return end;
		}
	}
	uint64_t frame = walk_frame(s, pc);
	/* Memory without a file has one rule for all of it. */
	uint64_t key = s->last.number ? frame : BH_FRAME_RAW;
	uint64_t place = walk_place(cache, s->place, key);

	if (note)
		walk_note(s, s->last.number ? frame : bh_frame_raw(pc));
	if (cache->entries[place].frame != key) {
		end = walk_look_up(s, env, cache, pc - s->last.bias, key, &place);
		if (end != WALK_GO_ON)
			return end;
	}
	s->place = place;
	const struct bh_rule *rule = &cache->entries[walk_masked(place, WALK_CACHED_MAX - 1)].rule;
	if (rule->kind == BH_RULE_END)
		return BH_REASON_COMPLETE;
	if (rule->kind == BH_RULE_SIGNAL)
		return walk_signal_frame(s, env);
	return walk_apply(s, env, rule);
}

/* One frame, of which a runtime's walker may have been asked before. */
static __always_inline int walk_one(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	struct walk_runtime *r = &s->runtime;
	/* A return address may lie after its function's end. */
	const uint64_t pc = s->pc - !s->registers_known, sp = s->sp;

	if (s->frame_count >= BH_USER_FRAMES_MAX)
		return BH_REASON_TOO_DEEP;
	if (r->passed == WALK_PASSED_AGAIN) {
		r->passed = WALK_PASSED_NOTHING;
		return WALK_RUNTIME;
	}
	r->behind = WALK_NOT_BEHIND;
	if (r->range_count && !r->passed && walk_find_range(s, env, pc) &&
	    (r->runtime != r->ahead_runtime || r->block != r->ahead_block || !walk_take_ahead(s)))
		return WALK_RUNTIME;
	/* Read again, so that the verifier need not follow each of its values. */
	const uint32_t passed = *(volatile const uint32_t *)&r->passed;

	r->passed = WALK_PASSED_NOTHING;
	const int end = walk_native(s, env, cache, pc,
				    passed == WALK_PASSED_NOTHING || passed == WALK_PASSED_UNKNOWN);
	if (passed != WALK_PASSED_LATER)
		return end;
	r->behind = WALK_JUST_BEHIND;
	r->frame_start = sp;
	r->frame_end = end == WALK_GO_ON ? s->sp : ~0ull;
	r->begun.count = s->frame_count;
	r->begun.sum = s->stack_sum;
	r->result = end;
	return WALK_RUNTIME;
}

/* From s->pc on as far as one call goes; again, until the answer is not WALK_GO_ON. With
 * WALK_RUNTIME a runtime's walker is to be called in between. */
static __always_inline int walk_on(struct walk_state *s, WALK_ENV env, struct walk_cache *cache)
{
	walk_plain(s, env, cache);
	return walk_one(s, env, cache);
}

#endif

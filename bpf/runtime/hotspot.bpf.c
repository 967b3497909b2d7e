/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * HotSpot's frames. Compiled code has no unwind tables, but each CodeBlob says how large its frames
 * are, and rbp is saved in the word below the return address; rbp is the only register that a
 * callee saves. The interpreter's frames are found by rbp (src/hotspot/cpu/x86/frame_x86.hpp). What
 * was interrupted, and not called, may have half of a frame: then its instructions are looked at.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/hotspot.h"
#include "bpf/runtime/hotspot_blob.h"
#include "bpf/runtime/hotspot_frame.h"

enum {
	FRAMES_A_CALL = 8,
	INTERPRETED_FRAME_MAX = 1 << 20, /* bytes between rsp and rbp */
	STUB_FRAME_MAX = 0x2000,
	FRAME_SHIFT_MAX = 8, /* words that code may have pushed beyond its frame */
	WORDS_FAIL = 0xffff,
};

/* Of frame_x86.hpp, in words from nine below rbp on. */
enum {
	INTERPRETED_BELOW = 9,
	INTERPRETED_METHOD = INTERPRETED_BELOW - 3,
	INTERPRETED_SENDER_SP = INTERPRETED_BELOW - 1,
	INTERPRETED_FP = INTERPRETED_BELOW,
	INTERPRETED_RETURN,
	INTERPRETED_WORDS,
};

static __always_inline int hotspot_is_code(const struct hotspot_block *b, uint64_t pc)
{
	return pc - b->cache_start < b->cache_end - b->cache_start;
}

static __always_inline int hotspot_is_interpreter(const struct hotspot_block *b, uint64_t pc)
{
	return pc - b->interpreter_start < b->interpreter_end - b->interpreter_start;
}

/* `count` words (a constant) of the stack from `address` on: where in the window they are, or
 * WORDS_FAIL. */
static __always_inline uint64_t hotspot_stack(struct unwind_state *s, UNWIND_ENV env,
					      uint64_t address, const unsigned int count)
{
	const uint64_t distance = address - s->window_start;

	if (address & 7)
		return WORDS_FAIL;
	if (distance <= (STACK_WINDOW_WORDS - count) * 8)
		return distance >> 3;
	s->window_start = address;
	if (env_read(env, s->window, sizeof(s->window), address)) {
		/* Near the end of the stack's mapping: only what is needed. */
		s->window_start = STACK_NO_WINDOW;
		if (env_read(env, s->window, count * 8, address))
			return WORDS_FAIL;
	}
	return 0;
}

static __always_inline uint64_t hotspot_word_at(const struct unwind_state *s, uint64_t index)
{
	return s->window[bits_mask(index, STACK_WINDOW_WORDS - 1)];
}

static __always_inline int hotspot_note(struct unwind_state *s, uint64_t payload, uint32_t identity,
					uint32_t kind, uint64_t position)
{
	const uint64_t words[] = {hotspot_word(identity, kind, position)};
	const int end = push_managed(s, BH_RUNTIME_HOTSPOT, payload, 1, words);

	return end ? end : UNWIND_CONTINUE;
}

/* On to the caller. */
static __always_inline int hotspot_leave(struct unwind_state *s, uint64_t pc, uint64_t sp,
					 uint64_t fp)
{
	/* A return address may have been popped into a register; else the stack gets shorter. */
	if (sp < s->sp || (sp == s->sp && !s->registers_known))
		return BH_REASON_BAD_CFA;
	s->pc = pc;
	s->sp = sp;
	s->fp = fp;
	s->registers_known = 0;
	s->bx_known = 0;
	return pc ? UNWIND_CONTINUE : BH_REASON_COMPLETE;
}

/* From a frame that ends at `cfa` to its caller; if there is no return address into code, it may
 * have pushed some words more. */
static __always_inline int hotspot_leave_sized(struct unwind_state *s, UNWIND_ENV env,
					       const struct hotspot_block *b, uint64_t cfa)
{
	const uint64_t at = hotspot_stack(s, env, cfa - 16, 2 + FRAME_SHIFT_MAX);

	if (at == WORDS_FAIL)
		return BH_REASON_READ_FAULT;
	UNWIND_NO_UNROLL
	for (uint64_t i = 0; i < FRAME_SHIFT_MAX; i++) {
		const uint64_t pc = hotspot_word_at(s, at + i + 1);

		if (hotspot_is_code(b, pc))
			return hotspot_leave(s, pc, cfa + i * 8, hotspot_word_at(s, at + i));
	}
	return BH_REASON_RUNTIME;
}

/* By rbp, which the frame has set up. */
static __always_inline int hotspot_leave_linked(struct unwind_state *s, UNWIND_ENV env)
{
	const uint64_t at = hotspot_stack(s, env, s->fp, 2);

	if (at == WORDS_FAIL || s->fp < s->sp || s->fp - s->sp > INTERPRETED_FRAME_MAX)
		return BH_REASON_RUNTIME;
	return hotspot_leave(s, hotspot_word_at(s, at + 1), s->fp + 16, hotspot_word_at(s, at));
}

/* From interrupted code that has no frame, or sets one up as compilers do. */
static __always_inline int hotspot_leave_stub(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b)
{
	uint64_t at = hotspot_stack(s, env, s->sp, 2);

	if (at == WORDS_FAIL)
		return BH_REASON_READ_FAULT;
	const uint64_t first = hotspot_word_at(s, at), second = hotspot_word_at(s, at + 1);

	if (hotspot_is_code(b, first))
		return hotspot_leave(s, first, s->sp + 8, s->fp);
	if (s->fp - s->sp < STUB_FRAME_MAX) {
		at = hotspot_stack(s, env, s->fp, 2);
		if (at != WORDS_FAIL &&
		    (hotspot_is_code(b, hotspot_word_at(s, at + 1)) || !hotspot_is_code(b, second)))
			return hotspot_leave(s, hotspot_word_at(s, at + 1), s->fp + 16,
					     hotspot_word_at(s, at));
	}
	if (hotspot_is_code(b, second))
		return hotspot_leave(s, second, s->sp + 16, first);
	return BH_REASON_RUNTIME;
}

/* Where the ConstMethod's bytecodes are and what identifies it, into memory. 0 if it is none. */
static __always_inline int hotspot_look_at_method(struct unwind_state *s, UNWIND_ENV env,
						  const struct hotspot_block *b, uint64_t method)
{
	uint64_t *memory = s->runtime.memory[BH_RUNTIME_HOTSPOT];
	uint64_t *words = s->runtime.heap;
	uint64_t const_method = 0;

	/* Recursion: the same as of the frame before. */
	if (method && memory[MEMORY_METHOD] == method)
		return 1;
	memory[MEMORY_METHOD] = 0;
	if (!method || (method & 7))
		return 0;
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *known = method_cache_find(s, cache, method);
	if (known && method_cache_is_trusted(s, known)) {
		memory[MEMORY_METHOD] = method;
		memory[MEMORY_CODES] = (uint64_t)known->facts[METHOD_CODES_HIGH] << 32 |
				       known->facts[METHOD_CODES_LOW];
		memory[MEMORY_IDENTITY] =
		    (uint64_t)known->facts[METHOD_IDENTITY] << 32 | known->facts[METHOD_BYTES];
		return 1;
	}
	s->runtime.heap_bytes = 0;
	if (env_read(env, &const_method, sizeof(const_method), method + b->const_method) ||
	    !const_method || env_read(env, words, HOTSPOT_CONST_METHOD_BYTES, const_method))
		return 0;
	const uint64_t sizes = hotspot_sizes(words, b->code_size);
	const uint32_t identity = hotspot_identity(const_method, words[1], sizes);
	memory[MEMORY_METHOD] = method;
	memory[MEMORY_CODES] = const_method + b->const_method_bytes;
	memory[MEMORY_IDENTITY] = (uint64_t)identity << 32 | (sizes & 0xffff);
	if (known)
		method_cache_revalidate(s, known, known->facts[METHOD_IDENTITY] == identity);
	else
		known = method_cache_insert(s, cache, method);
	if (known) {
		known->facts[METHOD_IDENTITY] = identity;
		known->facts[METHOD_BYTES] = (uint32_t)(sizes & 0xffff);
		known->facts[METHOD_CODES_LOW] = (uint32_t)memory[MEMORY_CODES];
		known->facts[METHOD_CODES_HIGH] = (uint32_t)(memory[MEMORY_CODES] >> 32);
	}
	return 1;
}

/* The method that was looked at, at bytecode `bcp`, or if that is in none, at `other`. */
static __always_inline int hotspot_note_interpreted(struct unwind_state *s, uint64_t bcp,
						    uint64_t other)
{
	const uint64_t *memory = s->runtime.memory[BH_RUNTIME_HOTSPOT];
	const uint64_t bytes = memory[MEMORY_IDENTITY] & 0xffff;
	uint64_t bci = HOTSPOT_NO_BCI;

	if (bcp - memory[MEMORY_CODES] < bytes)
		bci = bcp - memory[MEMORY_CODES];
	else if (other - memory[MEMORY_CODES] < bytes)
		bci = other - memory[MEMORY_CODES];
	return hotspot_note(s, memory[MEMORY_METHOD], memory[MEMORY_IDENTITY] >> 32,
			    HOTSPOT_FRAME_INTERPRETED, bci);
}

/*
 * Interrupted where methods are entered: rbx is the Method, r13 the caller's stack pointer, and the
 * return address at rsp, for some instructions in rax, or beside rbp, as far as those are pushed.
 */
static __always_inline int hotspot_entered(struct unwind_state *s, UNWIND_ENV env,
					   const struct hotspot_block *b)
{
	const uint64_t method = s->gpr[BH_REG_RBX];
	uint64_t sp = s->gpr[13], pc, fp = s->fp;
	const int linked = s->fp - s->sp <= 16;
	uint64_t at = hotspot_stack(s, env, s->sp, 5);

	if (at == WORDS_FAIL || !hotspot_look_at_method(s, env, b, method))
		return BH_REASON_RUNTIME;
	const uint64_t first = hotspot_word_at(s, at), second = hotspot_word_at(s, at + 1);

	at += (s->fp - s->sp) >> 3;
	if (linked && hotspot_is_code(b, hotspot_word_at(s, at + 1))) {
		pc = hotspot_word_at(s, at + 1);
		fp = hotspot_word_at(s, at);
		/* r13 has become the bytecodes' address: it is the first that was pushed. */
		if (s->fp - s->sp == 16)
			sp = hotspot_word_at(s, at - 1);
	} else if (hotspot_is_code(b, first)) {
		pc = first;
	} else if (first == s->fp && hotspot_is_code(b, second)) {
		pc = second;
	} else if (hotspot_is_code(b, s->gpr[0])) {
		pc = s->gpr[0];
	} else {
		return BH_REASON_RUNTIME;
	}
	const int end =
	    hotspot_note_interpreted(s, s->runtime.memory[BH_RUNTIME_HOTSPOT][MEMORY_CODES], 0);
	return end == UNWIND_CONTINUE ? hotspot_leave(s, pc, sp, fp) : end;
}

static __always_inline int hotspot_in_entry(const struct unwind_state *s,
					    const struct hotspot_block *b)
{
	return s->registers_known && s->pc - b->entries_start < b->entries_end - b->entries_start;
}

/* Is the frame of what was interrupted where methods are entered not there yet? */
static __always_inline int hotspot_is_entering(const struct unwind_state *s,
					       const struct hotspot_block *b, uint64_t frame_method)
{
	const uint64_t sp = s->gpr[13];

	if (!hotspot_in_entry(s, b) || (s->fp > s->sp && frame_method == s->gpr[BH_REG_RBX]))
		return 0;
	return s->fp - s->sp == 16 || (!(sp & 7) && sp - s->sp < INTERPRETED_FRAME_MAX);
}

/*
 * Interrupted where methods are left, and rbp is their caller's already: the return address is at
 * rsp, or was popped into r13, and the caller's stack pointer is in rbx.
 */
static __always_inline int hotspot_left(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const uint64_t sp = s->gpr[BH_REG_RBX], pc = s->gpr[13];
	const int end = hotspot_note(s, s->pc, 0, HOTSPOT_FRAME_INTERPRETER, 0);

	if (end != UNWIND_CONTINUE)
		return end;
	const uint64_t at = hotspot_stack(s, env, s->sp, 1);
	if (at != WORDS_FAIL && hotspot_is_code(b, hotspot_word_at(s, at)))
		return hotspot_leave(s, hotspot_word_at(s, at), s->sp + 8, s->fp);
	if (hotspot_is_code(b, pc) && sp - s->sp < INTERPRETED_FRAME_MAX)
		return hotspot_leave(s, pc, sp, s->fp);
	return BH_REASON_RUNTIME;
}

/* The interpreter's frame at rbp. */
static __always_inline int hotspot_interpreted(struct unwind_state *s, UNWIND_ENV env,
					       const struct hotspot_block *b)
{
	const uint64_t *memory = s->runtime.memory[BH_RUNTIME_HOTSPOT];
	uint64_t at = WORDS_FAIL, method = 0;

	if (s->fp >= s->sp && s->fp - s->sp < INTERPRETED_FRAME_MAX)
		at = hotspot_stack(s, env, s->fp - INTERPRETED_BELOW * 8, INTERPRETED_WORDS);
	if (at != WORDS_FAIL)
		method = hotspot_word_at(s, at + INTERPRETED_METHOD);
	if (hotspot_is_entering(s, b, method))
		return hotspot_entered(s, env, b);
	if (at == WORDS_FAIL || !hotspot_look_at_method(s, env, b, method))
		goto none;
	const uint64_t bcp = hotspot_word_at(s, at + INTERPRETED_BELOW - (b->bcp_slot & 15));
	const uint64_t bytes = memory[MEMORY_IDENTITY] & 0xffff;
	/* A native method has no bytecodes, and a new frame does not say yet where it is. */
	if (bytes && bcp - memory[MEMORY_CODES] >= bytes &&
	    !(hotspot_in_entry(s, b) && method == s->gpr[BH_REG_RBX]))
		goto none;
	const uint64_t pc = hotspot_word_at(s, at + INTERPRETED_RETURN);
	const uint64_t fp = hotspot_word_at(s, at + INTERPRETED_FP);
	/* Not always above the return address: method handles' linkers take arguments off. */
	const uint64_t sp = hotspot_word_at(s, at + INTERPRETED_SENDER_SP);

	const int end = hotspot_note_interpreted(s, s->registers_known ? s->gpr[13] : bcp, bcp);
	return end == UNWIND_CONTINUE ? hotspot_leave(s, pc, sp, fp) : end;

none:
	return s->registers_known ? hotspot_left(s, env, b) : BH_REASON_RUNTIME;
}

/* From an interrupted method to its caller. */
static __always_inline int hotspot_leave_top(struct unwind_state *s, UNWIND_ENV env,
					     const struct hotspot_block *b)
{
	const uint64_t *blob = s->runtime.scratch;
	const uint64_t frame_bytes = blob[BLOB_FRAME_BYTES];
	uint64_t *code = s->runtime.heap;
	int frame = HOTSPOT_COMPLETE;

	s->runtime.heap_bytes = 0;
	if (s->pc - blob[BLOB_CODE] >= blob[BLOB_COMPLETE]) {
		if (!env_read(env, code, HOTSPOT_EPILOGUE_BYTES, s->pc))
			frame = hotspot_epilogue(code);
	} else if (s->pc <= blob[BLOB_ENTRY]) {
		/* Above it, the receiver's class is looked at. */
		frame = HOTSPOT_NOT_BEGUN;
	} else {
		frame = HOTSPOT_UNKNOWN;
		if (!env_read(env, code, HOTSPOT_PROLOGUE_BYTES, blob[BLOB_ENTRY]))
			frame = hotspot_prologue(code, s->pc - blob[BLOB_ENTRY]);
	}
	if (frame == HOTSPOT_UNKNOWN || !frame_bytes)
		return hotspot_leave_stub(s, env, b);
	if (frame == HOTSPOT_NOT_BEGUN || frame == HOTSPOT_PUSHED) {
		const uint64_t at = hotspot_stack(s, env, s->sp, 2);
		const uint64_t first = hotspot_word_at(s, at), second = hotspot_word_at(s, at + 1);

		if (at == WORDS_FAIL)
			return BH_REASON_READ_FAULT;
		if (frame == HOTSPOT_NOT_BEGUN && hotspot_is_code(b, first))
			return hotspot_leave(s, first, s->sp + 8, s->fp);
		if (frame == HOTSPOT_PUSHED && hotspot_is_code(b, second))
			return hotspot_leave(s, second, s->sp + 16, first);
	}
	const uint64_t fp = s->fp;
	const int end = hotspot_leave_sized(s, env, b, s->sp + frame_bytes);
	if (end == UNWIND_CONTINUE && frame == HOTSPOT_SIZED)
		s->fp = fp;
	return end;
}

/* The lowest frame of a virtual thread's that is on the stack returns to where the next one is
 * fetched. rbp is of when they were put away; there is a ContinuationEntry at rsp, 64 bytes, in the
 * frame that runs the thread. */
static __always_inline int hotspot_frozen(struct unwind_state *s, UNWIND_ENV env,
					  const struct hotspot_block *b)
{
	const int end = hotspot_note(s, s->pc, 0, HOTSPOT_FRAME_FROZEN, 0);

	return end == UNWIND_CONTINUE ? hotspot_leave_sized(s, env, b, s->sp + 64 + 16) : end;
}

/* A frame of code that is no method's. */
static __always_inline int hotspot_stub(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const uint64_t *blob = s->runtime.scratch;
	const uint64_t position = s->pc - blob[BLOB_CODE], cfa = s->sp + blob[BLOB_FRAME_BYTES];
	int end = hotspot_note(s, s->runtime.scratch_address, blob[BLOB_IDENTITY],
			       HOTSPOT_FRAME_STUB, position);

	if (end != UNWIND_CONTINUE)
		return end;
	if (!blob[BLOB_FRAME_BYTES])
		return s->registers_known ? hotspot_leave_stub(s, env, b)
					  : hotspot_leave_linked(s, env);
	const uint64_t at = hotspot_stack(s, env, cfa - 16, 2);
	if (at == WORDS_FAIL)
		return BH_REASON_READ_FAULT;
	const uint64_t pc = hotspot_word_at(s, at + 1), fp = hotspot_word_at(s, at);
	if (hotspot_is_code(b, pc))
		return hotspot_leave(s, pc, cfa, fp);
	/* It has other frames on top while it replaces a compiled one by interpreted ones, and none
	 * where it begins and ends. */
	if (hotspot_leave_stub(s, env, b) == UNWIND_CONTINUE)
		return UNWIND_CONTINUE;
	return hotspot_leave(s, pc, cfa, fp);
}

/* A frame of a method. */
static __always_inline int hotspot_compiled(struct unwind_state *s, UNWIND_ENV env,
					    const struct hotspot_block *b)
{
	const uint64_t *blob = s->runtime.scratch;
	const int top = s->registers_known != 0;
	uint64_t position = s->pc - blob[BLOB_CODE];

	/* To be replaced by interpreted frames once it is returned to: its own place is in it. */
	if (!top && (s->pc == blob[BLOB_DEOPT] || s->pc == blob[BLOB_DEOPT_METHOD_HANDLE])) {
		const uint64_t at = hotspot_stack(s, env, s->sp + blob[BLOB_ORIGINAL_PC], 1);

		if (at != WORDS_FAIL && hotspot_word_at(s, at) - blob[BLOB_CODE] < blob[BLOB_BYTES])
			position = hotspot_word_at(s, at) - blob[BLOB_CODE];
	}
	const int end =
	    hotspot_note(s, s->runtime.scratch_address, blob[BLOB_IDENTITY],
			 top ? HOTSPOT_FRAME_COMPILED_TOP : HOTSPOT_FRAME_COMPILED, position);
	if (end != UNWIND_CONTINUE)
		return end;
	if (top)
		return hotspot_leave_top(s, env, b);
	return hotspot_leave_sized(s, env, b, s->sp + blob[BLOB_FRAME_BYTES]);
}

/* A frame of a compiled method of which everything is known. */
static __always_inline int hotspot_note_known(struct unwind_state *s, uint64_t pc,
					      const struct method_cache_entry *known)
{
	return hotspot_note(s, pc - known->facts[FRAME_DISTANCE], known->facts[FRAME_IDENTITY],
			    HOTSPOT_FRAME_COMPILED, known->facts[FRAME_POSITION]);
}

/*
 * The common case: a caller that is steady, and its own caller, code as well, has its frame in the
 * window. 0: it is not that, and nothing was done.
 */
static __always_inline int hotspot_step_plain(struct unwind_state *s, const struct hotspot_block *b,
					      struct method_cache *cache)
{
	if (s->registers_known || hotspot_is_interpreter(b, s->pc))
		return 0;
	const struct method_cache_entry *known = method_cache_find(s, cache, s->pc);
	if (!known || !method_cache_is_trusted(s, known))
		return 0;
	const uint64_t cfa = s->sp + known->facts[FRAME_BYTES];
	const uint64_t distance = cfa - 16 - s->window_start, at = distance >> 3;

	if ((distance & 7) || distance > (STACK_WINDOW_WORDS - 2) * 8)
		return 0;
	const uint64_t pc = hotspot_word_at(s, at + 1), fp = hotspot_word_at(s, at);

	return cfa > s->sp && hotspot_is_code(b, pc) &&
	       hotspot_note_known(s, s->pc, known) == UNWIND_CONTINUE &&
	       hotspot_leave(s, pc, cfa, fp) == UNWIND_CONTINUE;
}

/* One frame. */
static __always_inline int hotspot_step(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const uint64_t pc = s->pc;

	if (hotspot_is_interpreter(b, pc))
		return hotspot_interpreted(s, env, b);
	if (!s->registers_known && pc == b->call_stub_return) {
		const int end = hotspot_note(s, pc, 0, HOTSPOT_FRAME_CALL_STUB, 0);

		return end == UNWIND_CONTINUE ? hotspot_leave_linked(s, env) : end;
	}
	if (!s->registers_known &&
	    pc - b->continuation_start < b->continuation_end - b->continuation_start)
		return hotspot_frozen(s, env, b);
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *known =
	    s->registers_known ? NULL : method_cache_find(s, cache, pc);

	if (known && hotspot_is_still(s, env, b, pc, known)) {
		const uint64_t bytes = known->facts[FRAME_BYTES];
		const int end = hotspot_note_known(s, pc, known);

		return end == UNWIND_CONTINUE ? hotspot_leave_sized(s, env, b, s->sp + bytes) : end;
	}
	if (!s->registers_known || !hotspot_recall_top(s, env, b, pc)) {
		if (!hotspot_find_blob(s, env, b, pc))
			return BH_REASON_RUNTIME;
		if (!s->runtime.scratch[BLOB_IS_NMETHOD])
			return hotspot_stub(s, env, b);
		if (s->registers_known)
			hotspot_remember_top(s, env, b, pc);
		else
			hotspot_remember(s, cache, known, pc);
	}
	return hotspot_compiled(s, env, b);
}

#ifdef __bpf__
/* A global function, so that the verifier walks it once and not for each frame. */
__noinline int walker_hotspot_step(__u32 unused)
{
	__u32 zero = 0;

	GLOBAL_ARGUMENT(unused);
	struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
	const struct bh_runtime_table *table = env_runtimes(0);

	if (!cpu || !table)
		return BH_REASON_BAD_TABLE;
	const __u64 block = bits_mask(cpu->unwind.runtime.block, (1 << BH_RUNTIME_BLOCKS_BITS) - 1);
	return hotspot_step(&cpu->unwind, 0, (const void *)&table->blocks[block]);
}
#define hotspot_step_once(s, env, b) walker_hotspot_step(0)
#else
#define hotspot_step_once hotspot_step
#endif

static __always_inline int hotspot_walk(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	struct method_cache *cache = env_method_cache(env);

	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_A_CALL; i++) {
		if (hotspot_step_plain(s, b, cache))
			continue;
		const int end = hotspot_step_once(s, env, b);
		if (end != UNWIND_CONTINUE || !hotspot_is_code(b, s->pc))
			return end;
	}
	return UNWIND_CONTINUE;
}

RUNTIME_WALKER(hotspot)

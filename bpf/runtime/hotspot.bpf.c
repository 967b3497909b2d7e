/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of HotSpot.
 *
 * How this works. Generated code of HotSpot has no unwind rules. There are four kinds of it:
 *
 * - Compiled methods (nmethods). The CodeBlob that describes the code says how large a frame is
 *   (hotspot_blob.h). The return address is the last word of the frame, and below it rbp is saved,
 *   the only register that a callee saves.
 * - The interpreter. Its frames are linked by rbp, and have the Method and the position in the
 *   bytecodes at fixed distances from it (src/hotspot/cpu/x86/frame_x86.hpp).
 * - Stubs, which are code of the runtime itself. They are treated as compiled methods if their
 *   frame has a known size, and by rbp otherwise.
 * - The call stub, through which the runtime calls a Java method. Beyond it the stack is native.
 *
 * In a method that was interrupted and has not called another one, the frame may be half built or
 * half removed. Then its instructions are examined (hotspot_frame.h). The walker moves from frame
 * to frame by itself (WALKER_MOVED), until it leaves the generated code.
 *
 * Example: pc is a return address in a compiled method whose CodeBlob says 6 words, and rsp is
 * 0x7f00a000. The frame ends at 0x7f00a030. The return address is the word at 0x7f00a028, the
 * caller's rbp the word at 0x7f00a020, and the caller's rsp is 0x7f00a030.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/hotspot.h"
#include "bpf/runtime/hotspot_blob.h"
#include "bpf/runtime/hotspot_frame.h"

enum {
	/* Bytes between rsp and rbp in an interpreted frame. The interpreter's expression stack has
	 * 65,535 words at most (max_stack of the class file format); the rest is for monitors. */
	INTERPRETED_FRAME_MAX = 1 << 20,
	STUB_FRAME_MAX = 0x2000, /* a frame of a stub that is linked by rbp is not larger */
	/* Words that compiled code may have pushed in addition to its frame, among them arguments
	 * of calls. async-profiler searches the return address in 7 words for the same reason
	 * (StackFrame::callerLookupSlots() for x86-64). */
	FRAME_SHIFT_MAX = 8,
	FRAMES_PER_CALL = 8, /* of the walker, a constant bound for the verifier */
};

/* The layout of an interpreted frame (frame_x86.hpp: interpreter_frame_sender_sp_offset is -1, and
 * interpreter_frame_method_offset -3), as word indexes from nine words below rbp on. */
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

/* Pushes a managed frame (hotspot.h). Returns UNWIND_CONTINUE or BH_REASON_TOO_DEEP. */
static __always_inline int hotspot_push(struct unwind_state *s, uint64_t payload, uint32_t identity,
					uint32_t kind, uint64_t position)
{
	const uint64_t words[] = {frame_word(identity, kind, position)};
	const int end = push_managed(s, BH_RUNTIME_HOTSPOT, payload, 1, words);

	return end ? end : UNWIND_CONTINUE;
}

/* Moves to the caller. Returns UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int hotspot_leave(struct unwind_state *s, uint64_t pc, uint64_t sp,
					 uint64_t fp)
{
	/* The stack gets shorter, except where a return address was popped into a register. */
	if (sp < s->sp || (sp == s->sp && !s->registers_known))
		return BH_REASON_BAD_CFA;
	s->pc = pc;
	s->sp = sp;
	s->fp = fp;
	s->registers_known = 0;
	s->bx_known = 0;
	return pc ? UNWIND_CONTINUE : BH_REASON_COMPLETE;
}

/* Moves from a frame that ends at `cfa` to its caller. If there is no return address into generated
 * code at its end, the frame may have pushed some words more: the next words are tried as well. */
static __always_inline int hotspot_leave_sized(struct unwind_state *s, UNWIND_ENV env,
					       const struct hotspot_block *b, uint64_t cfa)
{
	const uint64_t at = stack_window_at(s, env, cfa - 16, 2 + FRAME_SHIFT_MAX);

	if (at == STACK_NO_WORDS)
		return BH_REASON_READ_FAULT;
	UNWIND_NO_UNROLL
	for (uint64_t i = 0; i < FRAME_SHIFT_MAX; i++) {
		const uint64_t pc = stack_window_word(s, at + i + 1);

		if (hotspot_is_code(b, pc))
			return hotspot_leave(s, pc, cfa + i * 8, stack_window_word(s, at + i));
	}
	return BH_REASON_RUNTIME;
}

/* Moves to the caller by rbp, which the frame has set up. */
static __always_inline int hotspot_leave_linked(struct unwind_state *s, UNWIND_ENV env)
{
	const uint64_t at = stack_window_at(s, env, s->fp, 2);

	if (at == STACK_NO_WORDS || s->fp < s->sp || s->fp - s->sp > INTERPRETED_FRAME_MAX)
		return BH_REASON_RUNTIME;
	return hotspot_leave(s, stack_window_word(s, at + 1), s->fp + 16, stack_window_word(s, at));
}

/* Moves from interrupted code that has no frame, or one that is linked by rbp, to the caller. */
static __always_inline int hotspot_leave_stub(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b)
{
	uint64_t at = stack_window_at(s, env, s->sp, 2);

	if (at == STACK_NO_WORDS)
		return BH_REASON_READ_FAULT;
	const uint64_t first = stack_window_word(s, at), second = stack_window_word(s, at + 1);

	if (hotspot_is_code(b, first))
		return hotspot_leave(s, first, s->sp + 8, s->fp);
	if (s->fp - s->sp < STUB_FRAME_MAX) {
		at = stack_window_at(s, env, s->fp, 2);
		if (at != STACK_NO_WORDS && (hotspot_is_code(b, stack_window_word(s, at + 1)) ||
					     !hotspot_is_code(b, second)))
			return hotspot_leave(s, stack_window_word(s, at + 1), s->fp + 16,
					     stack_window_word(s, at));
	}
	if (hotspot_is_code(b, second))
		return hotspot_leave(s, second, s->sp + 16, first);
	return BH_REASON_RUNTIME;
}

/* Sets the fields of the state about `method`, from the cache or from memory.
 * Returns 0 if it is no Method. */
static __always_inline int hotspot_find_method(struct unwind_state *s, UNWIND_ENV env,
					       const struct hotspot_block *b, uint64_t method)
{
	struct hotspot_state *h = hotspot_state(s);
	uint64_t *words = s->runtime.heap;
	uint64_t const_method = 0;

	/* In a recursion it is the method of the previous frame. */
	if (method && h->method == method)
		return 1;
	h->method = 0;
	if (!method || (method & 7))
		return 0;
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry = method_cache_find(s, cache, method);
	if (entry && method_cache_is_trusted(s, entry)) {
		h->method = method;
		h->bytecodes = (uint64_t)entry->facts[METHOD_CODES_HIGH] << 32 |
			       entry->facts[METHOD_CODES_LOW];
		h->method_identity = entry->facts[METHOD_IDENTITY];
		h->bytecode_bytes = entry->facts[METHOD_BYTES];
		return 1;
	}
	s->runtime.heap_bytes = 0;
	if (env_read(env, &const_method, sizeof(const_method), method + b->const_method) ||
	    !const_method || env_read(env, words, HOTSPOT_CONST_METHOD_BYTES, const_method))
		return 0;
	const uint64_t sizes = hotspot_sizes(words, b->code_size);
	const uint32_t identity = hotspot_identity(const_method, words[1], sizes);
	h->method = method;
	h->bytecodes = const_method + b->const_method_bytes;
	h->method_identity = identity;
	h->bytecode_bytes = sizes & 0xffff;
	entry = method_cache_record(s, cache, entry, method,
				    entry && entry->facts[METHOD_IDENTITY] == identity);
	if (entry) {
		entry->facts[METHOD_IDENTITY] = identity;
		entry->facts[METHOD_BYTES] = (uint32_t)(sizes & 0xffff);
		entry->facts[METHOD_CODES_LOW] = (uint32_t)h->bytecodes;
		entry->facts[METHOD_CODES_HIGH] = (uint32_t)(h->bytecodes >> 32);
	}
	return 1;
}

/* Pushes a frame of the method that was found last, at the bytecode `bcp`, or at `other` if that is
 * not in the method. */
static __always_inline int hotspot_push_interpreted(struct unwind_state *s, uint64_t bcp,
						    uint64_t other)
{
	const struct hotspot_state *h = hotspot_state(s);
	const uint64_t bytes = h->bytecode_bytes;
	uint64_t bci = HOTSPOT_NO_BCI;

	if (bcp - h->bytecodes < bytes)
		bci = bcp - h->bytecodes;
	else if (other - h->bytecodes < bytes)
		bci = other - h->bytecodes;
	return hotspot_push(s, h->method, (uint32_t)h->method_identity, HOTSPOT_FRAME_INTERPRETED,
			    bci);
}

/*
 * Walks a frame that was interrupted in the code by which interpreted methods are entered. rbx is
 * the Method, and r13 the caller's stack pointer. The return address is at rsp, for some
 * instructions in rax, or next to the saved rbp once that has been pushed.
 */
static __always_inline int hotspot_entered(struct unwind_state *s, UNWIND_ENV env,
					   const struct hotspot_block *b)
{
	const uint64_t method = s->gpr[BH_REG_RBX];
	uint64_t sp = s->gpr[13], pc, fp = s->fp;
	const int linked = s->fp - s->sp <= 16;
	uint64_t at = stack_window_at(s, env, s->sp, 5);

	if (at == STACK_NO_WORDS || !hotspot_find_method(s, env, b, method))
		return BH_REASON_RUNTIME;
	const uint64_t first = stack_window_word(s, at), second = stack_window_word(s, at + 1);

	at += (s->fp - s->sp) >> 3;
	if (linked && hotspot_is_code(b, stack_window_word(s, at + 1))) {
		pc = stack_window_word(s, at + 1);
		fp = stack_window_word(s, at);
		/* r13 is the address of the bytecodes by now. Its old value is the first word that
		 * was pushed after rbp. */
		if (s->fp - s->sp == 16)
			sp = stack_window_word(s, at - 1);
	} else if (hotspot_is_code(b, first)) {
		pc = first;
	} else if (first == s->fp && hotspot_is_code(b, second)) {
		pc = second;
	} else if (hotspot_is_code(b, s->gpr[0])) {
		pc = s->gpr[0];
	} else {
		return BH_REASON_RUNTIME;
	}
	const int end = hotspot_push_interpreted(s, hotspot_state(s)->bytecodes, 0);
	return end == UNWIND_CONTINUE ? hotspot_leave(s, pc, sp, fp) : end;
}

/* Returns whether s->pc was interrupted in the code by which interpreted methods are entered. */
static __always_inline int hotspot_in_entry(const struct unwind_state *s,
					    const struct hotspot_block *b)
{
	return s->registers_known && s->pc - b->entries_start < b->entries_end - b->entries_start;
}

/* Returns whether the interpreted frame at rbp is not that of the method that is being entered,
 * because that has no frame yet. */
static __always_inline int hotspot_is_entering(const struct unwind_state *s,
					       const struct hotspot_block *b, uint64_t frame_method)
{
	const uint64_t sp = s->gpr[13];

	if (!hotspot_in_entry(s, b) || (s->fp > s->sp && frame_method == s->gpr[BH_REG_RBX]))
		return 0;
	return s->fp - s->sp == 16 || (!(sp & 7) && sp - s->sp < INTERPRETED_FRAME_MAX);
}

/*
 * Walks a frame that was interrupted in the code by which interpreted methods are left. rbp is that
 * of the caller already. The return address is at rsp, or was popped into r13, and the caller's
 * stack pointer is in rbx.
 */
static __always_inline int hotspot_left(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const uint64_t sp = s->gpr[BH_REG_RBX], pc = s->gpr[13];
	const int end = hotspot_push(s, s->pc, 0, HOTSPOT_FRAME_INTERPRETER, 0);

	if (end != UNWIND_CONTINUE)
		return end;
	const uint64_t at = stack_window_at(s, env, s->sp, 1);
	if (at != STACK_NO_WORDS && hotspot_is_code(b, stack_window_word(s, at)))
		return hotspot_leave(s, stack_window_word(s, at), s->sp + 8, s->fp);
	if (hotspot_is_code(b, pc) && sp - s->sp < INTERPRETED_FRAME_MAX)
		return hotspot_leave(s, pc, sp, s->fp);
	return BH_REASON_RUNTIME;
}

/* Walks the interpreted frame at rbp. */
static __always_inline int hotspot_interpreted(struct unwind_state *s, UNWIND_ENV env,
					       const struct hotspot_block *b)
{
	const struct hotspot_state *h = hotspot_state(s);
	uint64_t at = STACK_NO_WORDS, method = 0;

	if (s->fp >= s->sp && s->fp - s->sp < INTERPRETED_FRAME_MAX)
		at = stack_window_at(s, env, s->fp - INTERPRETED_BELOW * 8, INTERPRETED_WORDS);
	if (at != STACK_NO_WORDS)
		method = stack_window_word(s, at + INTERPRETED_METHOD);
	if (hotspot_is_entering(s, b, method))
		return hotspot_entered(s, env, b);
	if (at == STACK_NO_WORDS || !hotspot_find_method(s, env, b, method))
		goto none;
	const uint64_t bcp = stack_window_word(s, at + INTERPRETED_BELOW - (b->bcp_slot & 15));
	const uint64_t bytes = h->bytecode_bytes;
	/* A native method has no bytecodes, and a new frame does not contain its position yet. */
	if (bytes && bcp - h->bytecodes >= bytes &&
	    !(hotspot_in_entry(s, b) && method == s->gpr[BH_REG_RBX]))
		goto none;
	const uint64_t pc = stack_window_word(s, at + INTERPRETED_RETURN);
	const uint64_t fp = stack_window_word(s, at + INTERPRETED_FP);
	/* The caller's stack pointer is not always right above the return address: linkers of
	 * method handles remove arguments. */
	const uint64_t sp = stack_window_word(s, at + INTERPRETED_SENDER_SP);

	const int end = hotspot_push_interpreted(s, s->registers_known ? s->gpr[13] : bcp, bcp);
	return end == UNWIND_CONTINUE ? hotspot_leave(s, pc, sp, fp) : end;

none:
	return s->registers_known ? hotspot_left(s, env, b) : BH_REASON_RUNTIME;
}

/* Moves from an interrupted compiled method, described by `blob`, to its caller. */
static __always_inline int hotspot_leave_top(struct unwind_state *s, UNWIND_ENV env,
					     const struct hotspot_block *b)
{
	const struct hotspot_blob *blob = &hotspot_state(s)->blob;
	const uint64_t frame_bytes = blob->frame_bytes;
	uint64_t *code = s->runtime.heap;
	int frame = HOTSPOT_COMPLETE;

	s->runtime.heap_bytes = 0;
	if (s->pc - blob->code >= blob->complete) {
		if (!env_read(env, code, HOTSPOT_EPILOGUE_BYTES, s->pc))
			frame = hotspot_epilogue(code);
	} else if (s->pc <= blob->entry) {
		/* Before the verified entry the class of the receiver is checked. */
		frame = HOTSPOT_NOT_BEGUN;
	} else {
		frame = HOTSPOT_UNKNOWN;
		if (!env_read(env, code, HOTSPOT_PROLOGUE_BYTES, blob->entry))
			frame = hotspot_prologue(code, s->pc - blob->entry);
	}
	if (frame == HOTSPOT_UNKNOWN || !frame_bytes)
		return hotspot_leave_stub(s, env, b);
	if (frame == HOTSPOT_NOT_BEGUN || frame == HOTSPOT_PUSHED) {
		const uint64_t at = stack_window_at(s, env, s->sp, 2);
		const uint64_t first = stack_window_word(s, at),
			       second = stack_window_word(s, at + 1);

		if (at == STACK_NO_WORDS)
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

/* Walks the lowest frame of a virtual thread that is on the stack. It returns to a stub that
 * fetches the next frame from the heap. rbp is a value of the time when the frames were put there.
 * At rsp is a ContinuationEntry (64 bytes), in the frame that runs the virtual thread. */
static __always_inline int hotspot_frozen(struct unwind_state *s, UNWIND_ENV env,
					  const struct hotspot_block *b)
{
	const int end = hotspot_push(s, s->pc, 0, HOTSPOT_FRAME_FROZEN, 0);

	return end == UNWIND_CONTINUE ? hotspot_leave_sized(s, env, b, s->sp + 64 + 16) : end;
}

/* Walks a frame of a stub, described by `blob`. */
static __always_inline int hotspot_stub(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const struct hotspot_blob *blob = &hotspot_state(s)->blob;
	const uint64_t position = s->pc - blob->code, cfa = s->sp + blob->frame_bytes;
	int end = hotspot_push(s, blob->address, blob->identity, HOTSPOT_FRAME_STUB, position);

	if (end != UNWIND_CONTINUE)
		return end;
	if (!blob->frame_bytes)
		return s->registers_known ? hotspot_leave_stub(s, env, b)
					  : hotspot_leave_linked(s, env);
	const uint64_t at = stack_window_at(s, env, cfa - 16, 2);
	if (at == STACK_NO_WORDS)
		return BH_REASON_READ_FAULT;
	const uint64_t pc = stack_window_word(s, at + 1), fp = stack_window_word(s, at);
	if (hotspot_is_code(b, pc))
		return hotspot_leave(s, pc, cfa, fp);
	/* The deoptimization stub has other frames on top of its own while it replaces a compiled
	 * frame by interpreted ones. At its start and its end it has none. */
	if (hotspot_leave_stub(s, env, b) == UNWIND_CONTINUE)
		return UNWIND_CONTINUE;
	return hotspot_leave(s, pc, cfa, fp);
}

/* Walks a frame of a compiled method, described by `blob`. */
static __always_inline int hotspot_compiled(struct unwind_state *s, UNWIND_ENV env,
					    const struct hotspot_block *b)
{
	const struct hotspot_blob *blob = &hotspot_state(s)->blob;
	const int top = s->registers_known != 0;
	uint64_t position = s->pc - blob->code;

	/* A frame to be deoptimized returns to a handler, and its own return
	 * address is kept in the frame. */
	if (!top && (s->pc == blob->deopt || s->pc == blob->deopt_method_handle)) {
		const uint64_t at = stack_window_at(s, env, s->sp + blob->original_pc, 1);

		if (at != STACK_NO_WORDS && stack_window_word(s, at) - blob->code < blob->bytes)
			position = stack_window_word(s, at) - blob->code;
	}
	const int end =
	    hotspot_push(s, blob->address, blob->identity,
			 top ? HOTSPOT_FRAME_COMPILED_TOP : HOTSPOT_FRAME_COMPILED, position);
	if (end != UNWIND_CONTINUE)
		return end;
	if (top)
		return hotspot_leave_top(s, env, b);
	return hotspot_leave_sized(s, env, b, s->sp + blob->frame_bytes);
}

/* Pushes the frame of a compiled method from the cache. */
static __always_inline int hotspot_push_cached(struct unwind_state *s, uint64_t pc,
					       const struct method_cache_entry *entry)
{
	return hotspot_push(s, pc - entry->facts[FRAME_DISTANCE], entry->facts[FRAME_IDENTITY],
			    HOTSPOT_FRAME_COMPILED, entry->facts[FRAME_POSITION]);
}

/*
 * Walks one frame in the common case: a compiled method that has called another one, is trusted,
 * and whose caller is generated code too, with its words in the window. Returns 0 if that is not
 * so; then nothing has changed.
 */
static __always_inline int hotspot_step_cached(struct unwind_state *s,
					       const struct hotspot_block *b,
					       struct method_cache *cache)
{
	if (s->registers_known || hotspot_is_interpreter(b, s->pc))
		return 0;
	const struct method_cache_entry *entry = method_cache_find(s, cache, s->pc);
	if (!entry || !method_cache_is_trusted(s, entry))
		return 0;
	const uint64_t cfa = s->sp + entry->facts[FRAME_BYTES];
	const uint64_t distance = cfa - 16 - s->window_start, at = distance >> 3;

	if ((distance & 7) || distance > (STACK_WINDOW_WORDS - 2) * 8)
		return 0;
	const uint64_t pc = stack_window_word(s, at + 1), fp = stack_window_word(s, at);

	return cfa > s->sp && hotspot_is_code(b, pc) &&
	       hotspot_push_cached(s, s->pc, entry) == UNWIND_CONTINUE &&
	       hotspot_leave(s, pc, cfa, fp) == UNWIND_CONTINUE;
}

/* Walks one frame. Returns UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int hotspot_step(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	const uint64_t pc = s->pc;

	if (hotspot_is_interpreter(b, pc))
		return hotspot_interpreted(s, env, b);
	if (!s->registers_known && pc == b->call_stub_return) {
		const int end = hotspot_push(s, pc, 0, HOTSPOT_FRAME_CALL_STUB, 0);

		return end == UNWIND_CONTINUE ? hotspot_leave_linked(s, env) : end;
	}
	if (!s->registers_known &&
	    pc - b->continuation_start < b->continuation_end - b->continuation_start)
		return hotspot_frozen(s, env, b);
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry =
	    s->registers_known ? NULL : method_cache_find(s, cache, pc);

	if (entry && hotspot_is_unchanged(s, env, b, pc, entry)) {
		const uint64_t bytes = entry->facts[FRAME_BYTES];
		const int end = hotspot_push_cached(s, pc, entry);

		return end == UNWIND_CONTINUE ? hotspot_leave_sized(s, env, b, s->sp + bytes) : end;
	}
	if (!s->registers_known || !hotspot_recall_top(s, env, b, pc)) {
		if (!hotspot_find_blob(s, env, b, pc))
			return BH_REASON_RUNTIME;
		if (!hotspot_state(s)->blob.is_nmethod)
			return hotspot_stub(s, env, b);
		if (s->registers_known)
			hotspot_cache_top(s, env, b, pc);
		else
			hotspot_cache_frame(s, cache, entry, pc);
	}
	return hotspot_compiled(s, env, b);
}

RUNTIME_PART(hotspot, step)

static __always_inline int hotspot_walk(struct unwind_state *s, UNWIND_ENV env,
					const struct hotspot_block *b)
{
	struct method_cache *cache = env_method_cache(env);

	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_PER_CALL; i++) {
		if (hotspot_step_cached(s, b, cache))
			continue;
		const int end = RUNTIME_CALL(hotspot, step, s, env, b);
		if (end != UNWIND_CONTINUE || !hotspot_is_code(b, s->pc))
			return end;
	}
	return UNWIND_CONTINUE;
}

RUNTIME_WALKER(hotspot, BH_RUNTIME_HOTSPOT)

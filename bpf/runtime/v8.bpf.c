/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of V8.
 *
 * How this works. v8.h describes a frame. The walker is called in three kinds of ranges:
 *
 * - Compiled code. Its frames are linked by rbp, so the walker moves from one to the next by itself
 *   (WALKER_MOVED). Where the code was interrupted, the frame may be half built or half removed,
 *   which its instructions say (v8_code.h).
 * - The handlers of bytecodes. The one frame of a function that is interpreted is made by the
 *   builtin InterpreterEntryTrampoline, which calls the first handler; a handler jumps to the next.
 *   Whatever a handler has pushed, rbp is that of the function's frame.
 * - InterpreterEntryTrampoline itself, to which the callers in that frame seem to belong. It is
 *   known where in its code the frame is made and removed.
 *
 * All other builtins are native code of the file, with unwind rules. They are not in a range.
 *
 * Example: leaf, an interpreted function, was interrupted in the handler of an addition. rbp is
 * 0x7ffc8f15658, and the word at rbp - 16 its JSFunction. The walker pushes leaf. The word at
 * rbp + 8 is a return address in InterpreterEntryTrampoline, so leaf was called by another
 * interpreted function, whose rbp is the word at rbp. It goes on there, until the return address is
 * in no range: that of JSEntryTrampoline, which is a native frame.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/v8.h"
#include "bpf/runtime/v8_code.h"

enum {
	FRAMES_PER_CALL = 8, /* of the walker, a constant bound for the verifier */
	/* Bytes between rsp and rbp. A function has up to 2^16 registers of 8 bytes in practice; V8
	 * itself refuses functions whose frame exceeds its stack of 984 KiB. */
	FRAME_BYTES_MAX = 1 << 20,
	REG_RCX = 2,
	REG_R8 = 8,
	REG_R9 = 9, /* kInterpreterBytecodeOffsetRegister, src/codegen/x64/register-x64.h */
	REG_R10 = 10,
	REG_R12 = 12,	  /* kInterpreterBytecodeArrayRegister */
	FACT_IDENTITY = 0 /* of an entry of the method cache */
};

/* A frame, as word indexes from five words below rbp on. */
enum {
	FRAME_BELOW = 5,
	FRAME_POSITION = FRAME_BELOW - 5,
	FRAME_BYTECODES = FRAME_BELOW - 4,
	FRAME_FUNCTION = FRAME_BELOW - 2,
	FRAME_CONTEXT = FRAME_BELOW - 1,
	FRAME_FP = FRAME_BELOW,
	FRAME_RETURN,
	FRAME_WORDS,
};

/* The frame that is being walked. */
struct v8_state {
	uint32_t unused[8];  /* zero at the start of each stack */
	uint64_t pc, sp, fp; /* of the caller */
	uint64_t function;   /* tagged; 0: there is none to be shown */
	uint64_t bytecodes, position;
	uint64_t marker;   /* of a frame that has a type instead of a function */
	uint64_t shared;   /* found by v8_identify() */
	uint32_t identity; /* the same */
	uint32_t reserved;
};
RUNTIME_STATE(v8, BH_RUNTIME_V8)

/* Sets *value to the word of the stack at `address`, or to 0 if it cannot be read. */
static __always_inline uint64_t v8_stack_word(struct unwind_state *s, UNWIND_ENV env,
					      uint64_t address)
{
	const uint64_t at = stack_window_at(s, env, address, 1);

	return at == STACK_NO_WORDS ? 0 : stack_window_word(s, at);
}

/* Reads the frame that is linked by rbp = `fp`. Returns 0 if it cannot be a frame of V8. */
static __always_inline int v8_read_frame(struct unwind_state *s, UNWIND_ENV env, uint64_t fp)
{
	struct v8_state *v = v8_state(s);

	if (fp < s->sp || fp - s->sp > FRAME_BYTES_MAX)
		return 0;
	const uint64_t at = stack_window_at(s, env, fp - FRAME_BELOW * 8, FRAME_WORDS);
	if (at == STACK_NO_WORDS)
		return 0;
	const uint64_t context = stack_window_word(s, at + FRAME_CONTEXT);

	v->pc = stack_window_word(s, at + FRAME_RETURN);
	v->fp = stack_window_word(s, at + FRAME_FP);
	v->sp = fp + 16;
	v->function = stack_window_word(s, at + FRAME_FUNCTION);
	v->bytecodes = stack_window_word(s, at + FRAME_BYTECODES);
	v->position = stack_window_word(s, at + FRAME_POSITION) >> V8_SMI_SHIFT;
	v->marker = 0;
	if (context & V8_TAG)
		return 1;
	v->marker = context >> V8_MARKER_SHIFT;
	v->function = 0;
	return v->marker && v->marker <= V8_MARKER_MAX;
}

/* The interrupted function has no complete frame yet: its JSFunction is in rdi, and its return
 * address is `above` bytes above rsp. */
static __always_inline int v8_enter(struct unwind_state *s, UNWIND_ENV env, uint64_t above)
{
	struct v8_state *v = v8_state(s);

	v->function = s->gpr[BH_REG_RDI];
	v->bytecodes = 0;
	v->position = V8_NO_POSITION;
	v->marker = 0;
	v->sp = s->sp + above + 8;
	v->fp = above ? v8_stack_word(s, env, s->sp) : s->fp;
	v->pc = v8_stack_word(s, env, s->sp + above);
	return v->pc != 0;
}

/* The interrupted function has left its frame, which was at rbp = `fp`: below the stack, but nobody
 * has written there since. */
static __always_inline int v8_left(struct unwind_state *s, UNWIND_ENV env, uint64_t fp, uint64_t sp,
				   uint64_t pc)
{
	struct v8_state *v = v8_state(s);

	v->function = v8_stack_word(s, env, fp - 16);
	v->bytecodes = 0;
	v->position = V8_NO_POSITION;
	v->marker = 0;
	v->pc = pc;
	v->sp = sp;
	v->fp = s->fp;
	return pc != 0;
}

/* Finds the frame of compiled code that was interrupted at s->pc. */
static __always_inline int v8_top_code(struct unwind_state *s, UNWIND_ENV env,
				       const struct v8_block *b)
{
	uint64_t *code = s->runtime.heap;
	const uint64_t sp = s->sp;
	int state = V8_CODE_COMPLETE, r9;
	uint64_t ra;

	(void)b;
	s->runtime.heap_bytes = 0;
	if (!env_read(env, code, V8_CODE_BYTES, s->pc))
		state = v8_code_state(code);
	switch (state) {
	case V8_CODE_NOT_BEGUN:
		return v8_enter(s, env, 0);
	case V8_CODE_PUSHED:
		return v8_enter(s, env, 8);
	case V8_CODE_POPPED:
		return v8_left(s, env, sp - 8, sp + 8, v8_stack_word(s, env, sp));
	case V8_CODE_RA_POPPED:
		r9 = v8_code_uses_r9(code, state);
		return v8_left(s, env, sp - 16, sp, s->gpr[r9 ? REG_R9 : REG_R10]);
	case V8_CODE_ARGS_POPPED:
		r9 = v8_code_uses_r9(code, state);
		return v8_left(s, env, sp - s->gpr[r9 ? REG_R8 : REG_RCX] * 8 - 16, sp,
			       s->gpr[r9 ? REG_R9 : REG_R10]);
	case V8_CODE_ARGS_PUSHED:
		/* The register still has the return address. */
		ra = v8_stack_word(s, env, sp);
		return v8_left(s, env, sp - s->gpr[ra == s->gpr[REG_R9] ? REG_R8 : REG_RCX] * 8 - 8,
			       sp + 8, ra);
	default:
		if (!v8_read_frame(s, env, s->fp))
			return 0;
		if (state == V8_CODE_LINKED)
			v8_state(s)->function = s->gpr[BH_REG_RDI];
		return 1;
	}
}
RUNTIME_PART(v8, top_code)

/* Finds the frame of an interpreted function that was interrupted in InterpreterEntryTrampoline. */
static __always_inline int v8_top_entry(struct unwind_state *s, UNWIND_ENV env,
					const struct v8_block *b)
{
	const uint64_t at = s->pc - s->runtime.range_start, sp = s->sp;
	const uint64_t arguments = s->gpr[BH_REG_RBX] << (b->entry_shift & 3);
	struct v8_state *v = v8_state(s);

	if (at <= b->entry_push)
		return v8_enter(s, env, 0);
	if (at <= b->entry_push + 3u) /* after "push rbp", before the end of "mov rbp, rsp" */
		return v8_enter(s, env, 8);
	/* leave; pop rcx; remove the arguments; push rcx; ret */
	if (at == b->entry_leave + 1u)
		return v8_left(s, env, sp - 8, sp + 8, v8_stack_word(s, env, sp));
	if (at == b->entry_leave + 2u)
		return v8_left(s, env, sp - 16, sp, s->gpr[REG_RCX]);
	if (at == b->entry_removed)
		return v8_left(s, env, sp - arguments - 16, sp, s->gpr[REG_RCX]);
	if (at == b->entry_removed + 1u)
		return v8_left(s, env, sp - arguments - 8, sp + 8, v8_stack_word(s, env, sp));
	if (!v8_read_frame(s, env, s->fp))
		return 0;
	if (at < b->entry_call)
		v->position = V8_NO_POSITION;
	if (at <= b->entry_push + 5u) /* before "push rdi" */
		v->function = s->gpr[BH_REG_RDI];
	return 1;
}
RUNTIME_PART(v8, top_entry)

/* Finds the frame of an interpreted function that was interrupted in a handler. Its registers have
 * the position in the bytecodes, which is written to the frame only before calls. */
static __always_inline int v8_top_handler(struct unwind_state *s, UNWIND_ENV env)
{
	struct v8_state *v = v8_state(s);

	if (!v8_read_frame(s, env, s->fp))
		return 0;
	if (s->gpr[REG_R12] == v->bytecodes && s->gpr[REG_R9] < V8_NO_POSITION)
		v->position = s->gpr[REG_R9];
	return 1;
}

/* Reads the identity of the function of the frame. Returns 0 if it cannot be read. */
static __always_inline int v8_identify(struct unwind_state *s, UNWIND_ENV env,
				       const struct v8_block *b)
{
	struct method_cache *cache = env_method_cache(env);
	struct v8_state *v = v8_state(s);
	uint64_t *words = s->runtime.heap;

	s->runtime.heap_bytes = 0;
	if ((v->function & V8_TAG_MASK) != V8_TAG ||
	    env_read(env, words, 8, v->function - V8_TAG + b->function_shared) ||
	    (words[0] & V8_TAG_MASK) != V8_TAG)
		return 0;
	v->shared = words[0] - V8_TAG;
	struct method_cache_entry *entry = method_cache_find(s, cache, v->shared);
	if (entry && method_cache_is_trusted(s, entry)) {
		v->identity = entry->facts[FACT_IDENTITY];
		return 1;
	}
	if (env_read(env, words, 24, v->shared + b->shared_script) ||
	    (words[0] & V8_TAG_MASK) != V8_TAG)
		return 0;
	const uint64_t script = words[0] - V8_TAG, numbers = words[1];
	const uint32_t literal = (uint32_t)(words[2] >> 32);
	if (env_read(env, words, 8, script + b->script_id))
		return 0;
	v->identity = v8_identity(words[0] >> V8_SMI_SHIFT, literal, numbers);
	entry = method_cache_record(s, cache, entry, v->shared,
				    entry && entry->facts[FACT_IDENTITY] == v->identity);
	if (entry)
		entry->facts[FACT_IDENTITY] = v->identity;
	return 1;
}

/* Pushes the frame. Returns UNWIND_CONTINUE or BH_REASON_TOO_DEEP. */
static __always_inline int v8_push(struct unwind_state *s)
{
	const struct v8_state *v = v8_state(s);
	const int top = s->registers_known != 0;
	uint64_t payload = v->shared;
	uint64_t words[2] = {frame_word(v->identity, V8_FRAME_INTERPRETED, v->position),
			     v->bytecodes};

	if (s->runtime.data == V8_RANGE_CODE) {
		payload = s->pc;
		words[0] =
		    frame_word(v->identity, top ? V8_FRAME_COMPILED_TOP : V8_FRAME_COMPILED, 0);
		words[1] = v->shared;
	}
	const int end = push_managed(s, BH_RUNTIME_V8, payload, 2, words);
	return end ? end : UNWIND_CONTINUE;
}

/* Pushes a frame that has a type instead of a function, if its code is not a builtin. */
static __always_inline int v8_push_marked(struct unwind_state *s)
{
	const uint64_t words[1] = {frame_word(0, V8_FRAME_MARKED, v8_state(s)->marker)};

	if (s->runtime.data != V8_RANGE_CODE)
		return UNWIND_CONTINUE;
	const int end = push_managed(s, BH_RUNTIME_V8, s->pc, 1, words);
	return end ? end : UNWIND_CONTINUE;
}

/* Finds the frame at s->pc. Returns 0 if there is none. */
static __always_inline int v8_find_frame(struct unwind_state *s, UNWIND_ENV env,
					 const struct v8_block *b)
{
	(void)b;
	if (!s->registers_known)
		return v8_read_frame(s, env, s->fp);
	if (s->runtime.data == V8_RANGE_CODE)
		return RUNTIME_CALL(v8, top_code, s, env, b);
	if (s->runtime.data == V8_RANGE_ENTRY)
		return RUNTIME_CALL(v8, top_entry, s, env, b);
	return v8_top_handler(s, env);
}

/* Walks one frame. Returns UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int v8_step(struct unwind_state *s, UNWIND_ENV env, const struct v8_block *b)
{
	const struct v8_state *v = v8_state(s);
	int end;

	if (!v8_find_frame(s, env, b) || (!v->marker && !v8_identify(s, env, b))) {
		s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	end = v->marker ? v8_push_marked(s) : v8_push(s);
	if (end != UNWIND_CONTINUE)
		return end;
	if (v->sp < s->sp || (v->sp == s->sp && !s->registers_known))
		return BH_REASON_BAD_CFA;
	s->pc = v->pc;
	s->sp = v->sp;
	s->fp = v->fp;
	s->registers_known = 0;
	s->bx_known = 0;
	return s->pc ? UNWIND_CONTINUE : BH_REASON_COMPLETE;
}

RUNTIME_PART(v8, step)

static __always_inline int v8_walk(struct unwind_state *s, UNWIND_ENV env, const struct v8_block *b)
{
	(void)b;
	(void)env;
	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_PER_CALL; i++) {
		const int end = RUNTIME_CALL(v8, step, s, env, b);

		/* The next frame is mostly in the same range. */
		if (end != UNWIND_CONTINUE || s->runtime.verdict != WALKER_MOVED ||
		    s->pc - 1 - s->runtime.range_start >=
			s->runtime.range_end - s->runtime.range_start)
			return end;
	}
	return UNWIND_CONTINUE;
}

RUNTIME_WALKER(v8, BH_RUNTIME_V8)

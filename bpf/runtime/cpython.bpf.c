/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Python's frames stand for the C frame of _PyEval_EvalFrameDefault that runs them. Which they are
 * is known from marks that lie in that very C frame (3.11 on), so that an evaluator that has just
 * begun or is about to return does not get its caller's; before 3.11 it is one each, and
 * the places in the code where it is none are known.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/cpython.h"

enum {
	FRAMES_A_CALL = 8,
	OLD_FRAMES_A_CALL = 4,
	CFRAMES_A_CALL = 3,	/* one, and some whose evaluators the walk did not see */
	STATES_MAX = 48,	/* that are looked at for another of a thread */
	FRAME_BYTES_MAX = 128,	/* that are looked at */
	STATE_BYTES_MAX = 4096, /* of a PyThreadState */
	OLD_FRAME_FIRST = 24,
	OLD_FRAME_WORDS = 13,
	JIT_WORDS = 96,		/* of stack, between the JIT compiler's code and the evaluator */
	EVALUATOR_BYTES = 4096, /* a C frame is not larger */
	JIT_MISSED_MAX = 8,
	JIT_SAVED_RBP = 7 * 8, /* five registers and a return address above it */
};

/* What is remembered from one evaluator to the next, in unwind_runtime.memory. */
enum {
	NEXT,	/* the frame that is next; 0: the chain's end */
	ENDED,	/* the thread has no other chain */
	BEGUN,	/* NEXT before the evaluator in question */
	CFRAME, /* 3.11, 3.12: the _PyCFrame that is next */
	FIRST_STATE,
	STATES, /* how many were begun */
	STATE,	/* the one whose chain it is */
};

static __always_inline uint64_t cpython_read(UNWIND_ENV env, uint64_t address)
{
	uint64_t value = 0;

	return env_read(env, &value, sizeof(value), address) ? 0 : value;
}

/* The `state` and its topmost frame, if it is the thread's; else 0. */
static __always_inline uint64_t cpython_check_state(struct unwind_state *s, UNWIND_ENV env,
						    const struct cpython_block *b, uint64_t thread,
						    uint64_t state)
{
	uint64_t *memory = s->runtime.memory[BH_RUNTIME_CPYTHON];
	const uint64_t *words = s->runtime.heap;

	s->runtime.heap_bytes = 0;
	if (!state || env_read(env, s->runtime.heap, CPYTHON_STATE_WORDS * 8, state) ||
	    words[bits_mask(b->thread_id >> 3, 31)] != thread)
		return 0;
	memory[NEXT] = words[bits_mask(b->top >> 3, 31)];
	return state;
}

/* The state that the thread runs in, and its topmost frame into NEXT; 0 if it has none. */
static __always_inline uint64_t cpython_thread(struct unwind_state *s, UNWIND_ENV env,
					       const struct cpython_block *b)
{
	const uint64_t thread = env_thread_pointer(env);
	uint64_t state = 0;

	if (b->holder) {
		state = cpython_read(env, b->holder);
		if (cpython_check_state(s, env, b, thread, state))
			return state;
	}
	state = cpython_read(env, thread + b->tls_first);
	if (b->tls_indirect && state)
		state = cpython_read(env, state + b->tls_second);
	return cpython_check_state(s, env, b, thread, state);
}

/* Of the thread's states but the first, that of the number argument[0], into argument[1]; 0 if it
 * has no more. */
static __always_inline int cpython_other_state(struct unwind_state *s, UNWIND_ENV env,
					       const struct cpython_block *b)
{
	const uint64_t first = s->runtime.memory[BH_RUNTIME_CPYTHON][FIRST_STATE];
	const uint64_t thread = env_thread_pointer(env);
	uint64_t interpreter = cpython_read(env, b->interpreters), state = 0;
	uint64_t wanted = s->runtime.argument[0];

	s->runtime.argument[1] = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < STATES_MAX && interpreter; i++) {
		/* One read an iteration, of what comes next, whichever that is. */
		const uint64_t next =
		    state ? state + b->thread_next : interpreter + b->interpreter_threads;

		state = cpython_read(env, next);
		if (!state)
			interpreter = cpython_read(env, interpreter + b->interpreter_next);
		else if (state != first && cpython_read(env, state + b->thread_id) == thread &&
			 !wanted--) {
			s->runtime.argument[1] = state;
			break;
		}
	}
	return 0;
}

RUNTIME_PART(cpython, other_state)

/* The innermost chain of frames, or when that is at its end, that of the interpreter from which
 * this one was called. */
static __always_inline void cpython_begin(struct unwind_state *s, UNWIND_ENV env,
					  const struct cpython_block *b)
{
	uint64_t *memory = s->runtime.memory[BH_RUNTIME_CPYTHON];
	uint64_t state;

	memory[NEXT] = 0;
	if (!memory[STATES]) {
		state = cpython_thread(s, env, b);
		memory[FIRST_STATE] = state;
	} else {
		s->runtime.argument[0] = memory[STATES] - 1;
		RUNTIME_CALL(cpython, other_state, s, env, b);
		state = s->runtime.argument[1];
		if (state)
			memory[NEXT] = cpython_read(env, state + b->top);
	}
	memory[STATES]++;
	memory[STATE] = state;
	memory[ENDED] = !state;
	memory[CFRAME] = memory[NEXT];
}

static __always_inline uint32_t cpython_half(const uint64_t *words, uint64_t at)
{
	return (uint32_t)(words[bits_mask(at >> 3, 15)] >> (at & 4) * 8);
}

/* What tells the code object at `code` from another that comes to lie there, into
 * scratch_identity. 0 if it cannot be read. */
static __always_inline int cpython_read_identity(struct unwind_state *s, UNWIND_ENV env,
						 const struct cpython_block *b, uint64_t code)
{
	struct unwind_runtime *r = &s->runtime;
	uint64_t *words = r->scratch;

	if (b->version) {
		/* One word, where there is a number that no other has. */
		if (env_read(env, words, 8, code + CPYTHON_CODE_FIRST + (b->version & ~7u)))
			return 0;
		r->scratch_identity = cpython_half(words, b->version & 4);
		if (r->scratch_identity)
			return 1;
	}
	if (env_read(env, words, CPYTHON_CODE_WORDS * 8, code + CPYTHON_CODE_FIRST))
		return 0;
	const uint64_t hash = cpython_read(env, words[bits_mask(b->name, 15)] + b->string_hash);
	r->scratch_identity = cpython_identity(
	    words[bits_mask(b->file, 15)], words[bits_mask(b->name, 15)],
	    words[bits_mask(b->qualified_name, 15)], words[bits_mask(b->lines, 15)],
	    cpython_half(words, b->first_line), hash);
	return 1;
}

/* The same of the code object argument[0], and it is known from now on. */
static __always_inline int cpython_identify(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b)
{
	const uint64_t code = s->runtime.argument[0];

	if (!cpython_read_identity(s, env, b, code))
		return 0;
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *known = method_cache_find(s, cache, code);

	if (known)
		method_cache_revalidate(s, known, known->facts[0] == s->runtime.scratch_identity);
	else
		known = method_cache_insert(s, cache, code);
	if (known)
		known->facts[0] = s->runtime.scratch_identity;
	return 1;
}

RUNTIME_PART(cpython, identify)

/* What is behind the first word of a frame of the code object `code`, at `position`, a number or an
 * address, into *word. 0, or how the stack ends. */
static __always_inline int cpython_describe(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b,
					    struct method_cache *cache, uint64_t code,
					    uint64_t position, uint64_t *word)
{
	struct unwind_runtime *r = &s->runtime;

	/* Recursion: the same as of the frame before. */
	if (r->scratch_address != code) {
		const struct method_cache_entry *known = method_cache_find(s, cache, code);

		if (known && method_cache_is_trusted(s, known)) {
			r->scratch_identity = known->facts[0];
		} else {
			r->scratch_address = 0;
			r->argument[0] = code;
			if (!code || !RUNTIME_CALL(cpython, identify, s, env, b))
				return BH_REASON_RUNTIME;
		}
		r->scratch_address = code;
	}
	if (b->instructions)
		position -= code + b->instructions;
	*word = cpython_word(r->scratch_identity, (int32_t)position);
	return 0;
}

/*
 * 3.6 - 3.10: one Python frame for the evaluator at s->pc, and ahead, its callers for the
 * evaluators further out. If one of those cannot be read, the call for its evaluator says so.
 */
static __always_inline int cpython_walk_each(struct unwind_state *s, UNWIND_ENV env,
					     const struct cpython_block *b, int innermost)
{
	struct method_cache *cache = env_method_cache(env);
	uint64_t *next = &s->runtime.memory[BH_RUNTIME_CPYTHON][NEXT];
	uint64_t *words = s->runtime.heap;

	s->runtime.verdict = WALKER_REPLACED;
	if (innermost) {
		const uint64_t at = s->pc - b->evaluator;

		if (at < b->before)
			return UNWIND_CONTINUE;
		for (int i = 0; i < CPYTHON_AFTERS; i++) {
			if (at - b->after[i] < b->after_end[i] - b->after[i])
				return UNWIND_CONTINUE;
		}
	}
	s->runtime.heap_bytes = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < OLD_FRAMES_A_CALL && *next; i++) {
		uint64_t word = 0;
		int end = BH_REASON_RUNTIME;

		if (env_read(env, words, OLD_FRAME_WORDS * 8, *next + OLD_FRAME_FIRST))
			return i ? UNWIND_CONTINUE : end;
		const uint64_t code = words[bits_mask((b->code - OLD_FRAME_FIRST) >> 3, 15)];
		const uint32_t position = cpython_half(words, b->position - OLD_FRAME_FIRST);

		end = cpython_describe(s, env, b, cache, code, position, &word);
		if (!end && !i)
			end = push_managed(s, BH_RUNTIME_CPYTHON, code, 1, &word);
		if (end)
			return i ? UNWIND_CONTINUE : end;
		*next = words[bits_mask((b->previous - OLD_FRAME_FIRST) >> 3, 15)];
		if (i)
			pending_push(s, code, word);
		else if (!pending_begin(s))
			break;
	}
	return UNWIND_CONTINUE;
}

/*
 * 3.11 on, called once the evaluator's C frame is behind: it was from frame_start to frame_end. The
 * frames from memory[NEXT] on, up to the last one that this evaluator runs.
 */
static __always_inline int cpython_walk_segment(struct unwind_state *s, UNWIND_ENV env,
						const struct cpython_block *b)
{
	struct unwind_runtime *r = &s->runtime;
	struct method_cache *cache = env_method_cache(env);
	uint64_t *next = &r->memory[BH_RUNTIME_CPYTHON][NEXT];
	uint64_t frame = *next;

	if (!cache)
		return BH_REASON_BAD_TABLE;
	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_A_CALL; i++) {
		if (!frame)
			return r->result;
		if (managed_copy_heap(s, env, frame, b->frame_bytes, FRAME_BYTES_MAX) !=
		    UNWIND_CONTINUE)
			return BH_REASON_RUNTIME;
		const uint64_t mark = managed_heap_word(s, frame + b->mark_word);
		const uint32_t owner = (uint32_t)(mark >> (b->mark_shift & 63)) & 0xff;
		const uint64_t previous = managed_heap_word(s, frame + b->previous);

		if (b->shim_owner && owner >= b->shim_owner) {
			*next = previous;
			if (b->shape == CPYTHON_CFRAME || frame >= r->frame_start)
				goto last;
			/* Of an evaluator that the native walk did not see: what follows is ours.
			 */
			frame = previous;
			continue;
		}
		const uint64_t code = managed_heap_word(s, frame + b->code) & b->code_mask;
		uint64_t word = 0;
		int end = cpython_describe(s, env, b, cache, code,
					   managed_heap_word(s, frame + b->position), &word);
		if (!end)
			end = push_managed(s, BH_RUNTIME_CPYTHON, code, 1, &word);
		if (end)
			return end;
		*next = frame = previous;
		if (!b->shim_owner && owner)
			goto last;
	}
	r->verdict = WALKER_CALL_AGAIN;
	return UNWIND_CONTINUE;

last:
	/* The shim is in another's C frame, further out: this evaluator has no frames (yet, or any
	 * more), and those are the other's. */
	if (b->shape == CPYTHON_SHIM && frame >= r->frame_end) {
		push_rewind(s, &r->mark);
		*next = r->memory[BH_RUNTIME_CPYTHON][BEGUN];
	}
	return r->result;
}

/* 3.11, 3.12: the next _PyCFrame, if it is in the C frame. */
static __always_inline int cpython_enter_cframe(struct unwind_state *s, UNWIND_ENV env,
						const struct cpython_block *b)
{
	uint64_t *memory = s->runtime.memory[BH_RUNTIME_CPYTHON];

	UNWIND_NO_UNROLL
	for (int i = 0; i < CFRAMES_A_CALL; i++) {
		const uint64_t cframe = memory[CFRAME];

		if (!cframe || cframe >= s->runtime.frame_end)
			return 0;
		/* On the C stack, where the walk is. */
		if (stack_read_word(s, env, cframe, cframe + b->cframe_frame, &memory[NEXT]) !=
			UNWIND_CONTINUE ||
		    stack_read_word(s, env, cframe, cframe + b->cframe_previous, &memory[CFRAME]) !=
			UNWIND_CONTINUE)
			return 0;
		/* The outermost one is in the thread's state, and stands for no evaluator. */
		if (memory[CFRAME] - memory[STATE] < STATE_BYTES_MAX)
			memory[CFRAME] = 0;
		if (cframe >= s->runtime.frame_start)
			return 1;
	}
	return 0;
}

/* Does a call through a pointer lie right before `pc`? */
static __always_inline int cpython_behind_pointer_call(UNWIND_ENV env, uint64_t pc)
{
	const uint64_t code = cpython_read(env, pc - 8);

	return (code >> 48 & 0xf8ff) == 0xd0ff || (code >> 40 & 0xf8ff) == 0x50ff ||
	       (code >> 16 & 0xf8ff) == 0x90ff;
}

/* May `fp` be rbp in the evaluator, whose C frame begins at `start`? */
static __always_inline int cpython_is_frame_pointer(UNWIND_ENV env, uint64_t fp, uint64_t start)
{
	if (fp - start >= EVALUATOR_BYTES || (fp & 7))
		return 0;
	const uint64_t pc = cpython_read(env, fp + 8);
	return pc && ((cpython_read(env, pc - 8) >> 24 & 0xff) == 0xe8 ||
		      cpython_behind_pointer_call(env, pc));
}

/* Is the word of the stack at argument[0] a return address into the evaluator? argument[1] then,
 * else that is 0. */
static __always_inline int cpython_jit_word(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b)
{
	struct unwind_runtime *r = &s->runtime;
	uint64_t word = 0;
	const int end = stack_read_word(s, env, s->sp, r->argument[0], &word);

	(void)b;
	r->argument[1] = 0;
	if (end != UNWIND_CONTINUE || !managed_in_code_filter(s, word - 1))
		return end;
	if (cpython_behind_pointer_call(env, word))
		r->argument[1] = word;
	else if (!--r->scratch[0])
		return BH_REASON_RUNTIME; /* registers may have held one or two */
	return UNWIND_CONTINUE;
}

RUNTIME_PART(cpython, jit_word)

/*
 * Code of the JIT compiler has no unwind tables and no frame of a known size, but the evaluator
 * calls it, so the first return address into that is the one to go on from. What is called is
 * always the same few instructions that save registers and call what was compiled
 * (Tools/jit/shim.c, trampoline.c); that may begin with saving rbp.
 */
static __always_inline int cpython_jit_frame(struct unwind_state *s, UNWIND_ENV env,
					     const struct cpython_block *b)
{
	struct unwind_runtime *r = &s->runtime;
	const uint64_t sp = s->sp;
	uint64_t word = 0;

	r->scratch[0] = JIT_MISSED_MAX;
	UNWIND_NO_UNROLL
	for (int i = 0; i < JIT_WORDS; i++) {
		r->argument[0] = sp + (uint64_t)i * 8;
		const int end = RUNTIME_CALL(cpython, jit_word, s, env, b);

		if (end != UNWIND_CONTINUE)
			return end;
		if (r->argument[1])
			break;
	}
	if (!r->argument[1]) {
		r->verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	const uint64_t saved_fp = r->argument[0] - JIT_SAVED_RBP;
	s->pc = r->argument[1];
	s->sp = r->argument[0] + 8;
	s->registers_known = 0;
	if (!cpython_is_frame_pointer(env, s->fp, s->sp) && saved_fp >= sp &&
	    stack_read_word(s, env, sp, saved_fp, &word) == UNWIND_CONTINUE &&
	    cpython_is_frame_pointer(env, word, s->sp))
		s->fp = word;
	return UNWIND_CONTINUE;
}

RUNTIME_PART(cpython, jit_frame)

static __always_inline int cpython_walk(struct unwind_state *s, UNWIND_ENV env,
					const struct cpython_block *b)
{
	uint64_t *memory = s->runtime.memory[BH_RUNTIME_CPYTHON];
	const int head = b->shape == CPYTHON_CFRAME ? CFRAME : NEXT;
	const int innermost = !memory[STATES];

	if (s->runtime.data == CPYTHON_RANGE_JIT)
		return RUNTIME_CALL(cpython, jit_frame, s, env, b);
	if (innermost)
		s->runtime.scratch_address = 0;
	if (!s->runtime.resume && !memory[ENDED] &&
	    (innermost || (b->interpreters && !memory[head])))
		cpython_begin(s, env, b);
	if (!s->runtime.resume && (memory[ENDED] || !memory[head])) {
		s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	if (b->shape == CPYTHON_ONE_EACH)
		return cpython_walk_each(s, env, b, innermost);
	if (!s->runtime.resume) {
		s->runtime.verdict = WALKER_RESUME_IN_CALLER;
		return UNWIND_CONTINUE;
	}
	if (s->runtime.resume == WALKER_IN_CALLER) {
		s->runtime.resume = WALKER_IN_CALLER_AGAIN;
		memory[BEGUN] = memory[NEXT];
		if (b->shape == CPYTHON_CFRAME && !cpython_enter_cframe(s, env, b))
			return s->runtime.result;
	}
	return cpython_walk_segment(s, env, b);
}

RUNTIME_WALKER(cpython)

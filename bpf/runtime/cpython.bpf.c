/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of CPython.
 *
 * How this works. CPython executes Python functions in a C function, _PyEval_EvalFrameDefault (the
 * evaluator). Python frames form a chain in memory, which starts at the thread's PyThreadState. The
 * Python frames that one C frame of the evaluator executes replace that C frame on the stack. The
 * question is always which frames of the chain these are:
 *
 * - Up to 3.10 it is one Python frame for each C frame. The exceptions are a few instructions at
 *   the start and the end of the evaluator, at which its frame is not in the chain. The symbolizer
 *   has found where they are, and for an evaluator interrupted there no frame is taken.
 * - From 3.11 one C frame executes a whole segment of the chain: Python calls no longer go through
 *   C. In 3.11 and 3.12 a _PyCFrame lies in the C frame itself and leads to the topmost Python
 *   frame of the segment. From 3.13 a frame without code (shim) lies in the C frame and ends the
 *   segment. The walker therefore first lets the C frame be unwound (RESUME_IN_CALLER) to learn its
 *   bounds. A _PyCFrame or shim outside these bounds belongs to another evaluator. So an evaluator
 *   that has just started, or is about to return, does not get the frames of its caller.
 *
 * Example, 3.11: the native stack is eval A, call, eval B, main. The chain of frames is leaf,
 * helper, run, top. The _PyCFrame in the C frame of A leads to leaf. helper is marked is_entry, so
 * it is the last frame of the segment. The next _PyCFrame lies in the C frame of B and leads to
 * run, and top is marked. The stack becomes: leaf, helper, call, run, top, main.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/cpython.h"

enum {
	/* Frames for one call of the walker. A call has a constant bound for the verifier. For more
	 * frames it is called again. */
	FRAMES_PER_CALL = 8,
	OLD_FRAMES_PER_CALL = 4,
	CFRAMES_PER_CALL = 3, /* one, and some whose evaluators were not on the native stack */
	/* Thread states and interpreters that are read to find another state of the thread. */
	STATES_MAX = 48,
	FRAME_BYTES_MAX = 128,	/* of a frame are read; at least cpython_block.frame_bytes */
	STATE_BYTES_MAX = 4096, /* what is this near to its start is a part of a PyThreadState */
	/* Of a PyFrameObject (3.6 to 3.10) these words are read, from this offset on. They contain
	 * f_back, f_code and f_lasti in each of the versions. */
	OLD_FRAME_FIRST = 24,
	OLD_FRAME_WORDS = 13,
	/* Words of stack, from the code of the JIT compiler on, in which the return address into
	 * the evaluator is searched. */
	JIT_WORDS = 96,
	EVALUATOR_BYTES = 4096, /* a C frame of the evaluator is not larger */
	/* Words that look like a return address into the evaluator and follow no call through a
	 * pointer: saved registers may hold one or two such addresses. */
	JIT_MISSED_MAX = 8,
	/* Compiled code may push rbp. Above that word are the return address into the shim, and the
	 * five registers that the shim has pushed. */
	JIT_SAVED_RBP = 7 * 8,
};

/* What the walker keeps from one evaluator to the next (RUNTIME_STATE). */
struct cpython_state {
	/* These are zero at the start of a stack. */
	uint64_t next;		/* the next frame of the chain; 0: the chain has ended */
	uint64_t ended;		/* the thread has no further chain */
	uint64_t segment_start; /* `next` before the present evaluator */
	uint64_t cframe;	/* 3.11, 3.12: the next _PyCFrame */
	uint64_t first_state;	/* the PyThreadState with which the stack started */
	uint64_t states;	/* thread states that were used so far */
	uint64_t state;		/* the one whose chain is walked */
	uint64_t reserved;
	/* These are not. */
	uint64_t identified_code; /* the code object that `identity` belongs to; 0: none */
	uint64_t identity;
	/* Arguments and results of the parts. */
	uint64_t wanted_state, found_state; /* other_state */
	uint64_t code;			    /* identify */
	uint64_t stack_address;		    /* jit_word */
	uint64_t return_address;	    /* jit_word */
	uint64_t misses_left;		    /* jit_word */
	uint64_t code_words[16];	    /* a part of a code object; a power of two */
};

RUNTIME_STATE(cpython, BH_RUNTIME_CPYTHON)

/* Returns `state` and sets `next` to its topmost frame, if it is a state of this thread. Otherwise
 * returns 0. */
static __always_inline uint64_t cpython_check_state(struct unwind_state *s, UNWIND_ENV env,
						    const struct cpython_block *b, uint64_t thread,
						    uint64_t state)
{
	const uint64_t *words = s->runtime.heap;

	s->runtime.heap_bytes = 0;
	if (!state || env_read(env, s->runtime.heap, CPYTHON_STATE_WORDS * 8, state) ||
	    words[bits_mask(b->thread_id >> 3, 31)] != thread)
		return 0;
	cpython_state(s)->next = words[bits_mask(b->top >> 3, 31)];
	return state;
}

/* Returns the PyThreadState in which the thread runs, and sets `next` to its topmost frame. Returns
 * 0 if there is none. */
static __always_inline uint64_t cpython_thread(struct unwind_state *s, UNWIND_ENV env,
					       const struct cpython_block *b)
{
	const uint64_t thread = env_thread_pointer(env);

	if (b->holder) {
		const uint64_t state = walker_read(env, b->holder);

		if (cpython_check_state(s, env, b, thread, state))
			return state;
	}
	return cpython_check_state(s, env, b, thread, walker_read_key(env, &b->key));
}

/* Sets found_state to another state of the thread than the first one: that with the index
 * wanted_state among them, or 0 if there are not as many. */
static __always_inline int cpython_other_state(struct unwind_state *s, UNWIND_ENV env,
					       const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);
	const uint64_t first = c->first_state;
	const uint64_t thread = env_thread_pointer(env);
	uint64_t interpreter = walker_read(env, b->interpreters), state = 0;
	uint64_t wanted = c->wanted_state;

	c->found_state = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < STATES_MAX && interpreter; i++) {
		/* Each iteration reads the next state, or the first one of the next interpreter. */
		const uint64_t next =
		    state ? state + b->thread_next : interpreter + b->interpreter_threads;

		state = walker_read(env, next);
		if (!state)
			interpreter = walker_read(env, interpreter + b->interpreter_next);
		else if (state != first && walker_read(env, state + b->thread_id) == thread &&
			 !wanted--) {
			c->found_state = state;
			break;
		}
	}
	return 0;
}

RUNTIME_PART(cpython, other_state)

/* Starts the innermost chain of frames. When a chain has ended, starts that of the interpreter from
 * which the last one was called. */
static __always_inline void cpython_start_chain(struct unwind_state *s, UNWIND_ENV env,
						const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);
	uint64_t state;

	c->next = 0;
	if (!c->states) {
		state = cpython_thread(s, env, b);
		c->first_state = state;
	} else {
		c->wanted_state = c->states - 1;
		RUNTIME_CALL(cpython, other_state, s, env, b);
		state = c->found_state;
		if (state)
			c->next = walker_read(env, state + b->top);
	}
	c->states++;
	c->state = state;
	c->ended = !state;
	c->cframe = c->next;
}

/* Returns the 4 bytes at byte `at` of `words`. */
static __always_inline uint32_t cpython_half(const uint64_t *words, uint64_t at)
{
	return (uint32_t)(words[bits_mask(at >> 3, 15)] >> (at & 4) * 8);
}

/* Sets `identity` to that of the code object at `code`: what distinguishes it from another one that
 * is later placed there. Returns 0 if it cannot be read. */
static __always_inline int cpython_read_identity(struct unwind_state *s, UNWIND_ENV env,
						 const struct cpython_block *b, uint64_t code)
{
	struct cpython_state *c = cpython_state(s);
	uint64_t *words = c->code_words;

	if (b->version) {
		/* A version number that no other code object has is enough: one word. */
		if (env_read(env, words, 8, code + CPYTHON_CODE_FIRST + (b->version & ~7u)))
			return 0;
		c->identity = cpython_half(words, b->version & 4);
		if (c->identity)
			return 1;
	}
	if (env_read(env, words, CPYTHON_CODE_WORDS * 8, code + CPYTHON_CODE_FIRST))
		return 0;
	const uint64_t hash = walker_read(env, words[bits_mask(b->name, 15)] + b->string_hash);
	c->identity = cpython_identity(words[bits_mask(b->file, 15)], words[bits_mask(b->name, 15)],
				       words[bits_mask(b->qualified_name, 15)],
				       words[bits_mask(b->lines, 15)],
				       cpython_half(words, b->first_line), hash);
	return 1;
}

/* Sets `identity` to that of the code object `code`, and records it in the method cache. Returns 0
 * if the code object cannot be read. */
static __always_inline int cpython_identify(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b)
{
	const uint64_t code = cpython_state(s)->code;

	if (!cpython_read_identity(s, env, b, code))
		return 0;
	const uint32_t identity = (uint32_t)cpython_state(s)->identity;
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry = method_cache_find(s, cache, code);

	entry = method_cache_record(s, cache, entry, code, entry && entry->facts[0] == identity);
	if (entry)
		entry->facts[0] = identity;
	return 1;
}

RUNTIME_PART(cpython, identify)

/* Sets *word to the second word of a frame of the code object `code`. `position` is a number or an
 * address. Returns 0, or the reason that ends the stack. */
static __always_inline int cpython_describe(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b,
					    struct method_cache *cache, uint64_t code,
					    uint64_t position, uint64_t *word)
{
	struct cpython_state *c = cpython_state(s);

	/* In a recursion it is the code object of the previous frame. */
	if (c->identified_code != code) {
		const struct method_cache_entry *entry = method_cache_find(s, cache, code);

		if (entry && method_cache_is_trusted(s, entry)) {
			c->identity = entry->facts[0];
		} else {
			c->identified_code = 0;
			c->code = code;
			if (!code || !RUNTIME_CALL(cpython, identify, s, env, b))
				return BH_REASON_RUNTIME;
		}
		c->identified_code = code;
	}
	if (b->instructions)
		position -= code + b->instructions;
	*word = cpython_word((uint32_t)c->identity, (int32_t)position);
	return 0;
}

/* 3.6 to 3.10: returns whether the evaluator was interrupted where its
 * frame is not in the chain. */
static __always_inline int cpython_has_no_frame(const struct unwind_state *s,
						const struct cpython_block *b)
{
	const uint64_t at = s->pc - b->evaluator;

	if (at < b->before)
		return 1;
	for (int i = 0; i < CPYTHON_AFTERS; i++) {
		if (at - b->after[i] < b->after_end[i] - b->after[i])
			return 1;
	}
	return 0;
}

/*
 * 3.6 to 3.10: pushes one Python frame for the evaluator at s->pc, and its callers as pending
 * frames for the evaluators further out. If one of these cannot be read, the call for its own
 * evaluator returns the reason.
 */
static __always_inline int cpython_walk_each(struct unwind_state *s, UNWIND_ENV env,
					     const struct cpython_block *b, int innermost)
{
	struct method_cache *cache = env_method_cache(env);
	uint64_t *next = &cpython_state(s)->next;
	uint64_t *words = s->runtime.heap;

	s->runtime.verdict = WALKER_REPLACED;
	if (innermost && cpython_has_no_frame(s, b))
		return UNWIND_CONTINUE;
	s->runtime.heap_bytes = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < OLD_FRAMES_PER_CALL && *next; i++) {
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
 * From 3.11, called after the C frame of the evaluator has been unwound. It was from frame_start to
 * frame_end. Pushes the frames from `next` on, up to the last one that this evaluator executes.
 */
static __always_inline int cpython_walk_segment(struct unwind_state *s, UNWIND_ENV env,
						const struct cpython_block *b)
{
	struct unwind_runtime *r = &s->runtime;
	struct method_cache *cache = env_method_cache(env);
	uint64_t *next = &cpython_state(s)->next;
	uint64_t frame = *next;

	if (!cache)
		return BH_REASON_BAD_TABLE;
	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_PER_CALL; i++) {
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
			/* A shim below this C frame belongs to an evaluator that is not on the
			 * native stack. The frames after it belong to this one. */
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
	/* The shim is in the C frame of another evaluator, further out. So this one has no frames
	 * yet, or none any more, and the frames that were pushed belong to the other one. */
	if (b->shape == CPYTHON_SHIM && frame >= r->frame_end) {
		push_rewind(s, &r->mark);
		*next = cpython_state(s)->segment_start;
	}
	return r->result;
}

/* 3.11, 3.12: sets `next` to the topmost frame of the next _PyCFrame and returns 1, if that lies in
 * the C frame. */
static __always_inline int cpython_enter_cframe(struct unwind_state *s, UNWIND_ENV env,
						const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);

	UNWIND_NO_UNROLL
	for (int i = 0; i < CFRAMES_PER_CALL; i++) {
		const uint64_t cframe = c->cframe;

		if (!cframe || cframe >= s->runtime.frame_end)
			return 0;
		/* It lies on the C stack, mostly in the window. */
		if (stack_read_word(s, env, cframe, cframe + b->cframe_frame, &c->next) !=
			UNWIND_CONTINUE ||
		    stack_read_word(s, env, cframe, cframe + b->cframe_previous, &c->cframe) !=
			UNWIND_CONTINUE)
			return 0;
		/* The outermost _PyCFrame is a part of the PyThreadState, and has no evaluator. */
		if (c->cframe - c->state < STATE_BYTES_MAX)
			c->cframe = 0;
		if (cframe >= s->runtime.frame_start)
			return 1;
	}
	return 0;
}

/* Returns whether the instruction before `pc` is a call through a pointer. Its encodings end 8
 * bytes or less before `pc`: ff d0+r (a register), ff 50+r d8 and ff 90+r d32 (memory). */
static __always_inline int cpython_after_pointer_call(UNWIND_ENV env, uint64_t pc)
{
	const uint64_t code = walker_read(env, pc - 8);

	return (code >> 48 & 0xf8ff) == 0xd0ff || (code >> 40 & 0xf8ff) == 0x50ff ||
	       (code >> 16 & 0xf8ff) == 0x90ff;
}

/* Returns whether `fp` may be rbp in the evaluator, whose C frame begins at `start`: the word above
 * it must follow a call (e8 rel32, or one through a pointer). */
static __always_inline int cpython_is_frame_pointer(UNWIND_ENV env, uint64_t fp, uint64_t start)
{
	if (fp - start >= EVALUATOR_BYTES || (fp & 7))
		return 0;
	const uint64_t pc = walker_read(env, fp + 8);
	return pc && ((walker_read(env, pc - 8) >> 24 & 0xff) == 0xe8 ||
		      cpython_after_pointer_call(env, pc));
}

/* Sets return_address to the word of the stack at stack_address if that is a return address into
 * the evaluator, and otherwise to 0. */
static __always_inline int cpython_jit_word(struct unwind_state *s, UNWIND_ENV env,
					    const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);
	uint64_t word = 0;
	const int end = stack_read_word(s, env, s->sp, c->stack_address, &word);

	(void)b;
	c->return_address = 0;
	if (end != UNWIND_CONTINUE || !managed_in_code_filter(s, word - 1))
		return end;
	if (cpython_after_pointer_call(env, word))
		c->return_address = word;
	else if (!--c->misses_left)
		return BH_REASON_RUNTIME;
	return UNWIND_CONTINUE;
}

RUNTIME_PART(cpython, jit_word)

/*
 * Moves from code of the JIT compiler to the evaluator that called it. That code has no unwind
 * rules and no frame of a known size. But the evaluator always calls the same few instructions,
 * which save registers and call the compiled code (Tools/jit/shim.c, trampoline.c). So the first
 * return address into the evaluator is the right one. The compiled code may begin by pushing rbp.
 */
static __always_inline int cpython_jit_frame(struct unwind_state *s, UNWIND_ENV env,
					     const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);
	const uint64_t sp = s->sp;
	uint64_t word = 0;

	c->misses_left = JIT_MISSED_MAX;
	UNWIND_NO_UNROLL
	for (int i = 0; i < JIT_WORDS; i++) {
		c->stack_address = sp + (uint64_t)i * 8;
		const int end = RUNTIME_CALL(cpython, jit_word, s, env, b);

		if (end != UNWIND_CONTINUE)
			return end;
		if (c->return_address)
			break;
	}
	if (!c->return_address) {
		s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	const uint64_t saved_fp = c->stack_address - JIT_SAVED_RBP;
	s->pc = c->return_address;
	s->sp = c->stack_address + 8;
	s->registers_known = 0;
	if (!cpython_is_frame_pointer(env, s->fp, s->sp) && saved_fp >= sp &&
	    stack_read_word(s, env, sp, saved_fp, &word) == UNWIND_CONTINUE &&
	    cpython_is_frame_pointer(env, word, s->sp))
		s->fp = word;
	return UNWIND_CONTINUE;
}

RUNTIME_PART(cpython, jit_frame)

/* Returns the head of what is left of the chain: the next _PyCFrame or the next frame, or 0. */
static __always_inline uint64_t cpython_head(const struct unwind_state *s,
					     const struct cpython_block *b)
{
	return b->shape == CPYTHON_CFRAME ? cpython_state(s)->cframe : cpython_state(s)->next;
}

static __always_inline int cpython_walk(struct unwind_state *s, UNWIND_ENV env,
					const struct cpython_block *b)
{
	struct cpython_state *c = cpython_state(s);
	const int innermost = !c->states;

	if (s->runtime.data == CPYTHON_RANGE_JIT)
		return RUNTIME_CALL(cpython, jit_frame, s, env, b);
	if (innermost)
		c->identified_code = 0;
	if (!s->runtime.resume && !c->ended &&
	    (innermost || (b->interpreters && !cpython_head(s, b))))
		cpython_start_chain(s, env, b);
	if (!s->runtime.resume && (c->ended || !cpython_head(s, b))) {
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
		c->segment_start = c->next;
		if (b->shape == CPYTHON_CFRAME && !cpython_enter_cframe(s, env, b))
			return s->runtime.result;
	}
	return cpython_walk_segment(s, env, b);
}

RUNTIME_WALKER(cpython, BH_RUNTIME_CPYTHON)

/* Copies a str: its length, hash and state, and its text. The state has the bytes per character
 * (PyASCIIObject.state.kind). */
static __always_inline void cpython_copy_text(UNWIND_ENV env, const struct cpython_block *b,
					      struct bh_memory_part *part, void *to, uint32_t room,
					      uint64_t address)
{
	uint64_t header[3], bytes = 0;

	if (!env_read(env, header, sizeof(header), address + CPYTHON_OBJECT_SIZE) &&
	    header[0] < room)
		bytes = b->string_text - CPYTHON_OBJECT_SIZE +
			header[0] * (header[2] >> CPYTHON_STR_KIND_SHIFT & CPYTHON_STR_KIND_MASK);
	walker_copy_part(env, part, to, room, address + CPYTHON_OBJECT_SIZE, bytes);
}

/* Copies what the name of the new code needs, for the frame in the struct bh_memory_copy at the
 * start of s->runtime.heap. Returns the size of all. */
static __always_inline int cpython_copy_code(struct unwind_state *s, UNWIND_ENV env,
					     const struct cpython_block *b)
{
	struct cpython_copy *copy = (void *)s->runtime.heap;
	const uint64_t code = copy->start.frame & BH_ADDRESS_MASK;
	const uint64_t *words = copy->code + CPYTHON_CODE_FIRST / 8;

	s->runtime.heap_bytes = 0;
	walker_copy_part(env, &copy->code_part, copy->code, sizeof(copy->code), code,
			 sizeof(copy->code));
	if (!copy->code_part.bytes)
		return 0;
	const uint64_t name = words[bits_mask(b->name, 15)];
	const uint64_t lines = words[bits_mask(b->lines, 15)];

	walker_copy_part(env, &copy->name_part, copy->name, sizeof(copy->name),
			 name + CPYTHON_OBJECT_SIZE, sizeof(copy->name));
	cpython_copy_text(env, b, &copy->qualified_name_part, copy->qualified_name,
			  sizeof(copy->qualified_name), words[bits_mask(b->qualified_name, 15)]);
	cpython_copy_text(env, b, &copy->file_part, copy->file, sizeof(copy->file),
			  words[bits_mask(b->file, 15)]);
	const uint64_t line_bytes = walker_read(env, lines + CPYTHON_OBJECT_SIZE);

	walker_copy_part(
	    env, &copy->lines_part, copy->lines, sizeof(copy->lines), lines + CPYTHON_OBJECT_SIZE,
	    line_bytes < sizeof(copy->lines) ? CPYTHON_BYTES_DATA - CPYTHON_OBJECT_SIZE + line_bytes
					     : 0);
	copy->lines_part.room = (copy->lines_part.bytes + 7) & ~7u;
	return sizeof(*copy) - sizeof(copy->lines) + copy->lines_part.room;
}

RUNTIME_PART(cpython, copy_code)

#define RUNTIME_COPY walker_cpython_copy_code

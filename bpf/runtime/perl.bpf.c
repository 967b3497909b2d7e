/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of Perl.
 *
 * How this works. Perl executes ops in a C function of some bytes, the run loop. A call of a Perl
 * sub by Perl code goes on in the same run loop. C code that calls a Perl sub starts another one.
 * Calls, evals, loops and blocks are contexts in an array. C code often begins a further array
 * (PERL_SI), which refers to the previous one. Perl itself shows calls and evals (`caller`), and so
 * does this walker; the statement that each of them executes is kept by the context that it began
 * next. Contexts and native frames meet where C code has called:
 *
 * - A call has the op that follows it. C code has none, so such a call is the last one of its run
 *   loop. If C code catches exceptions, the next context is its eval, which has no op either.
 * - A run loop does not share an array with those outside of it if C code has begun one.
 * - The last call in the block of a sort, or in a regular expression, has no such op either, but
 *   its context is followed by that of the block.
 * - The block of a sort has a context of its own, and a sub that is called many times by C code, as
 *   by List::Util::first, keeps its context between the calls (MULTICALL). Whether one of these
 *   runs is seen from PL_op: it is NULL between two calls, and `sort` before the first one.
 * - An eval within a call from C code starts a run loop, which then also executes what follows the
 *   eval, until the call has returned. So that loop gets the frames of the call, and the loop
 *   outside of it none. It is recognised by the place for exceptions (JMPENV), which lies on the C
 *   stack between the two loops, although C code has not caught exceptions.
 *
 * Example: the native stack is run loop A, call_sv, XS code, run loop B, main. The contexts are
 * leaf, helper (called from C), a loop, work. A gets leaf and helper. B gets work, and then the
 * program itself, because there are no further contexts.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/perl.h"
#include "bpf/runtime/perl_copy.h"
#include "bpf/runtime/perl_push.h"

enum {
	CONTEXTS_PER_CALL = 5, /* a call of the walker has a constant bound for the verifier */
	CONTEXT_BYTES_MAX = 128,
	JUMPS_MAX = 8, /* places for exceptions between two run loops: one or two */
	/* call_sv() keeps the op that calls in its C frame; PL_op leads there until the sub has
	 * been entered. That far away it is certainly not. */
	CALL_OP_BYTES_MAX = 1 << 16,
	INDEX_MAX = 1 << 24, /* contexts in one array; more are forged */
};

/* Whether the present run loop has further frames. */
enum perl_ending {
	NOT_ENDING,
	ENDING_WITH_EVAL, /* at most the eval of the C code that has called */
	ENDED,
};

/* Begins with an array of contexts. Returns the array of values (PL_curstack) that belongs to it,
 * or 0 if it cannot be read. */
static __always_inline uint64_t perl_enter(struct unwind_state *s, UNWIND_ENV env,
					   const struct perl_block *b, uint64_t stack)
{
	struct perl_state *p = perl_state(s);
	uint64_t words[PERL_STACK_WORDS];

	p->stack = 0;
	p->left = 0;
	p->taken = 0;
	if (!stack || env_read(env, words, sizeof(words), stack))
		return 0;
	const uint32_t index = (uint32_t)words[PERL_STACK_INDEX / 8] + 1;

	p->stack = stack;
	p->contexts = words[PERL_STACK_CONTEXTS / 8];
	p->previous = words[PERL_STACK_PREVIOUS / 8];
	p->type = words[PERL_STACK_WORDS - 1] >> (b->stack_type & 4) * 8 & 0xff;
	if (index < INDEX_MAX)
		p->left = index;
	return words[PERL_STACK_VALUES / 8];
}

/* Tries an interpreter, of which the values of PL_curstack and PL_curstackinfo must agree unless it
 * is the `current` one. Returns whether it is one. */
static __always_inline int perl_try(struct unwind_state *s, UNWIND_ENV env,
				    const struct perl_block *b, uint64_t interpreter)
{
	struct perl_state *p = perl_state(s);
	const uint64_t *words = s->runtime.heap;

	s->runtime.heap_bytes = 0;
	if (!interpreter || env_read(env, s->runtime.heap, PERL_INTERPRETER_WORDS * 8, interpreter))
		return 0;
	const uint64_t values =
	    perl_enter(s, env, b, words[bits_mask(b->stack >> 3, PERL_INTERPRETER_WORDS - 1)]);

	if (!p->stack || (values != words[bits_mask(b->values >> 3, PERL_INTERPRETER_WORDS - 1)] &&
			  walker_read(env, b->current) != interpreter))
		return 0;
	p->interpreter = interpreter;
	p->op = words[bits_mask(b->op >> 3, PERL_INTERPRETER_WORDS - 1)];
	p->cop = words[bits_mask(b->cop >> 3, PERL_INTERPRETER_WORDS - 1)];
	return 1;
}

/* Finds the interpreter of the thread, and its innermost array of contexts. */
static __always_inline int perl_start(struct unwind_state *s, UNWIND_ENV env,
				      const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);

	p->started = 1;
	if (b->key_count) {
		p->found =
		    perl_try(s, env, b, walker_read_key(env, &b->keys[0])) ||
		    (b->key_count > 1 && perl_try(s, env, b, walker_read_key(env, &b->keys[1])));
	} else if (b->current) {
		p->found = perl_try(s, env, b, walker_read(env, b->current));
	} else {
		p->interpreter = 0;
		p->op = walker_read(env, b->op);
		p->cop = walker_read(env, b->cop);
		perl_enter(s, env, b, walker_read(env, b->stack));
		p->found = p->stack != 0;
	}
	p->current_cop = p->cop;
	p->return_op = 0;
	return 0;
}

RUNTIME_PART(perl, start)

/* Whether the topmost context of the innermost array has no run loop at the moment, although it
 * belongs to C code that calls it many times. */
static __always_inline int perl_is_between_calls(const struct perl_state *p, UNWIND_ENV env,
						 const struct perl_block *b, uint32_t type)
{
	if ((p->type != PERL_STACK_SORT && p->type != PERL_STACK_MULTICALL) ||
	    ((type & PERL_CONTEXT_TYPE_MASK) != PERL_CONTEXT_NULL && !(type & PERL_CALL_MULTI)))
		return 0;
	return !p->op || (walker_read(env, p->op + PERL_OP_TYPE) & PERL_OP_TYPE_MASK) == b->op_sort;
}

/* Returns whether the last run loop continued what the one at s->pc had begun: between them is a
 * place for exceptions, although C code has not caught any. */
static __always_inline int perl_was_continued(struct unwind_state *s, UNWIND_ENV env,
					      const struct perl_block *b)
{
	const struct perl_state *p = perl_state(s);
	uint64_t jump = walker_read(env, p->interpreter + b->jump);

	UNWIND_NO_UNROLL
	for (int i = 0; i < JUMPS_MAX && jump && jump < p->loop_sp; i++)
		jump = walker_read(env, jump + PERL_JUMP_PREVIOUS);
	return jump >= p->loop_sp && jump < s->sp;
}

RUNTIME_PART(perl, was_continued)

/* Returns whether the context of a call is being written: the op that calls has stored the caller's
 * statement in it, but not itself. What else is in it belongs to an earlier call. */
static __always_inline int perl_is_being_entered(const struct perl_state *p, UNWIND_ENV env,
						 const struct perl_block *b, uint32_t kind)
{
	return kind == PERL_CONTEXT_SUB && p->old_cop == p->current_cop &&
	       (walker_read(env, p->op + PERL_OP_TYPE) & PERL_OP_TYPE_MASK) == b->op_entersub &&
	       walker_read(env, p->op) != p->next_op;
}

/* Takes one context, of which `type`, `old_cop` and `next_op` were read. Pushes its frame, and sets
 * `ending` if the run loop has no further frames. Returns 0, or the reason that ends the stack. */
static __always_inline int perl_take_one(struct unwind_state *s, UNWIND_ENV env,
					 const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	const uint32_t kind = p->context_type & PERL_CONTEXT_TYPE_MASK;
	const int is_innermost = p->started == 1;
	int end = 0;

	p->started = 2;
	if (is_innermost && perl_is_between_calls(p, env, b, p->context_type)) {
		p->cop = p->old_cop;
		p->left = 0;
		return 0;
	}
	/* In call_sv(): PL_op leads to its C frame, and PL_curcop is still that of the caller. */
	const int is_entered = !p->next_op && p->old_cop == p->current_cop;

	if (is_innermost && !is_entered && p->op - s->sp < CALL_OP_BYTES_MAX) {
		/* From 5.38 on, the run loop itself begins the call. */
		p->left++;
		p->ending = ENDED;
		p->caught = 1;
		return 0;
	}
	if (is_innermost && perl_is_being_entered(p, env, b, kind))
		return 0;
	if (kind == PERL_CONTEXT_SUB || kind == PERL_CONTEXT_FORMAT) {
		/* A sub that is left has no CV any more. */
		if (p->code &&
		    (kind == PERL_CONTEXT_FORMAT || !(p->context_type & PERL_CALL_REGEXP)))
			end = perl_push_sub(s, env, b);
		/* Up to 5.36, C code begins the call before it starts a run loop. */
		if (!p->next_op && !p->ending &&
		    !(is_innermost && is_entered && s->sp - p->op < CALL_OP_BYTES_MAX))
			p->ending = ENDING_WITH_EVAL;
	} else if (kind == PERL_CONTEXT_EVAL && !(p->context_type & PERL_EVAL_TRY)) {
		p->kind = p->context_type & (PERL_EVAL_STRING | PERL_EVAL_BLOCK)
			      ? PERL_FRAME_EVAL
			      : PERL_FRAME_REQUIRE;
		end = RUNTIME_CALL(perl, push_text, s, env, b);
	} else if (kind == PERL_CONTEXT_NULL && p->type == PERL_STACK_SORT) {
		p->kind = PERL_FRAME_SORT;
		end = RUNTIME_CALL(perl, push_text, s, env, b);
		p->ending = ENDED;
	} else {
		return 0;
	}
	p->cop = p->old_cop;
	p->return_op = kind == PERL_CONTEXT_NULL ? 0 : p->next_op;
	p->taken = 1;
	return end;
}

RUNTIME_PART(perl, take_one)

/* After a call without a following op: returns whether the context further out belongs to the same
 * run loop nevertheless. */
static __always_inline int perl_is_same_loop(struct perl_state *p)
{
	const uint32_t kind = p->context_type & PERL_CONTEXT_TYPE_MASK;

	p->ending = ENDED;
	/* The eval of the C code that has called. */
	p->caught = kind == PERL_CONTEXT_EVAL && !p->next_op;
	/* What the block of a sort, or code in a regular expression, calls last. */
	return p->caught || (kind == PERL_CONTEXT_NULL && p->type == PERL_STACK_SORT) ||
	       (kind == PERL_CONTEXT_SUB && (p->context_type & PERL_CALL_REGEXP));
}

/* Takes contexts for the run loop at s->pc, up to the last one that belongs to it. Returns
 * UNWIND_CONTINUE, or the reason that ends the stack. Sets goes_on if there may be more. */
static __always_inline int perl_take(struct unwind_state *s, UNWIND_ENV env,
				     const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);

	p->goes_on = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < CONTEXTS_PER_CALL; i++) {
		if (p->ending == ENDED || (!p->left && p->ending))
			return UNWIND_CONTINUE;
		if (!p->left && !p->previous) {
			p->stack = 0;
			p->kind = PERL_FRAME_MAIN;
			const int end = RUNTIME_CALL(perl, push_text, s, env, b);
			return end ? end : UNWIND_CONTINUE;
		}
		if (!p->left) {
			if (p->taken)
				return UNWIND_CONTINUE;
			perl_enter(s, env, b, p->previous);
			if (!p->stack)
				return BH_REASON_RUNTIME;
			continue;
		}
		const uint64_t context = p->contexts + (p->left - 1) * b->context_bytes;

		if (managed_copy_heap(s, env, context, b->context_bytes, CONTEXT_BYTES_MAX) !=
		    UNWIND_CONTINUE)
			return BH_REASON_RUNTIME;
		p->context_type = (uint32_t)managed_heap_word(s, context);
		p->old_cop = managed_heap_word(s, context + PERL_CONTEXT_OLD_COP);
		p->next_op = managed_heap_word(s, context + PERL_CONTEXT_RETURN);
		p->code = managed_heap_word(s, context + b->context_sub);
		if (p->ending && !perl_is_same_loop(p))
			return UNWIND_CONTINUE;
		p->left--;
		const int end = RUNTIME_CALL(perl, take_one, s, env, b);
		if (end)
			return end;
	}
	p->goes_on = 1;
	return UNWIND_CONTINUE;
}

static __always_inline int perl_walk(struct unwind_state *s, UNWIND_ENV env,
				     const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);

	s->runtime.verdict = WALKER_REPLACED;
	if (!p->started) {
		RUNTIME_CALL(perl, start, s, env, b);
		if (p->found && s->registers_known && !p->op) {
			/* The run loop has ended, and is about to return. */
			p->caught = 1;
			p->loop_sp = s->sp;
			return UNWIND_CONTINUE;
		}
	}
	if (!p->found) {
		s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	if (!p->goes_on) {
		const int is_continued =
		    p->loop_sp && !p->caught && RUNTIME_CALL(perl, was_continued, s, env, b);

		p->loop_sp = s->sp;
		if (is_continued)
			return UNWIND_CONTINUE;
		p->taken = 0;
		p->ending = 0;
		p->caught = 0;
	}
	if (!p->stack)
		return UNWIND_CONTINUE;
	const int end = perl_take(s, env, b);

	if (end == UNWIND_CONTINUE && p->goes_on)
		s->runtime.verdict = WALKER_CALL_AGAIN;
	return end;
}

RUNTIME_WALKER(perl, BH_RUNTIME_PERL)

/* Copies what the name of the new code needs, for the frame in the struct bh_memory_copy at the
 * start of s->runtime.heap. Returns the size of all. */
static __always_inline int perl_copy_code(struct unwind_state *s, UNWIND_ENV env,
					  const struct perl_block *b)
{
	struct perl_copy *copy = (void *)s->runtime.heap;
	const uint64_t address = copy->start.frame & BH_ADDRESS_MASK;
	const uint32_t kind = frame_word_kind(copy->start.word);
	const int has_sub = perl_frame_has_sub(kind);
	uint64_t name = copy->start.more[0], package = copy->start.more[1], file = address;

	s->runtime.heap_bytes = 0;
	walker_copy_part(env, &copy->cop_part, copy->cop, sizeof(copy->cop), address,
			 has_sub ? sizeof(copy->cop) : 0);
	perl_copy_glob(env, &copy->glob, kind == PERL_FRAME_SUB ? name : 0);
	if (kind == PERL_FRAME_SUB && copy->glob.body_part.bytes) {
		name = copy->glob.body[PERL_GLOB_NAME / 8];
		package = copy->glob.body[PERL_GLOB_STASH / 8];
	}
	walker_copy_text(env, &copy->name_part, copy->name, sizeof(copy->name), has_sub ? name : 0);
	perl_copy_package(env, b, copy, has_sub ? package : 0);
	if (has_sub)
		file = copy->cop_part.bytes ? copy->cop[PERL_COP_FILE / 8] : 0;
	perl_copy_glob(env, &copy->file_glob, has_sub && b->files_are_globs ? file : 0);
	if (copy->file_glob.body_part.bytes)
		file = copy->file_glob.body[PERL_GLOB_NAME / 8];
	walker_copy_text(env, &copy->file_part, copy->file, sizeof(copy->file), file);
	return sizeof(*copy);
}

RUNTIME_PART(perl, copy_code)

#define RUNTIME_COPY walker_perl_copy_code

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of PHP.
 *
 * How this works. PHP has a list of calls (zend_execute_data), the innermost first. A call of a PHP
 * function by PHP code goes on in the same C function, the interpreter's loop (execute_ex). C code
 * that calls a PHP function starts another loop, and that call is marked (ZEND_CALL_TOP). So the
 * frame of a loop is replaced by the calls up to the next marked one. Functions that are written
 * in C have calls, too, which come before that of their caller; their mark does not count. From 8.4
 * on some of them have none, but their caller's instruction tells which one it calls.
 *
 * Example: the native stack is loop A, zend_call_function, zif_array_map, loop B, main. The list
 * is leaf, callback (marked), array_map, work, the program (marked). A gets leaf and callback, B
 * gets array_map, work and the program.
 *
 * Compiled code (the JIT compiler of opcache) runs in the native frame of the loop, in place of its
 * code. So the walker continues as if the pc were in the loop.
 *
 * Regular expressions are compiled, too, by the library PCRE2. That code is called by C code, and
 * sljit.h unwinds it.
 *
 * When a call ends, the loop takes it off the list first, and then frees its variables, which may
 * take long. Registers tell that: r14 has the call that the innermost loop executes, and r15 the
 * instruction (zend_execute.c, ZEND_VM_FP_GLOBAL_REG). Compiled code does not keep that in r15.
 *
 * A fiber has a stack of its own. The call outside of its own calls is one of a function without a
 * name, and then the list goes on with those of who has resumed it. So does the walker, on the
 * stack of that one. The frames of C code at the start of the fiber are left out.
 *
 * A call without a function is no call of PHP: a copy of the caller's for C code that calls from
 * elsewhere than from a function (zend_call_function), or the placeholder of generators that
 * delegate to the one that runs (`yield from`). Their calls are not in the list.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/php.h"
#include "bpf/runtime/php_copy.h"
#include "bpf/runtime/php_push.h"
#include "bpf/runtime/sljit.h"

enum {
	CALLS_PER_WALK = 8,	/* a call of the walker has a constant bound for the verifier */
	OPLINES_NEAR = 1 << 16, /* in one function, between two instructions */
	REGISTER_CALL = 14,	/* of x86-64 */
	REGISTER_OPLINE = 15,
};

/* Reads a call of the list. Returns UNWIND_CONTINUE, or the reason that ends the stack. */
static __always_inline int php_read_call(struct unwind_state *s, UNWIND_ENV env, uint64_t call)
{
	struct php_state *p = php_state(s);
	const int end = managed_copy_heap(s, env, call, PHP_CALL_BYTES, 64);

	if (end != UNWIND_CONTINUE)
		return end;
	p->opline = managed_heap_word(s, call + PHP_CALL_OPLINE);
	p->function = managed_heap_word(s, call + PHP_CALL_FUNCTION);
	p->info = (uint32_t)managed_heap_word(s, call + PHP_CALL_INFO);
	p->previous = managed_heap_word(s, call + PHP_CALL_PREVIOUS);
	return UNWIND_CONTINUE;
}

/* If the call without a function at `call` is the placeholder of generators, remembers those that
 * delegate to the generator that runs. Each leads to the one that it delegates to. Returns 0 unless
 * there are too many. */
static __always_inline int php_find_generators(struct unwind_state *s, UNWIND_ENV env,
					       const struct php_block *b)
{
	struct php_state *p = php_state(s);
	uint64_t generator = managed_heap_word(s, p->call + PHP_CALL_THIS);

	if (generator + b->generator_placeholder != p->call)
		return 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < GENERATORS_MAX; i++) {
		const uint64_t parent = walker_read(env, generator + b->generator_parent);

		/* The last one is the generator that runs, which is in the list itself. */
		if (!parent)
			return 0;
		p->generator[bits_mask(p->generators, GENERATORS_MAX - 1)] = generator;
		p->generators++;
		generator = parent;
	}
	return 1;
}

RUNTIME_PART(php, find_generators)

/* If the next call is the start of the fiber, goes on where that was resumed, and returns 1. */
static __always_inline int php_leave_fiber(struct unwind_state *s, UNWIND_ENV env,
					   const struct php_block *b)
{
	struct php_state *p = php_state(s);
	uint64_t call[PHP_CALL_BYTES / 8], head[PHP_FUNCTION_BYTES / 8];
	uint64_t fiber[PHP_FIBER_WORDS];
	uint64_t *saved = s->runtime.heap;

	if (env_read(env, call, sizeof(call), p->call) ||
	    env_read(env, head, sizeof(head), call[PHP_CALL_FUNCTION / 8]) ||
	    (uint8_t)head[PHP_FUNCTION_TYPE / 8] != PHP_TYPE_INTERNAL ||
	    head[PHP_FUNCTION_NAME / 8] ||
	    env_read(env, fiber, sizeof(fiber), p->fiber + b->fiber_caller))
		return 0;
	const uint64_t at = walker_read(env, fiber[PHP_FIBER_CALLER] + PHP_CONTEXT_SAVED);

	s->runtime.heap_bytes = 0;
	if (env_read(env, saved, PHP_SAVED_WORDS * 8, at))
		return 0;
	UNWIND_NO_UNROLL
	for (int i = 1; i < PHP_SAVED_WORDS; i++) {
		if (saved[i] - b->switch_start >= b->switch_end - b->switch_start)
			continue;
		p->call = call[PHP_CALL_PREVIOUS / 8];
		p->fiber = fiber[PHP_FIBER_PREVIOUS];
		s->pc = saved[i];
		s->fp = saved[i - 1];
		s->sp = at + (i + 1) * 8;
		s->registers_known = 0;
		return 1;
	}
	return 0;
}

RUNTIME_PART(php, leave_fiber)

/* Returns what the thread has under the key, if its globals follow that, or 0. */
static __always_inline uint64_t php_try_key(UNWIND_ENV env, const struct thread_key *key)
{
	const uint64_t entry = walker_read_key(env, key);

	/* In the C libraries pthread_self() is the thread pointer. */
	return entry && walker_read(env, entry + PHP_THREAD_SELF) == env_thread_pointer(env) ? entry
											     : 0;
}

/* Sets p->globals. Returns 0 if the thread has no globals. */
static __always_inline int php_find_globals(struct unwind_state *s, UNWIND_ENV env,
					    const struct php_block *b)
{
	struct php_state *p = php_state(s);

	p->globals = 0;
	if (!b->key_count)
		return 1;
	p->globals = php_try_key(env, &b->keys[0]);
	if (!p->globals && b->key_count > 1)
		p->globals = php_try_key(env, &b->keys[1]);
	return p->globals != 0;
}

RUNTIME_PART(php, find_globals)

/* Returns whether the loop executes `call`, as r14 says, while the innermost call of the list is
 * the one that was read from it as its previous one. r14 may be anything in C code, for example the
 * address of what was left of an earlier call. The loop executes PHP functions, and only a marked
 * call of them comes from a function that is written in C. */
static __always_inline int php_is_executed(struct unwind_state *s, UNWIND_ENV env, uint64_t call)
{
	struct php_state *p = php_state(s);
	uint64_t fields[PHP_CALL_BYTES / 8];

	if (env_read(env, fields, sizeof(fields), call) || fields[PHP_CALL_PREVIOUS / 8] != p->call)
		return 0;
	const uint8_t type = walker_read(env, fields[PHP_CALL_FUNCTION / 8] + PHP_FUNCTION_TYPE);
	const uint64_t caller = walker_read(env, p->call + PHP_CALL_FUNCTION);

	if (type != PHP_TYPE_USER && type != PHP_TYPE_EVAL)
		return 0;
	return (fields[PHP_CALL_INFO / 8] & PHP_CALL_TOP) ||
	       (uint8_t)walker_read(env, caller + PHP_FUNCTION_TYPE) != PHP_TYPE_INTERNAL;
}

/* Finds the innermost call, and whether the loop at s->pc has one. Sets `opline` to its
 * instruction, or to 0 if only the call itself has that. */
static __always_inline int php_start(struct unwind_state *s, UNWIND_ENV env,
				     const struct php_block *b)
{
	struct php_state *p = php_state(s);
	const uint64_t of_loop = s->gpr[REGISTER_CALL], opline = s->gpr[REGISTER_OPLINE];

	p->started = 1;
	p->opline = 0;
	s->runtime.heap_bytes = 0;
	if (!RUNTIME_CALL(php, find_globals, s, env, b))
		return 0;
	p->call = walker_read(env, p->globals + b->current);
	if (b->active_fiber)
		p->fiber = walker_read(env, p->globals + b->active_fiber);
	if (s->registers_known && s->pc - b->leave_start < b->leave_end - b->leave_start)
		return 0;
	/* The loop takes a call off the list before it has ended, and adds it after its start. */
	if (of_loop != p->call && php_is_executed(s, env, of_loop))
		p->call = of_loop;
	if (of_loop == p->call && !p->compiled) {
		/* What the call itself has may be an earlier instruction. */
		const uint64_t earlier =
		    managed_copy_heap(s, env, p->call, PHP_CALL_BYTES, 64) == UNWIND_CONTINUE
			? managed_heap_word(s, p->call + PHP_CALL_OPLINE)
			: 0;
		const uint64_t bytes = opline - earlier + OPLINES_NEAR * PHP_OPLINE_BYTES / 2;

		if (bytes < OPLINES_NEAR * PHP_OPLINE_BYTES && !(bytes & (PHP_OPLINE_BYTES - 1)))
			p->opline = opline;
	}
	return p->call != 0;
}

RUNTIME_PART(php, start)

/* Pushes the frames of the loop at s->pc, up to the call that C code has made. Sets goes_on if
 * there may be more. `opline` is the present instruction of the first call, if it is known. */
static __always_inline int php_take(struct unwind_state *s, UNWIND_ENV env,
				    const struct php_block *b, uint64_t opline)
{
	struct php_state *p = php_state(s);
	struct method_cache *cache = env_method_cache(env);

	p->goes_on = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < CALLS_PER_WALK; i++) {
		uint64_t call = p->call;

		if (!call)
			return UNWIND_CONTINUE;
		const int is_generator = p->generators != 0;
		if (is_generator) {
			p->generators--;
			call = walker_read(
			    env, p->generator[bits_mask(p->generators, GENERATORS_MAX - 1)] +
				     b->generator_call);
		}
		if (php_read_call(s, env, call) != UNWIND_CONTINUE)
			return BH_REASON_RUNTIME;
		if (!is_generator) {
			if (!p->function && RUNTIME_CALL(php, find_generators, s, env, b))
				return BH_REASON_RUNTIME;
			p->call = p->previous;
		}
		if (!p->function)
			continue;
		if (opline)
			p->opline = opline;
		opline = 0;
		const int end =
		    php_recall(s, cache) ? php_push(s) : RUNTIME_CALL(php, push_learned, s, env, b);

		if (end)
			return end;
		if (!is_generator && (p->info & PHP_CALL_TOP) && p->kind != PHP_FRAME_INTERNAL)
			return UNWIND_CONTINUE;
	}
	p->goes_on = 1;
	return UNWIND_CONTINUE;
}

static __always_inline int php_next_block(struct unwind_state *s, UNWIND_ENV env,
					  const struct php_block *b)
{
	(void)b;
	return sljit_next_block(&php_state(s)->expression, env, s->pc - !s->registers_known,
				s->runtime.range_start);
}

RUNTIME_PART(php, next_block)

static __always_inline int php_next_instruction(struct unwind_state *s, UNWIND_ENV env,
						const struct php_block *b)
{
	(void)b;
	(void)env;
	return sljit_next_instruction(s, &php_state(s)->expression, s->pc);
}

RUNTIME_PART(php, next_instruction)

/* If s->pc is in a regular expression that PCRE2 has compiled, pushes its frame, and goes to that
 * of its caller. Returns 1 then. */
static __always_inline int php_leave_expression(struct unwind_state *s, UNWIND_ENV env,
						const struct php_block *b)
{
	struct sljit_frame *f = &php_state(s)->expression;
	int step = SLJIT_GOES_ON;

	sljit_begin(f, s->pc - !s->registers_known, s->runtime.range_start);
	UNWIND_NO_UNROLL
	for (int i = 0; i < SLJIT_HEADERS_MAX && step == SLJIT_GOES_ON; i++)
		step = RUNTIME_CALL(php, next_block, s, env, b);
	if (step != SLJIT_FOUND || !sljit_begin_entry(s, env, f))
		return 0;
	step = SLJIT_GOES_ON;
	UNWIND_NO_UNROLL
	for (int i = 0; i < SLJIT_ENTRY_INSTRUCTIONS && step == SLJIT_GOES_ON; i++)
		step = RUNTIME_CALL(php, next_instruction, s, env, b);
	return step == SLJIT_FOUND &&
	       sljit_unwind(s, env, f, s->runtime.range_start, s->runtime.range_end);
}

RUNTIME_PART(php, leave_expression)

static __always_inline int php_walk(struct unwind_state *s, UNWIND_ENV env,
				    const struct php_block *b)
{
	struct php_state *p = php_state(s);
	uint64_t opline = 0;

	if (s->runtime.data == PHP_RANGE_JIT) {
		p->compiled = 1;
		s->pc = b->loop_body;
		s->registers_known = 0;
		return UNWIND_CONTINUE;
	}
	if (s->runtime.data == PHP_RANGE_EXPRESSIONS) {
		if (!RUNTIME_CALL(php, leave_expression, s, env, b))
			s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	s->runtime.verdict = WALKER_REPLACED;
	if (!p->started) {
		if (!RUNTIME_CALL(php, start, s, env, b))
			return UNWIND_CONTINUE;
		opline = p->opline;
	}
	const int end = php_take(s, env, b, opline);

	if (end != UNWIND_CONTINUE)
		return end;
	if (p->goes_on)
		s->runtime.verdict = WALKER_CALL_AGAIN;
	else if (p->fiber && RUNTIME_CALL(php, leave_fiber, s, env, b))
		s->runtime.verdict = WALKER_MOVED;
	return UNWIND_CONTINUE;
}

RUNTIME_WALKER(php, BH_RUNTIME_PHP)

/* Copies what the name of the new code needs, for the frame in the struct bh_memory_copy at the
 * start of s->runtime.heap. Returns the size of all. */
static __always_inline int php_copy_code(struct unwind_state *s, UNWIND_ENV env,
					 const struct php_block *b)
{
	struct php_copy *copy = (void *)s->runtime.heap;
	const uint64_t function = copy->start.frame & BH_ADDRESS_MASK;
	const int has_file = php_frame_has_file(frame_word_kind(copy->start.word));

	s->runtime.heap_bytes = 0;
	walker_copy_part(env, &copy->head_part, copy->head, sizeof(copy->head), function,
			 sizeof(copy->head));
	walker_copy_part(env, &copy->file_part, copy->file, sizeof(copy->file), function + b->file,
			 has_file ? sizeof(copy->file) : 0);
	const uint64_t class = copy->head_part.bytes ? copy->head[PHP_FUNCTION_CLASS / 8] : 0;

	walker_copy_part(env, &copy->class_part, copy->class, sizeof(copy->class),
			 class + PHP_CLASS_NAME, class ? sizeof(copy->class) : 0);
	const uint64_t name = copy->head_part.bytes ? copy->head[PHP_FUNCTION_NAME / 8] : 0;

	walker_copy_text(env, &copy->name_part, copy->name, sizeof(copy->name), name);
	const uint64_t length = ((const uint64_t *)copy->name)[PHP_STRING_LENGTH / 8];

	walker_copy_part(env, &copy->name_end_part, copy->name_end, sizeof(copy->name_end),
			 name + PHP_STRING_TEXT + text_end_of(length),
			 copy->name_part.bytes ? sizeof(copy->name_end) : 0);
	walker_copy_text(env, &copy->class_name_part, copy->class_name, sizeof(copy->class_name),
			 copy->class_part.bytes ? copy->class[0] : 0);
	walker_copy_text(env, &copy->path_part, copy->path, sizeof(copy->path),
			 copy->file_part.bytes ? copy->file[0] : 0);
	return sizeof(*copy);
}

RUNTIME_PART(php, copy_code)

#define RUNTIME_COPY walker_php_copy_code

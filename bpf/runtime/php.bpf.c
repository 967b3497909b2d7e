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

enum {
	CALLS_PER_WALK = 8,	/* a call of the walker has a constant bound for the verifier */
	GENERATORS_MAX = 8,	/* that delegate to each other; a power of two */
	OPLINES_NEAR = 1 << 16, /* in one function, between two instructions */
	REGISTER_CALL = 14,	/* of x86-64 */
	REGISTER_OPLINE = 15,
};

/* What the walker keeps from one loop to the next (RUNTIME_STATE). */
struct php_state {
	/* These are zero at the start of a stack. */
	uint64_t started;
	uint64_t call;	     /* the next one of the list; 0: there is none */
	uint64_t generators; /* further generators in `generator`, whose calls come before it */
	uint64_t goes_on;    /* the next walk is for the same loop */
	uint64_t compiled;   /* the innermost loop executes compiled code */
	uint64_t fiber;	     /* that executes the next call; 0: none */
	/* These are not. */
	uint64_t globals; /* added to the addresses of the block that are fields of EG() */
	uint64_t opline, function, info, previous; /* of the call whose frame is to be pushed */
	uint64_t word, kind;			   /* results of find */
	uint64_t seen;				   /* a hash of what identify has read first */
	uint64_t line, inner;			   /* results of read_opline */
	uint64_t generator[GENERATORS_MAX];	   /* the innermost last */
	uint64_t hashes[3];			   /* of the names of function, class and file */
};

RUNTIME_STATE(php, BH_RUNTIME_PHP)

/* Returns what distinguishes a string, or 0. */
static __always_inline uint64_t php_hash(UNWIND_ENV env, uint64_t string)
{
	uint64_t words[2]; /* hash and length, and then the end */

	if (!string || env_read(env, words, sizeof(words), string + PHP_STRING_HASH))
		return 0;
	if (words[0])
		return words[0];
	const uint64_t length = words[1];

	return env_read(env, words, sizeof(words), string + PHP_STRING_TEXT + text_end_of(length))
		   ? 0
		   : text_end_hash(length, words);
}

/* Sets `word` to the identity of p->function, and `kind` to that of its frame, as far as it depends
 * on the function. Returns an enum method_learned. */
static __always_inline int php_identify(struct unwind_state *s, UNWIND_ENV env,
					const struct php_block *b)
{
	struct php_state *p = php_state(s);
	uint64_t head[PHP_FUNCTION_BYTES / 8], file[PHP_FILE_BYTES / 8] = {0, 0};

	if (env_read(env, head, sizeof(head), p->function))
		return METHOD_UNREADABLE;
	const uint32_t type = (uint8_t)head[PHP_FUNCTION_TYPE / 8];

	if (type == PHP_TYPE_INTERNAL)
		p->kind = PHP_FRAME_INTERNAL;
	else if (type != PHP_TYPE_USER && type != PHP_TYPE_EVAL)
		return METHOD_UNREADABLE;
	else if (env_read(env, file, sizeof(file), p->function + b->file))
		return METHOD_UNREADABLE;
	else
		p->kind = type == PHP_TYPE_EVAL		? PHP_FRAME_EVAL
			  : head[PHP_FUNCTION_NAME / 8] ? PHP_FRAME_FUNCTION
							: PHP_FRAME_INCLUDE;
	p->seen = method_cache_mix(p->function, head[PHP_FUNCTION_NAME / 8]);
	p->seen = method_cache_mix(p->seen, head[PHP_FUNCTION_CLASS / 8]);
	p->seen = method_cache_mix(p->seen, file[0]);
	p->seen = method_cache_mix(p->seen, (uint32_t)file[PHP_FILE_LINE / 8] ^ p->kind << 32);
	const struct method_cache_entry *entry =
	    method_cache_recall(s, env_method_cache(env), p->seen);

	if (entry) {
		p->word = entry->facts[0];
		return METHOD_RECALLED;
	}
	p->hashes[0] = head[PHP_FUNCTION_NAME / 8];
	p->hashes[1] = head[PHP_FUNCTION_CLASS / 8];
	p->hashes[2] = file[0];
	if (p->hashes[1])
		p->hashes[1] = walker_read(env, p->hashes[1] + PHP_CLASS_NAME);
	UNWIND_NO_UNROLL
	for (int i = 0; i < 3; i++)
		p->hashes[i] = php_hash(env, p->hashes[i]);
	p->word = php_identity(p->hashes[0], p->hashes[1], p->hashes[2],
			       (uint32_t)file[PHP_FILE_LINE / 8]);
	method_cache_keep(s, env_method_cache(env), p->seen, p->word);
	return METHOD_LEARNED;
}

RUNTIME_PART(php, identify)

/* Does the same by the method cache, if it can. */
static __always_inline int php_find(struct unwind_state *s, UNWIND_ENV env,
				    const struct php_block *b)
{
	struct php_state *p = php_state(s);
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry = method_cache_find(s, cache, p->function);

	if (entry && method_cache_is_trusted(s, entry)) {
		p->word = entry->facts[0];
		p->kind = entry->facts[1];
		return 1;
	}
	const int learned = RUNTIME_CALL(php, identify, s, env, b);

	if (learned != METHOD_LEARNED)
		return learned;
	/* What was inserted meanwhile may be in its place. */
	entry = method_cache_find(s, cache, p->function);
	entry = method_cache_record(s, cache, entry, p->function,
				    entry && entry->facts[0] == (uint32_t)p->word &&
					entry->facts[1] == (uint32_t)p->kind);
	if (entry) {
		entry->facts[0] = p->word;
		entry->facts[1] = p->kind;
	}
	return 1;
}

RUNTIME_PART(php, find)

/* Sets `line` to that of the call's instruction, 0 if it is not known, and `inner` to the function
 * that it calls without a call of its own, which only functions written in C can be. Returns
 * whether that instruction always has this line. */
static __always_inline int php_read_opline(struct unwind_state *s, UNWIND_ENV env,
					   const struct php_block *b)
{
	struct php_state *p = php_state(s);
	uint32_t words[3]; /* operand, line, opcode */

	p->line = 0;
	p->inner = 0;
	if (p->compiled && !s->runtime.managed_frames) {
		/* Compiled code does not always say where it is. */
		const uint64_t first = walker_read(env, p->function + b->opcodes);
		const uint32_t count = (uint32_t)walker_read(env, p->function + b->last);

		if ((p->opline - first) / PHP_OPLINE_BYTES >= count)
			return 0;
	}
	if (env_read(env, words, sizeof(words), p->opline + PHP_OPLINE_OPERAND))
		return 0;
	const uint8_t opcode = (uint8_t)words[2];

	if (opcode == PHP_OPCODE_EXCEPTION) {
		if (env_read(env, words, sizeof(words),
			     walker_read(env, p->globals + b->before_exception) +
				 PHP_OPLINE_OPERAND))
			return 0;
		p->line = words[1];
		return 0;
	}
	if (b->frameless && opcode >= PHP_OPCODE_FRAMELESS_FIRST &&
	    opcode <= PHP_OPCODE_FRAMELESS_LAST)
		p->inner = walker_read(env, walker_read(env, b->frameless) + words[0] * 8ull);
	p->line = words[1];
	return 1;
}

RUNTIME_PART(php, read_opline)

/* Pushes the frame of `inner`. Returns 0, or the reason that ends the stack. */
static __always_inline int php_push_inner(struct unwind_state *s, UNWIND_ENV env,
					  const struct php_block *b)
{
	struct php_state *p = php_state(s);
	const uint64_t function = p->function, word = p->word, kind = p->kind;
	int end = 0;

	p->function = p->inner;
	if (RUNTIME_CALL(php, find, s, env, b) && p->kind == PHP_FRAME_INTERNAL) {
		const uint64_t inner = frame_word((uint32_t)p->word, PHP_FRAME_INTERNAL, 0);

		end = push_managed(s, BH_RUNTIME_PHP, p->function, 1, &inner);
	}
	p->function = function;
	p->word = word;
	p->kind = kind;
	return end;
}

RUNTIME_PART(php, push_inner)

/* Sets word, kind and line of the call that was read, if the method cache has them. They are kept
 * by the address of the instruction, because that of a caller changes rarely, and reading it is
 * most of the work. Returns 0 if it has not. */
static __always_inline int php_recall(struct unwind_state *s, struct method_cache *cache)
{
	struct php_state *p = php_state(s);
	const struct method_cache_entry *entry = method_cache_find(s, cache, p->opline);

	if (!entry || !method_cache_is_trusted(s, entry) ||
	    entry->facts[2] != (uint32_t)(p->function >> 3))
		return 0;
	p->word = entry->facts[0];
	p->kind = entry->facts[1];
	p->line = entry->facts[3];
	return 1;
}

/* Finds them otherwise, and pushes what the call calls without a call. Returns 0, or the reason
 * that ends the stack. */
static __always_inline int php_learn(struct unwind_state *s, UNWIND_ENV env,
				     const struct php_block *b)
{
	struct php_state *p = php_state(s);
	struct method_cache *cache = env_method_cache(env);
	const uint32_t function = (uint32_t)(p->function >> 3);

	p->line = 0;
	if (!RUNTIME_CALL(php, find, s, env, b))
		return BH_REASON_RUNTIME;
	if (!php_frame_has_file(p->kind))
		return 0;
	struct method_cache_entry *entry = method_cache_find(s, cache, p->opline);
	const int same = entry && entry->facts[0] == (uint32_t)p->word &&
			 entry->facts[1] == (uint32_t)p->kind && entry->facts[2] == function;

	/* Of the innermost frame the function was read, and its instructions are the same. */
	if (same && method_cache_is_recent(s, entry)) {
		p->line = entry->facts[3];
		return 0;
	}
	const int is_constant = RUNTIME_CALL(php, read_opline, s, env, b);

	if (p->inner)
		return RUNTIME_CALL(php, push_inner, s, env, b);
	if (!is_constant)
		return 0;
	entry = method_cache_record(s, cache, entry, p->opline,
				    same && entry->facts[3] == (uint32_t)p->line);
	if (entry) {
		entry->facts[0] = p->word;
		entry->facts[1] = p->kind;
		entry->facts[2] = function;
		entry->facts[3] = p->line;
	}
	return 0;
}

/* Pushes the frame with word, kind and line. Returns 0, or the reason that ends the stack. */
static __always_inline int php_push(struct unwind_state *s)
{
	struct php_state *p = php_state(s);

	if (p->kind == PHP_FRAME_INCLUDE && !p->previous)
		p->kind = PHP_FRAME_MAIN;
	const uint64_t word = frame_word((uint32_t)p->word, (uint32_t)p->kind, p->line);

	return push_managed(s, BH_RUNTIME_PHP, p->function, 1, &word);
}

/* Pushes the frame of the call that was read, and was not recalled. Returns 0, or the reason that
 * ends the stack. */
static __always_inline int php_push_learned(struct unwind_state *s, UNWIND_ENV env,
					    const struct php_block *b)
{
	const int end = php_learn(s, env, b);

	return end ? end : php_push(s);
}

RUNTIME_PART(php, push_learned)

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
	walker_copy_text(env, &copy->name_part, copy->name, sizeof(copy->name),
			 copy->head_part.bytes ? copy->head[PHP_FUNCTION_NAME / 8] : 0);
	walker_copy_text(env, &copy->class_name_part, copy->class_name, sizeof(copy->class_name),
			 copy->class_part.bytes ? copy->class[0] : 0);
	walker_copy_text(env, &copy->path_part, copy->path, sizeof(copy->path),
			 copy->file_part.bytes ? copy->file[0] : 0);
	return sizeof(*copy);
}

RUNTIME_PART(php, copy_code)

#define RUNTIME_COPY walker_php_copy_code

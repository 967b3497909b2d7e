/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Pushes frames of PHP: identity, kind and line of a call. Which calls there are, and for which
 * native frames, is in php.bpf.c.
 */
#ifndef BPF_RUNTIME_PHP_PUSH_H
#define BPF_RUNTIME_PHP_PUSH_H

#include "bpf/runtime/php.h"
#include "bpf/runtime/sljit.h"
#include "bpf/runtime/walker.h"

enum {
	GENERATORS_MAX = 8, /* that delegate to each other; a power of two */
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
	struct sljit_frame expression;		   /* of the regular expression at s->pc */
};

RUNTIME_STATE(php, BH_RUNTIME_PHP)

/* Returns what distinguishes a string, or 0. */
static __always_inline uint64_t php_hash(UNWIND_ENV env, uint64_t string)
{
	uint64_t words[3]; /* hash, length and the start of the text; then the end */

	if (!string || env_read(env, words, sizeof(words), string + PHP_STRING_HASH))
		return 0;
	if (words[0])
		return words[0];
	const uint64_t length = words[1], start = words[2];

	return env_read(env, words, TEXT_END_BYTES, string + PHP_STRING_TEXT + text_end_of(length))
		   ? 0
		   : text_hash(length, start, words);
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

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The identity of Ruby code for the walker: what distinguishes the code of a frame from other code
 * at the same address later. It is computed of the method that the code belongs to, of its first
 * instruction, and of its label and path. symbolizer/runtime/ruby_names.c computes it again.
 */
#ifndef BPF_RUNTIME_RUBY_IDENTITY_H
#define BPF_RUNTIME_RUBY_IDENTITY_H

#include "bpf/runtime/ruby.h"
#include "bpf/runtime/walker.h"

enum {
	OUTER_MAX = 8, /* blocks in each other, of which the method is searched */
};

/* What the walker keeps from one loop to the next (RUNTIME_STATE). */
struct ruby_state {
	/* These are zero at the start of a stack. */
	uint64_t started;
	uint64_t frame;	     /* the next one; 0: there is no context */
	uint64_t is_left;    /* the innermost rb_vm_exec has no frames any more */
	uint64_t may_be_new; /* the innermost frame may belong to no rb_vm_exec yet */
	uint64_t frames_start, frames_bytes; /* of the copy of frames */
	uint64_t environment_start, goes_on; /* of the copy of environments */
	/* These are not. */
	uint64_t innermost;  /* no frame was pushed yet */
	uint64_t compiled;   /* compiled code was left before the first frame */
	uint64_t stack, end; /* of the VM stack */
	union {
		struct {
			uint64_t pc, code, ep, jit; /* of the frame; jit_return */
		};
		/* Of compiled code, which is left before the next frame is read. */
		struct {
			uint64_t at, before, return_address, is_exec;
		};
	};
	uint64_t entry, outer, flags;	    /* of its environment */
	uint64_t method, definition, class; /* results of ruby_read_method() */
	uint64_t owner;			    /* result of find_method, and p->class */
	uint64_t body, word, start, bytes;  /* results of identify */
	uint64_t seen;			    /* a hash of what it has read first */
	uint64_t text;			    /* the string to be hashed, and then its hash */
	uint64_t environment_bytes;
};

RUNTIME_STATE(ruby, BH_RUNTIME_RUBY)

/* Reads the first words of the object at *at, or of where it was moved to a moment ago. */
static __always_inline int ruby_read_object(UNWIND_ENV env, uint64_t words[RUBY_OBJECT_WORDS],
					    uint64_t *at)
{
	const uint64_t bytes = RUBY_OBJECT_WORDS * 8;

	if (env_read(env, words, bytes, *at))
		return 0;
	if ((words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_MOVED)
		return 1;
	*at = words[RUBY_MOVED_TO];
	return !env_read(env, words, bytes, *at);
}

/* Replaces p->text, which refers to a string or to an array that begins with one, by the hash of
 * the text, or by 0. */
static __always_inline int ruby_hash_text(struct unwind_state *s, UNWIND_ENV env,
					  const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	uint64_t words[RUBY_OBJECT_WORDS], at = p->text;

	p->text = 0;
	if (!ruby_read_object(env, words, &at))
		return 0;
	if ((words[0] & RUBY_OBJECT_TYPE) == RUBY_OBJECT_ARRAY) {
		at = words[0] & RUBY_OBJECT_FLAG
			 ? words[RUBY_ARRAY_ELEMENTS / 8]
			 : walker_read(env, walker_read(env, at + RUBY_ARRAY_POINTER));
		if (!ruby_read_object(env, words, &at))
			return 0;
	}
	if ((words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_STRING)
		return 0;
	uint64_t length = words[RUBY_STRING_LENGTH / 8];

	if (words[0] & RUBY_OBJECT_FLAG) {
		at = words[RUBY_STRING_POINTER / 8];
	} else {
		at += b->text;
		if (b->text == RUBY_STRING_LENGTH)
			length = words[0] >> RUBY_STRING_SHIFT & RUBY_STRING_MASK;
	}
	const uint64_t start = length > TEXT_END_BYTES ? walker_read(env, at) : 0;

	if (!env_read(env, words, TEXT_END_BYTES, at + text_end_of(length)))
		p->text = text_hash(length, start, words);
	return 0;
}

RUNTIME_PART(ruby, hash_text)

/* Reads a method entry: sets `definition` and `class`. Returns whether it is one. If it refers to
 * one, sets `method` to that. */
static __always_inline int ruby_read_method(struct ruby_state *p, UNWIND_ENV env, uint64_t at)
{
	uint64_t words[RUBY_METHOD_WORDS];

	if (!ruby_may_be_object(at) || env_read(env, words, sizeof(words), at))
		return 0;
	if ((words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_INTERNAL)
		return 0;
	const uint64_t type = words[0] >> RUBY_INTERNAL_SHIFT & RUBY_INTERNAL_MASK;

	p->method = type == RUBY_INTERNAL_VARIABLES ? words[1] : 0;
	if (type != RUBY_INTERNAL_METHOD)
		return 0;
	p->definition = words[RUBY_METHOD_DEFINITION];
	p->class = words[RUBY_METHOD_OWNER];
	return 1;
}

/* Finds the method that the code of the frame belongs to: sets its `class`, what distinguishes that
 * (`owner`), or both to 0. */
static __always_inline int ruby_find_method(struct unwind_state *s, UNWIND_ENV env,
					    const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	uint64_t environment[RUBY_ENVIRONMENT_WORDS], at = p->ep;
	int found = 0;

	p->class = 0;
	p->owner = 0;
	/* The loop must end with a conditional jump: 5.10 and 6.1 refuse others that lead back. */
	UNWIND_NO_UNROLL
	for (int i = 0; i < OUTER_MAX; i++) {
		p->method = 0;
		if (env_read(env, environment, sizeof(environment),
			     at - RUBY_ENVIRONMENT_FLAGS * 8))
			break;
		found = ruby_read_method(p, env, environment[RUBY_ENVIRONMENT_METHOD]);
		if (!found && p->method)
			found = ruby_read_method(p, env, p->method);
		at = environment[RUBY_ENVIRONMENT_OUTER] & ~3ull;
		if (found || environment[RUBY_ENVIRONMENT_FLAGS] & RUBY_FLAG_LOCAL)
			break;
	}
	if (found)
		p->owner = p->class ^ walker_read(env, p->class + b->class_word);
	return found;
}

RUNTIME_PART(ruby, find_method)

/* Returns the method entry of the frame; 0: only an environment further out has it. */
static __always_inline uint64_t ruby_frame_method(const struct ruby_state *p)
{
	const int has_method =
	    (p->flags & RUBY_FLAG_TYPE) == RUBY_TYPE_METHOD || (p->flags & RUBY_FLAG_METHOD_BLOCK);

	return has_method ? p->entry : 0;
}

/* Sets `word` and `class` of the innermost frame, if the method cache has them for the code with
 * this body in the method of the frame. Returns 0 if it has not. */
static __always_inline int ruby_recall_innermost(struct unwind_state *s, UNWIND_ENV env,
						 const uint64_t body[RUBY_BODY_WORDS])
{
	struct ruby_state *p = ruby_state(s);

	p->seen = method_cache_mix(p->body, ruby_frame_method(p));
	p->seen = method_cache_mix(p->seen, body[RUBY_BODY_START] ^ body[RUBY_BODY_SIZE]);
	p->seen = method_cache_mix(p->seen, body[RUBY_BODY_PATH]);
	p->seen = method_cache_mix(p->seen, body[RUBY_BODY_LABEL]);
	p->seen = method_cache_mix(p->seen, body[RUBY_BODY_LINE]);
	const struct method_cache_entry *entry =
	    method_cache_recall(s, env_method_cache(env), p->seen);

	if (!entry)
		return 0;
	p->word = entry->facts[0];
	p->class = entry->facts[1] | (uint64_t)entry->facts[2] << 32;
	return 1;
}

/* Sets `body`, `start`, `bytes` and `word` (the identity) of the code of the frame, and the class
 * of its method. Returns an enum method_learned. */
static __always_inline int ruby_identify(struct unwind_state *s, UNWIND_ENV env,
					 const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	uint64_t body[RUBY_BODY_WORDS];
	uint32_t label, path;

	if (!ruby_read_object(env, body, &p->code))
		return METHOD_UNREADABLE;
	p->body = body[RUBY_CODE_BODY / 8];
	if (env_read(env, body, sizeof(body), p->body))
		return METHOD_UNREADABLE;
	if (!b->line_is_object)
		body[RUBY_BODY_LINE] = (uint32_t)body[RUBY_BODY_LINE];
	p->start = body[RUBY_BODY_START];
	p->bytes = body[RUBY_BODY_SIZE] >> 32 << 3;
	if (ruby_recall_innermost(s, env, body))
		return METHOD_RECALLED;
	RUNTIME_CALL(ruby, find_method, s, env, b);
	p->text = body[RUBY_BODY_LABEL];
	RUNTIME_CALL(ruby, hash_text, s, env, b);
	label = (uint32_t)p->text;
	p->text = body[RUBY_BODY_PATH];
	RUNTIME_CALL(ruby, hash_text, s, env, b);
	path = (uint32_t)p->text;
	p->word = ruby_identity(p->owner, body, label, path);
	struct method_cache_entry *entry =
	    method_cache_keep(s, env_method_cache(env), p->seen, p->word);

	if (entry) {
		entry->facts[1] = p->class;
		entry->facts[2] = p->class >> 32;
	}
	return METHOD_LEARNED;
}

RUNTIME_PART(ruby, identify)

#endif

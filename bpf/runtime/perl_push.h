/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Pushes frames of Perl: those of subs, with their identity, and those of files. Which frames there
 * are, and for which native ones, is in perl.bpf.c.
 */
#ifndef BPF_RUNTIME_PERL_PUSH_H
#define BPF_RUNTIME_PERL_PUSH_H

#include "bpf/runtime/perl.h"
#include "bpf/runtime/walker.h"

/* What the walker keeps from one run loop to the next (RUNTIME_STATE). */
struct perl_state {
	/* These are zero at the start of a stack. */
	uint64_t started;
	uint64_t stack; /* the present array of contexts (PERL_SI); 0: there are no further ones */
	uint64_t left;	/* contexts in it that were not used */
	uint64_t goes_on; /* the next call is for the same run loop */
	uint64_t taken;	  /* contexts of this array that belong to the present run loop */
	uint64_t caught;  /* the frames of the last run loop ended with the eval of C code */
	uint64_t loop_sp; /* the stack pointer in the last run loop */
	uint64_t found;	  /* there is an interpreter */
	/* These are not. */
	uint64_t contexts, previous, type;	 /* of the present array */
	uint64_t context_type, old_cop, next_op; /* of the present context */
	uint64_t ending;			 /* enum perl_ending */
	uint64_t cop;				 /* the statement that the next frame executes */
	uint64_t return_op;			 /* where it goes on after the call; 0: unknown */
	uint64_t current_cop;			 /* PL_curcop */
	uint64_t op;				 /* PL_op */
	uint64_t interpreter;			 /* 0: there is only one */
	uint64_t code;				 /* what is to be identified: a CV, or a text */
	uint64_t sub, word, name, package, kind; /* results of identify_sub */
	uint64_t seen;				 /* a hash of what it has read first */
	uint64_t line;				 /* of the statement */
};

RUNTIME_STATE(perl, BH_RUNTIME_PERL)

/* Sets `word` to the hash of the name of the package. */
static __always_inline int perl_hash_package(struct unwind_state *s, UNWIND_ENV env,
					     const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	uint64_t stash[3], aux[PERL_AUX_BYTES / 8];

	p->word = 0;
	if (env_read(env, stash, sizeof(stash), p->package))
		return 0;
	const uint64_t body = stash[PERL_SV_BODY];
	const uint64_t at = b->aux_in_array ? stash[PERL_SV_POINTER / 8] +
						  (walker_read(env, body + PERL_STASH_MOST) + 1) * 8
					    : body + PERL_STASH_AUX;

	if (env_read(env, aux, sizeof(aux), at))
		return 0;
	uint64_t name = aux[PERL_AUX_NAME / 8];
	if (aux[PERL_AUX_NAME_COUNT / 8] >> 32)
		name = walker_read(env, name);
	p->word = (uint32_t)walker_read(env, name);
	return 0;
}

RUNTIME_PART(perl, hash_package)

/* Reads the body of the sub at `code`. Returns 0 if that cannot be read, or is no sub. `head` is
 * not a variable of perl_identify_sub(), because that may need 128 bytes of stack at most: 5.10 and
 * 6.1 count in steps of 32, and allow 512 for all functions that call each other. */
static __always_inline int perl_read_sub(UNWIND_ENV env, uint64_t code,
					 uint64_t words[PERL_SUB_WORDS])
{
	uint64_t head[2];

	if (env_read(env, head, sizeof(head), code))
		return 0;
	const uint32_t type = head[PERL_SV_FLAGS / 8] >> 32 & 0xff;

	return (type == PERL_TYPE_SUB || type == PERL_TYPE_FORMAT) &&
	       !env_read(env, words, PERL_SUB_WORDS * sizeof(*words),
			 head[PERL_SV_BODY / 8] + PERL_SUB_FIRST);
}

/* Sets `word` to the identity of the sub of the innermost frame, if the method cache has that for
 * what was read of the sub. Returns 0 if it has not. */
static __always_inline int perl_recall_innermost(struct unwind_state *s, UNWIND_ENV env)
{
	struct perl_state *p = perl_state(s);

	p->seen = method_cache_mix(method_cache_mix(p->code, p->sub), p->name);
	p->seen = method_cache_mix(p->seen, p->package ^ p->kind);
	const struct method_cache_entry *entry =
	    method_cache_recall(s, env_method_cache(env), p->seen);

	if (!entry)
		return 0;
	p->word = entry->facts[0];
	return 1;
}

/* Sets `sub` to the first op of the sub at `code`, `word` to its identity, and `name`, `package`
 * and `kind` to what its frame has. Returns an enum method_learned. */
static __always_inline int perl_identify_sub(struct unwind_state *s, UNWIND_ENV env,
					     const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	uint64_t words[PERL_SUB_WORDS], cop[3], glob[2];

	if (!perl_read_sub(env, p->code, words))
		return METHOD_UNREADABLE;
	p->sub = words[PERL_SUB_START];
	p->name = glob[0] = words[PERL_SUB_NAME];
	p->package = words[PERL_SUB_STASH];
	const uint32_t flags = words[PERL_SUB_FLAGS] >> 32;
	p->kind = flags & PERL_SUB_IS_LEXICAL ? PERL_FRAME_LEXICAL_SUB
		  : flags & PERL_SUB_IS_NAMED ? PERL_FRAME_NAMED_SUB
					      : PERL_FRAME_SUB;
	if (perl_recall_innermost(s, env))
		return METHOD_RECALLED;
	if (p->kind == PERL_FRAME_LEXICAL_SUB) {
		p->package = 0;
	} else if (p->kind == PERL_FRAME_SUB) {
		if (env_read(env, glob, sizeof(glob),
			     walker_read(env, p->name + PERL_SV_BODY) + PERL_GLOB_NAME))
			return METHOD_UNREADABLE;
		p->package = glob[1];
	}
	if (env_read(env, cop, sizeof(cop), p->sub + PERL_OP_TYPE))
		return METHOD_UNREADABLE;
	RUNTIME_CALL(perl, hash_package, s, env, b);
	p->word = perl_sub_identity(p->name, (uint32_t)walker_read(env, glob[0]), (uint32_t)p->word,
				    cop[0] >> 32, cop[2]);
	return METHOD_LEARNED;
}

RUNTIME_PART(perl, identify_sub)

/* Sets `word` to the identity of the text at `code`. */
static __always_inline int perl_identify_text(struct unwind_state *s, UNWIND_ENV env,
					      const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	uint64_t words[PERL_TEXT_BYTES / 8];

	(void)b;
	p->word = env_read(env, words, sizeof(words), p->code) ? 0 : perl_text_identity(words);
	return 1;
}

RUNTIME_PART(perl, identify_text)

/*
 * What a frame has is found in the method cache, or in memory. perl_recall_NAME() takes it from the
 * cache, and returns 0 if it is not there, or not trusted. perl_learn_NAME() then reads it, and
 * keeps it. Nearly all frames are recalled; so that is inlined, and learning is a global function.
 */

/* Recalls the sub at `code`. */
static __always_inline int perl_recall_sub(struct unwind_state *s, struct method_cache *cache)
{
	struct perl_state *p = perl_state(s);
	const struct method_cache_entry *entry = method_cache_find(s, cache, p->code);

	if (!entry || !method_cache_is_trusted(s, entry))
		return 0;
	p->word = entry->facts[0];
	/* Addresses are multiples of 8 below 2^47. */
	p->sub = (entry->facts[1] | (uint64_t)(entry->facts[3] & 0xfff) << 32) << 3;
	p->name = (entry->facts[2] | (uint64_t)(entry->facts[3] >> 12 & 0xfff) << 32) << 3;
	p->kind = entry->facts[3] >> 24;
	p->package = 0;
	return 1;
}

/* Learns the sub at `code`. Returns an enum method_learned. */
static __always_inline int perl_learn_sub(struct unwind_state *s, UNWIND_ENV env,
					  const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	struct method_cache *cache = env_method_cache(env);
	const int learned = RUNTIME_CALL(perl, identify_sub, s, env, b);

	if (learned != METHOD_LEARNED)
		return learned;
	method_cache_keep(s, cache, p->seen, p->word);
	struct method_cache_entry *entry = method_cache_find(s, cache, p->code);
	const uint32_t high = (uint32_t)(p->sub >> 35 & 0xfff) |
			      (uint32_t)(p->name >> 35 & 0xfff) << 12 | (uint32_t)p->kind << 24;

	entry = method_cache_record(s, cache, entry, p->code,
				    entry && entry->facts[0] == (uint32_t)p->word &&
					entry->facts[1] == (uint32_t)(p->sub >> 3));
	if (entry) {
		entry->facts[0] = p->word;
		entry->facts[1] = p->sub >> 3;
		entry->facts[2] = p->name >> 3;
		entry->facts[3] = high;
	}
	return METHOD_LEARNED;
}

RUNTIME_PART(perl, learn_sub)

/* Recalls or learns the identity of the text at `code`. */
static __always_inline int perl_find_text(struct unwind_state *s, UNWIND_ENV env,
					  const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry = method_cache_find(s, cache, p->code);

	if (entry && method_cache_is_trusted(s, entry)) {
		p->word = entry->facts[0];
		return 1;
	}
	RUNTIME_CALL(perl, identify_text, s, env, b);
	entry = method_cache_record(s, cache, entry, p->code,
				    entry && entry->facts[0] == (uint32_t)p->word);
	if (entry)
		entry->facts[0] = p->word;
	return 1;
}

RUNTIME_PART(perl, find_text)

/* Returns the line of the statement at `cop`, and sets *file to its file: a text or a glob. */
static __always_inline uint32_t perl_statement(UNWIND_ENV env, uint64_t cop, uint64_t *file)
{
	uint64_t words[3];

	*file = 0;
	if (!cop || env_read(env, words, sizeof(words), cop + PERL_OP_TYPE))
		return 0;
	*file = words[(PERL_COP_FILE - PERL_OP_TYPE) / 8];
	return words[0] >> 32;
}

/* Recalls the line of the statement at p->cop in the sub at `code`, which was recalled, and the
 * package of the sub if it is named. Both are kept by the address of the statement: that of a
 * caller changes rarely. */
static __always_inline int perl_recall_statement(struct unwind_state *s, struct method_cache *cache)
{
	struct perl_state *p = perl_state(s);
	const struct method_cache_entry *entry = method_cache_find(s, cache, p->cop);

	if (!entry || !method_cache_is_recent(s, entry) ||
	    entry->facts[0] != (uint32_t)(p->code >> 3))
		return 0;
	p->line = entry->facts[1];
	p->package = entry->facts[2] | (uint64_t)entry->facts[3] << 32;
	return 1;
}

/* Learns them. The line is 0 if it cannot be read. */
static __always_inline int perl_learn_statement(struct unwind_state *s, UNWIND_ENV env,
						const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	struct method_cache *cache = env_method_cache(env);
	struct method_cache_entry *entry = method_cache_find(s, cache, p->cop);
	const uint32_t code = (uint32_t)(p->code >> 3);
	uint64_t file;

	(void)b;
	p->line = perl_statement(env, p->cop, &file);
	if (p->kind != PERL_FRAME_NAMED_SUB)
		p->package = 0;
	else if (!p->package)
		p->package = walker_read(env, walker_read(env, p->code) + PERL_SUB_FIRST);
	entry = method_cache_record(s, cache, entry, p->cop,
				    entry && entry->facts[0] == code &&
					entry->facts[1] == (uint32_t)p->line &&
					entry->facts[2] == (uint32_t)p->package);
	if (entry) {
		entry->facts[0] = code;
		entry->facts[1] = p->line;
		entry->facts[2] = p->package;
		entry->facts[3] = p->package >> 32;
	}
	return 0;
}

RUNTIME_PART(perl, learn_statement)

/* Pushes a frame of the sub at `code`, which executes the statement at p->cop. Returns 0, or the
 * reason that ends the stack. */
static __always_inline int perl_push_sub(struct unwind_state *s, UNWIND_ENV env,
					 const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	struct method_cache *cache = env_method_cache(env);
	uint64_t words[4];

	const int learned =
	    perl_recall_sub(s, cache) ? METHOD_RECALLED : RUNTIME_CALL(perl, learn_sub, s, env, b);
	if (learned == METHOD_UNREADABLE)
		return BH_REASON_RUNTIME;
	if (learned != METHOD_RECALLED || !perl_recall_statement(s, cache))
		RUNTIME_CALL(perl, learn_statement, s, env, b);
	const uint64_t place = perl_place(p->sub, p->cop, p->return_op);
	const unsigned int has_package = p->kind == PERL_FRAME_NAMED_SUB;

	words[0] = frame_word((uint32_t)p->word, (uint32_t)p->kind, p->line);
	words[1] = p->name;
	words[2] = has_package ? p->package : place;
	words[3] = place;
	return has_package ? push_managed(s, BH_RUNTIME_PERL, p->sub, 4, words)
			   : push_managed(s, BH_RUNTIME_PERL, p->sub, 3, words);
}

/* Does the same with a frame of p->kind, which has no sub. */
static __always_inline int perl_push_text(struct unwind_state *s, UNWIND_ENV env,
					  const struct perl_block *b)
{
	struct perl_state *p = perl_state(s);
	uint64_t file, words[2];
	const uint32_t line = perl_statement(env, p->cop, &file);

	if (b->files_are_globs)
		file = walker_read(env, walker_read(env, file) + PERL_GLOB_NAME) + PERL_HEK_TEXT +
		       PERL_FILE_PREFIX;
	p->code = file;
	RUNTIME_CALL(perl, find_text, s, env, b);
	words[0] = frame_word((uint32_t)p->word, (uint32_t)p->kind, line);
	words[1] = perl_place(file, p->cop, p->return_op);
	return push_managed(s, BH_RUNTIME_PERL, file, 2, words);
}

RUNTIME_PART(perl, push_text)

#endif

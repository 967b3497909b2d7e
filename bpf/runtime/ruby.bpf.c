/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of Ruby.
 *
 * How this works. Each thread has an execution context, and each fiber. It has an array of frames,
 * the innermost first. Instructions are executed by a loop (vm_exec_core), which is called by
 * rb_vm_exec only. A call of a Ruby method by Ruby code goes on in the same loop. C code that calls
 * a method or a block starts another rb_vm_exec, and the frame of that call is marked
 * (VM_FRAME_FLAG_FINISH). So the native frame of rb_vm_exec is replaced by the frames up to the
 * next marked one, and that of the loop by nothing. Methods that are written in C have frames, too,
 * which come before that of their caller and have no mark.
 *
 * Example: the native stack is loop A, rb_vm_exec A, rb_yield, rb_ary_each, loop B, rb_vm_exec B,
 * main. The frames are leaf, a block (marked), Array#each, work, the program (marked). A gets leaf
 * and the block, B gets Array#each, work and the program.
 *
 * The two lists do not agree for some instructions where C code calls:
 *
 * - C code adds the marked frame, and then calls rb_vm_exec. Until then the frame is at its first
 *   instruction, and the innermost native frame is not that of the loop. It is left out.
 * - The loop removes the marked frame, and then returns. Before that, a register of the loop
 *   (vm_exec.c, DECL_SC_REG) has the address of the frame. Afterwards rb_vm_exec has no frames: its
 *   last instructions are known (ruby_block.leave).
 *
 * Code that YJIT has compiled has control frames like those of interpreted code. It was called by
 * the loop or by rb_vm_exec, and calls of further Ruby methods are jumps in it. So all of it is one
 * native frame, which is replaced by nothing. It has pushed three registers, or some more for a
 * moment, and has no unwind rules. Its return address is the first word of the stack that is in the
 * loop or in rb_vm_exec, after a call (ruby_leave_compiled()). Compiled code writes the
 * pc to its frame only before it calls something that may need it. So the pc of the innermost frame
 * may be an old one, or even that of other code: the code and its method are always read then.
 * ZJIT does the same, but its frames do not say that they are of compiled code (jit_return).
 *
 * While objects are collected, a frame says so. It comes before those of Ruby code, and after the
 * native ones of the collector.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/ruby.h"
#include "bpf/runtime/ruby_copy.h"
#include "bpf/runtime/ruby_identity.h"

enum {
	FRAMES_PER_WALK = 8, /* a call of the walker has a constant bound for the verifier */
	TAIL_MAX = 6,	     /* frames of C code at the start of a fiber; Enumerator#next has 4 */
	REGISTER_FRAME = 15, /* of x86-64; vm_exec.c, vm_exec_core() */
	/* A module of thread-local storage, and its entry in the table of a thread (dtv_t of glibc:
	 * the table is at thread pointer + 8, and has 16 bytes for each module). */
	TLS_TABLE = 8,
	TLS_ENTRY_BYTES = 16,
	/* s->runtime.heap has a copy of frames, and one of environments. Powers of two. */
	COPY_WORDS = 128,
	COPY_BYTES = COPY_WORDS * 8,
	/* Of compiled code: the three registers, the frame pointer twice, and what trampolines push
	 * (yjit/src/backend/ir.rs, cpush_all(): ten words), with some more for spilled values. */
	COMPILED_STACK_WORDS = 32,
	COMPILED_LEAVE_BYTES = 16, /* of the code that returns from compiled code */
};

/* Returns what the code of the frame has as its address in the method cache: the pc, because
 * instructions are never moved, and the method, if the frame says which, because a block may be the
 * code of several. */
static __always_inline uint64_t ruby_code_key(const struct ruby_state *p)
{
	return p->pc ^ ruby_frame_method(p) * HASH_MULTIPLIER;
}

/* Sets `word`, `body` and `class` of the code of the frame, if the method cache has them. Returns 0
 * if it has not. */
static __always_inline int ruby_recall_code(struct unwind_state *s, struct method_cache *cache)
{
	struct ruby_state *p = ruby_state(s);
	const struct method_cache_entry *entry = method_cache_find(s, cache, ruby_code_key(p));

	if (!entry || !method_cache_is_trusted(s, entry))
		return 0;
	p->word = entry->facts[0];
	/* Addresses are multiples of 8 below 2^47. */
	p->body = (entry->facts[1] | (uint64_t)(entry->facts[3] & 0xfff) << 32) << 3;
	p->class = (entry->facts[2] | (uint64_t)(entry->facts[3] >> 12 & 0xfff) << 32) << 3;
	return 1;
}

/* Reads them, and keeps them. Returns 0 if they cannot be read. */
static __always_inline int ruby_learn_code(struct unwind_state *s, UNWIND_ENV env,
					   const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	const int learned = RUNTIME_CALL(ruby, identify, s, env, b);

	if (learned != METHOD_LEARNED)
		return learned;
	struct method_cache *cache = env_method_cache(env);
	const uint64_t key = ruby_code_key(p);
	struct method_cache_entry *entry = method_cache_find(s, cache, key);
	const uint32_t high = (uint32_t)(p->body >> 35 & 0xfff) | (uint32_t)(p->class >> 35 & 0xfff)
								      << 12;

	entry = method_cache_record(s, cache, entry, key,
				    entry && entry->facts[0] == (uint32_t)p->word &&
					entry->facts[1] == (uint32_t)(p->body >> 3) &&
					entry->facts[2] == (uint32_t)(p->class >> 3));
	if (entry) {
		entry->facts[0] = p->word;
		entry->facts[1] = p->body >> 3;
		entry->facts[2] = p->class >> 3;
		entry->facts[3] = high;
	}
	return 1;
}

/* Pushes the frame with word, body and class. Returns 0, or the reason that ends the stack. */
static __always_inline int ruby_push(struct unwind_state *s)
{
	const struct ruby_state *p = ruby_state(s);
	uint64_t words[2];

	words[0] = frame_word((uint32_t)p->word, RUBY_FRAME_BODY, ruby_position(p->pc));
	words[1] = p->class;
	return p->class ? push_managed(s, BH_RUNTIME_RUBY, p->body, 2, words)
			: push_managed(s, BH_RUNTIME_RUBY, p->body, 1, words);
}

/* Pushes the frame of code that was not recalled, unless it belongs to no rb_vm_exec yet. Then it
 * sets `flags` to 0. Returns 0, or the reason that ends the stack. */
static __always_inline int ruby_push_code(struct unwind_state *s, UNWIND_ENV env,
					  const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	const int is_compiled = p->innermost && (p->jit || p->compiled);
	const int may_be_new =
	    p->may_be_new && (p->flags & RUBY_FLAG_FINISH) && !p->jit && !p->compiled;

	p->may_be_new = 0;
	/* The pc may be that of other code, so nothing is kept under it. */
	if (is_compiled) {
		if (!RUNTIME_CALL(ruby, identify, s, env, b))
			return BH_REASON_RUNTIME;
		if (p->pc - p->start > p->bytes)
			p->pc = p->start;
	} else if (!ruby_learn_code(s, env, b)) {
		return BH_REASON_RUNTIME;
	}
	p->innermost = 0;
	if (may_be_new && p->start == p->pc) {
		p->flags = 0;
		return 0;
	}
	return ruby_push(s);
}

RUNTIME_PART(ruby, push_code)

/* Pushes the frame of a method that is written in C. Returns 0, or the reason that ends the
 * stack. */
static __always_inline int ruby_push_c(struct unwind_state *s, UNWIND_ENV env,
				       const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	struct method_cache *cache = env_method_cache(env);
	uint64_t words[2];

	p->may_be_new = 0;
	p->innermost = 0;
	if (!ruby_read_method(p, env, p->entry))
		return 0;
	struct method_cache_entry *entry = method_cache_find(s, cache, p->definition);
	const uint32_t class = (uint32_t)(p->class >> 3);

	if (entry && method_cache_is_trusted(s, entry) && entry->facts[1] == class) {
		p->word = entry->facts[0];
	} else {
		p->word = ruby_c_identity(walker_read(env, p->definition + RUBY_DEFINITION_SERIAL),
					  p->class ^ walker_read(env, p->class + b->class_word));
		entry = method_cache_record(s, cache, entry, p->definition,
					    entry && entry->facts[0] == (uint32_t)p->word);
		if (entry) {
			entry->facts[0] = p->word;
			entry->facts[1] = class;
		}
	}
	words[0] = frame_word((uint32_t)p->word, RUBY_FRAME_C, 0);
	words[1] = p->class;
	return push_managed(s, BH_RUNTIME_RUBY, p->definition, 2, words);
}

RUNTIME_PART(ruby, push_c)

/* Returns a word of the copy of frames (`first` = 0) or of environments, `at` bytes after its
 * start. */
static __always_inline uint64_t ruby_copied(const struct unwind_state *s, uint32_t first,
					    uint64_t at)
{
	const uint8_t *copy = (const uint8_t *)(s->runtime.heap + first);

	return *(const uint64_t *)(const void *)(copy + bits_mask(at, COPY_BYTES - 8));
}

/* Returns whether there is a copy of the frame at p->frame. */
static __always_inline int ruby_frame_is_copied(const struct ruby_state *p)
{
	return p->frames_bytes >= RUBY_FRAME_BYTES &&
	       p->frame - p->frames_start <= p->frames_bytes - RUBY_FRAME_BYTES;
}

/* Sets `pc`, `code`, `ep` and `jit` to what the copy of the frame has. */
static __always_inline void ruby_take_frame(struct unwind_state *s, const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	const uint64_t at = p->frame - p->frames_start;

	p->pc = ruby_copied(s, 0, at + RUBY_FRAME_PC);
	p->code = ruby_copied(s, 0, at + RUBY_FRAME_CODE);
	p->ep = ruby_copied(s, 0, at + RUBY_FRAME_ENVIRONMENT);
	p->jit = b->jit_return ? ruby_copied(s, 0, at + b->jit_return) : 0;
}

/* Returns whether there is a copy of the environment at p->ep. */
static __always_inline int ruby_environment_is_copied(const struct ruby_state *p)
{
	const uint64_t at = p->ep - RUBY_ENVIRONMENT_FLAGS * 8 - p->environment_start;

	return p->environment_start && at <= p->environment_bytes - RUBY_ENVIRONMENT_WORDS * 8;
}

/* Sets `entry`, `outer` and `flags` to what the copy of the environment has. */
static __always_inline void ruby_take_environment(struct unwind_state *s)
{
	struct ruby_state *p = ruby_state(s);
	const uint64_t at = p->ep - RUBY_ENVIRONMENT_FLAGS * 8 - p->environment_start;

	p->entry = ruby_copied(s, COPY_WORDS, at);
	p->outer = ruby_copied(s, COPY_WORDS, at + 8);
	p->flags = ruby_copied(s, COPY_WORDS, at + 16);
}

/* Copies the frame at p->frame, and those further out, which follow it. Returns 0 if that cannot be
 * read. */
static __always_inline int ruby_copy_frames(struct unwind_state *s, UNWIND_ENV env)
{
	struct ruby_state *p = ruby_state(s);
	uint64_t bytes = p->end - p->frame;

	if (bytes > COPY_BYTES)
		bytes = COPY_BYTES;
	asm volatile("" : "+r"(bytes));
	s->runtime.heap_bytes = 0;
	p->frames_bytes = 0;
	if (bytes < RUBY_FRAME_BYTES || bytes > COPY_BYTES ||
	    env_read(env, s->runtime.heap, bytes, p->frame))
		return 0;
	p->frames_start = p->frame;
	p->frames_bytes = bytes;
	return 1;
}

/* Copies the environment at p->ep. Those further out are mostly at lower addresses of the VM stack,
 * of which a large part is read at once. Returns 0 if it cannot be read. */
static __always_inline int ruby_copy_environments(struct unwind_state *s, UNWIND_ENV env)
{
	struct ruby_state *p = ruby_state(s);
	const uint64_t start = p->ep - RUBY_ENVIRONMENT_FLAGS * 8;
	uint64_t bytes = start - p->stack;

	if (bytes >= p->end - p->stack || bytes >= COPY_BYTES - RUBY_ENVIRONMENT_WORDS * 8)
		bytes = COPY_BYTES - RUBY_ENVIRONMENT_WORDS * 8;
	/* A block that was made an object has its environments elsewhere. */
	if (start - p->stack >= p->end - p->stack)
		bytes = 0;
	asm volatile("" : "+r"(bytes));
	if (bytes > COPY_BYTES - RUBY_ENVIRONMENT_WORDS * 8)
		return 0;
	p->environment_start = start - bytes;
	p->environment_bytes = bytes + RUBY_ENVIRONMENT_WORDS * 8;
	if (env_read(env, s->runtime.heap + COPY_WORDS, bytes + RUBY_ENVIRONMENT_WORDS * 8,
		     p->environment_start)) {
		p->environment_start = 0;
		return 0;
	}
	return 1;
}

/* Gets the frame at p->frame: sets `pc`, `code`, `ep`, `jit`, and what its environment has. Copies
 * what is not copied yet if it `may_copy`, a constant. Returns 0 if that cannot be read, or it may
 * not. */
static __always_inline int ruby_get_frame(struct unwind_state *s, UNWIND_ENV env,
					  const struct ruby_block *b, const int may_copy)
{
	struct ruby_state *p = ruby_state(s);

	if (!ruby_frame_is_copied(p) && !(may_copy && ruby_copy_frames(s, env)))
		return 0;
	ruby_take_frame(s, b);
	if (!ruby_environment_is_copied(p) && !(may_copy && ruby_copy_environments(s, env)))
		return 0;
	ruby_take_environment(s);
	return 1;
}

/* As a function of its own: nearly all frames are in the copies, so that is inlined. */
static __always_inline int ruby_read_frame(struct unwind_state *s, UNWIND_ENV env,
					   const struct ruby_block *b)
{
	return ruby_get_frame(s, env, b, 1);
}

RUNTIME_PART(ruby, read_frame)

/* Returns the address of the execution context of the rb_thread_t at `thread`; 0: it is none. */
static __always_inline uint64_t ruby_context_of(UNWIND_ENV env, const struct ruby_block *b,
						uint64_t thread)
{
	const uint64_t context = thread ? walker_read(env, thread + b->thread_context) : 0;

	return context && walker_read(env, context + b->context_thread) == thread ? context : 0;
}

/* Returns the address of the execution context of the thread, or 0. */
static __always_inline uint64_t ruby_context(UNWIND_ENV env, const struct ruby_block *b)
{
	uint64_t base = env_thread_pointer(env);

	if (b->key_count) {
		const uint64_t context = ruby_context_of(env, b, walker_read_key(env, &b->keys[0]));

		return context || b->key_count < 2
			   ? context
			   : ruby_context_of(env, b, walker_read_key(env, &b->keys[1]));
	}
	if (b->module)
		base = walker_read(env, walker_read(env, base + TLS_TABLE) +
					    b->module * TLS_ENTRY_BYTES);
	return base ? walker_read(env, base + b->offset) : 0;
}

/* Finds the innermost frame, and whether it belongs to the rb_vm_exec at or below s->pc. Pushes the
 * frame of the garbage collector. Returns 0, or the reason that ends the stack. */
static __always_inline int ruby_start(struct unwind_state *s, UNWIND_ENV env,
				      const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	uint64_t context[RUBY_CONTEXT_WORDS];

	p->started = 1;
	p->innermost = 1;
	p->compiled = 0;
	const uint64_t at = ruby_context(env, b);

	if (env_read(env, context, sizeof(context), at))
		return 0;
	const uint64_t frame = context[RUBY_CONTEXT_FRAME];

	p->stack = context[RUBY_CONTEXT_STACK];
	p->end = p->stack + context[RUBY_CONTEXT_SIZE] * 8;
	if (frame & 7 || frame - p->stack >= p->end - p->stack)
		return 0;
	p->frame = frame;
	if (s->registers_known) {
		if (s->runtime.data == RUBY_RANGE_LOOP &&
		    s->gpr[REGISTER_FRAME] == frame - b->frame_bytes)
			p->frame = frame - b->frame_bytes;
		for (int i = 0; i < RUBY_LEAVE_PARTS; i++) {
			if (s->pc - b->leave[i].start < b->leave[i].end - b->leave[i].start)
				p->is_left = 1;
		}
		return 0;
	}
	p->may_be_new = !(s->runtime.data & RUBY_RANGE_EXEC);
	/* Another thread may collect, while this one executes C code without the lock. */
	if (!b->collecting || !(walker_read(env, b->collecting) & b->collecting_mask) ||
	    walker_read(env, walker_read(env, at + b->context_thread) + b->thread_status) & 3)
		return 0;
	const uint64_t word = frame_word(0, RUBY_FRAME_COLLECT, 0);

	return push_managed(s, BH_RUNTIME_RUBY, 0, 1, &word);
}

RUNTIME_PART(ruby, start)

/* Returns whether the frames from p->frame on are the outermost ones, and all of them are of C
 * code, such as that of an enumerator that has started a fiber. No rb_vm_exec has them. */
static __always_inline int ruby_is_tail(struct unwind_state *s, UNWIND_ENV env,
					const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	const uint64_t frame = p->frame;
	int is_tail = 1;

	if (p->end - frame > TAIL_MAX * (uint64_t)b->frame_bytes)
		return 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < TAIL_MAX && p->frame < p->end && is_tail; i++) {
		is_tail =
		    RUNTIME_CALL(ruby, read_frame, s, env, b) && (p->flags & RUBY_FLAG_C) != 0;
		p->frame += b->frame_bytes;
	}
	p->frame = frame;
	return is_tail;
}

RUNTIME_PART(ruby, is_tail)

/* Pushes the frames of the rb_vm_exec at s->pc, up to the call that C code has made. Sets goes_on
 * if there may be more. */
static __always_inline int ruby_take(struct unwind_state *s, UNWIND_ENV env,
				     const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	struct method_cache *cache = env_method_cache(env);
	int end;

	p->goes_on = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < FRAMES_PER_WALK; i++) {
		if (p->frame >= p->end)
			return UNWIND_CONTINUE;
		if (!ruby_get_frame(s, env, b, 0) && !RUNTIME_CALL(ruby, read_frame, s, env, b))
			return BH_REASON_RUNTIME;
		p->frame += b->frame_bytes;
		if (p->flags & RUBY_FLAG_C) {
			if ((p->flags & RUBY_FLAG_TYPE) != RUBY_TYPE_C)
				continue;
			end = RUNTIME_CALL(ruby, push_c, s, env, b);
			if (end)
				return end;
			continue;
		}
		if (p->code && (p->pc || p->jit || p->compiled)) {
			end = !p->innermost && ruby_recall_code(s, cache)
				  ? ruby_push(s)
				  : RUNTIME_CALL(ruby, push_code, s, env, b);
			if (end)
				return end;
		}
		if ((p->flags & RUBY_FLAG_FINISH) && !RUNTIME_CALL(ruby, is_tail, s, env, b))
			return UNWIND_CONTINUE;
	}
	p->goes_on = 1;
	return UNWIND_CONTINUE;
}

/* Reads the next word of the stack at `at`. Returns 1 if it is where compiled code returns to: in
 * the loop or in rb_vm_exec (then sets is_exec), after a call. */
static __always_inline int ruby_try_word(struct unwind_state *s, UNWIND_ENV env,
					 const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	uint8_t code[8];
	int found = 0;

	p->before = p->return_address;
	if (stack_read_word(s, env, s->sp, p->at, &p->return_address) != UNWIND_CONTINUE)
		return 0;
	p->at += 8;
	UNWIND_NO_UNROLL
	for (int i = 0; i < RUBY_PARTS; i++) {
		const uint64_t start = b->parts[i].start;

		if (p->return_address - start - 1 < b->parts[i].end - start) {
			p->is_exec = b->parts[i].is_exec;
			found = 1;
		}
	}
	/* call *%reg, call *offset(%reg), or the call of a function that has jumped to the code.
	 * Labels of the loop do not come after a call. */
	return found && !env_read(env, code, sizeof(code), p->return_address - sizeof(code)) &&
	       ((code[6] == 0xff && (code[7] & 0xf8) == 0xd0) ||
		(code[5] == 0xff && (code[6] & 0xf8) == 0x50) || code[3] == 0xe8);
}

RUNTIME_PART(ruby, try_word)

/* Returns whether compiled code that was interrupted is returning to rb_vm_exec: it has removed the
 * marked frame a moment ago, and is where that frame says that compiled code goes on. */
static __always_inline int ruby_was_left(const struct unwind_state *s, UNWIND_ENV env,
					 const struct ruby_block *b)
{
	const uint64_t removed = ruby_state(s)->frame - b->frame_bytes;

	return s->pc - walker_read(env, removed + b->jit_return) < COMPILED_LEAVE_BYTES &&
	       (walker_read(env, walker_read(env, removed + RUBY_FRAME_ENVIRONMENT)) &
		RUBY_FLAG_FINISH);
}

/* Leaves compiled code: sets pc and sp to those of the loop or of rb_vm_exec. Returns whether the
 * return address was found. */
static __always_inline int ruby_leave_compiled(struct unwind_state *s, UNWIND_ENV env,
					       const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);
	int found = 0;

	p->at = s->sp;
	UNWIND_NO_UNROLL
	for (int i = 0; i < COMPILED_STACK_WORDS && !found; i++)
		found = RUNTIME_CALL(ruby, try_word, s, env, b);
	if (!found)
		return 0;
	if (s->registers_known && p->is_exec && ruby_was_left(s, env, b))
		p->is_left = 1;
	/* With --yjit-perf, compiled code has a frame pointer. */
	if (s->fp == p->at - 16)
		s->fp = p->before;
	p->compiled = 1;
	s->pc = p->return_address;
	s->sp = p->at;
	s->registers_known = 0;
	s->bx_known = 0;
	return 1;
}

RUNTIME_PART(ruby, leave_compiled)

static __always_inline int ruby_walk(struct unwind_state *s, UNWIND_ENV env,
				     const struct ruby_block *b)
{
	struct ruby_state *p = ruby_state(s);

	s->runtime.verdict = WALKER_REPLACED;
	if (!p->started) {
		const int end = RUNTIME_CALL(ruby, start, s, env, b);

		if (end)
			return end;
	}
	if (!p->frame) {
		s->runtime.verdict = WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	if (s->runtime.data == RUBY_RANGE_JIT) {
		s->runtime.verdict =
		    RUNTIME_CALL(ruby, leave_compiled, s, env, b) ? WALKER_MOVED : WALKER_NOT_MINE;
		return UNWIND_CONTINUE;
	}
	if (s->runtime.data != RUBY_RANGE_EXEC)
		return UNWIND_CONTINUE;
	if (p->is_left) {
		p->is_left = 0;
		return UNWIND_CONTINUE;
	}
	/* Another walker may have used the room of the copies. */
	if (s->runtime.started != 1u << BH_RUNTIME_RUBY && !p->goes_on) {
		p->frames_bytes = 0;
		p->environment_start = 0;
	}
	const int end = ruby_take(s, env, b);

	if (end == UNWIND_CONTINUE && p->goes_on)
		s->runtime.verdict = WALKER_CALL_AGAIN;
	return end;
}

RUNTIME_WALKER(ruby, BH_RUNTIME_RUBY)

/* Copies what the name of the new code needs, for the frame in the struct bh_memory_copy at the
 * start of s->runtime.heap. Returns the size of all. */
static __always_inline int ruby_copy_code(struct unwind_state *s, UNWIND_ENV env,
					  const struct ruby_block *b)
{
	struct ruby_copy *copy = (void *)s->runtime.heap;
	const uint64_t address = copy->start.frame & BH_ADDRESS_MASK;
	const uint64_t class = bh_frame_words(copy->start.frame) == 3 ? copy->start.more[0] : 0;

	s->runtime.heap_bytes = 0;
	if (frame_word_kind(copy->start.word) == RUBY_FRAME_C) {
		ruby_copy_c(env, b, (void *)s->runtime.heap, address, class);
		return sizeof(struct ruby_copy_c);
	}
	walker_copy_part(env, &copy->body_part, copy->body, sizeof(copy->body), address,
			 sizeof(copy->body));
	ruby_copy_class(env, b, &copy->class, class);
	const int has_body = copy->body_part.bytes != 0;

	ruby_copy_string(env, &copy->label, has_body ? copy->body[RUBY_BODY_LABEL] : 0);
	ruby_copy_string(env, &copy->base, has_body ? copy->body[RUBY_BODY_BASE] : 0);
	ruby_copy_path(env, copy, has_body ? copy->body[RUBY_BODY_PATH] : 0);
	const uint64_t entries = copy->body[bits_mask(b->lines >> 3, 15)];
	const uint64_t ranks = copy->body[bits_mask(b->lines >> 3, 15) + 3];

	walker_copy_text(env, &copy->entries_part, copy->entries, sizeof(copy->entries),
			 has_body ? entries : 0);
	walker_copy_text(env, &copy->ranks_part, copy->ranks, sizeof(copy->ranks),
			 has_body ? ranks : 0);
	return sizeof(*copy);
}

RUNTIME_PART(ruby, copy_code)

#define RUNTIME_COPY walker_ruby_copy_code

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The walker of Go: stacks that grow, labels, and ids of goroutines.
 *
 * How this works. Go is unwound like native code, so there are no frames to find, except where a
 * stack becomes too small: runtime.morestack goes on with the stack of the thread, and nothing
 * there refers to that of the goroutine. It has saved where the goroutine goes on, which the walker
 * reads. It does not show the frame of runtime.morestack, as tracebacks of Go do not.
 *
 * A goroutine may have labels, and these are pushed as one frame, which the symbolizer turns into
 * labels of the stack. The walker is called for the function from which each goroutine starts,
 * runtime.goexit, that is at the end of the stack. The goroutine is the user of the thread at that
 * moment (runtime.m.curg), even if the thread was in the scheduler, in a signal handler or in C
 * code. The stack that was walked must be that of this goroutine. So no labels of another one are
 * shown.
 *
 * Each request often makes labels of its own with the same texts. So the frame contains a hash of
 * the texts, and not where they are. The id of the goroutine is no frame: it is a part of the
 * sample, so that all goroutines share their stacks.
 *
 * Example: pprof.Do(ctx, pprof.Labels("request", "checkout"), work). The stack is work, pprof.Do,
 * main.handle, runtime.goexit. At the last one the walker reads runtime.g from thread-local
 * storage, then runtime.m, its goroutine, and the list {"request", "checkout"}, and pushes the hash
 * of both texts.
 */
#include "bpf/runtime/walker.h"
#include "bpf/runtime/go.h"
#include "bpf/runtime/go_copy.h"

/* What the walker keeps (RUNTIME_STATE). */
struct go_state {
	/* These are zero at the start of a stack. */
	uint64_t done, moved;
	uint64_t list, count; /* where the labels are; of a slice, how many */
	uint64_t hash;
	/* These are not. */
	uint64_t address, length; /* of a text */
};

RUNTIME_STATE(go, BH_RUNTIME_GO)

/* Returns the goroutine that is the user of the thread, or 0, and reads the bounds of its stack. */
static __always_inline uint64_t go_user(UNWIND_ENV env, const struct go_block *b,
					uint64_t bounds[2])
{
	const uint64_t current = walker_read(env, env_thread_pointer(env) + b->current);
	const uint64_t thread = current ? walker_read(env, current + b->thread) : 0;
	const uint64_t user = thread ? walker_read(env, thread + b->user) : 0;

	return user && !env_read(env, bounds, 2 * sizeof(bounds[0]), user + GO_STACK_LOW) ? user
											  : 0;
}

static __always_inline int go_is_inside(const uint64_t bounds[2], uint64_t sp)
{
	return sp > bounds[0] && sp <= bounds[1];
}

/* Finds the goroutine whose stack was walked. Returns its address, or 0. */
static __always_inline uint64_t go_goroutine(const struct unwind_state *s, UNWIND_ENV env,
					     const struct go_block *b)
{
	uint64_t bounds[2];
	const uint64_t user = go_user(env, b, bounds);

	return user && go_is_inside(bounds, s->sp) ? user : 0;
}

/* Moves from runtime.morestack, which is on the stack of the thread, to the function whose stack is
 * too small. If the thread has another user by now, or none, the stack ends here. */
static __always_inline int go_move(struct unwind_state *s, UNWIND_ENV env, const struct go_block *b)
{
	struct go_state *p = go_state(s);
	uint64_t bounds[2];
	const uint64_t user = go_user(env, b, bounds);

	/* Before it has switched the stack, its rules are right. */
	if (p->moved || !user || go_is_inside(bounds, s->sp))
		return UNWIND_CONTINUE;
	const uint64_t pc = walker_read(env, user + b->saved_pc);
	const uint64_t sp = walker_read(env, user + b->saved_sp);

	if (!pc || !go_is_inside(bounds, sp))
		return UNWIND_CONTINUE;
	s->pc = pc;
	s->sp = sp;
	s->fp = walker_read(env, user + b->saved_fp);
	s->registers_known = 0;
	s->runtime.verdict = WALKER_MOVED;
	p->moved = 1;
	return UNWIND_CONTINUE;
}

RUNTIME_PART(go, move)

/* Finds the goroutine and its list of labels: sets the id of the sample's goroutine, `list` and
 * `count`. `list` is 0 if there is none. */
static __always_inline int go_find(struct unwind_state *s, UNWIND_ENV env, const struct go_block *b)
{
	struct go_state *p = go_state(s);
	const uint64_t goroutine = go_goroutine(s, env, b);
	uint64_t words[3];

	p->list = 0;
	p->count = 0;
	if (goroutine && b->id)
		s->runtime.goroutine = walker_read(env, goroutine + b->id);
	const uint64_t labels =
	    goroutine && b->labels ? walker_read(env, goroutine + b->labels) : 0;

	if (!labels || env_read(env, words, 2 * sizeof(words[0]), labels))
		return 0;
	if (!b->is_map) {
		p->list = words[0];
		p->count = words[1] < GO_LABELS_MAX ? words[1] : GO_LABELS_MAX;
		return 0;
	}
	/* A map is a pointer. */
	if (!words[0] || env_read(env, words, sizeof(words), words[0]))
		return 0;
	if (!(words[GO_MAP_BITS / 8] >> GO_MAP_BITS % 8 * 8 & 0xff))
		p->list = words[GO_MAP_BUCKETS / 8];
	return 0;
}

RUNTIME_PART(go, find)

/* Returns the bytes of the list. */
static __always_inline uint64_t go_list_bytes(const struct go_state *p, const struct go_block *b)
{
	const uint64_t bytes = b->is_map ? GO_BUCKET_BYTES : p->count * GO_LABEL_SIZE;

	return bytes < GO_LIST_BYTES ? bytes : GO_LIST_BYTES;
}

/* Adds the text at `address` to the hash. */
static __always_inline int go_add_text(struct unwind_state *s, UNWIND_ENV env,
				       const struct go_block *b)
{
	struct go_state *p = go_state(s);
	uint64_t words[GO_LABEL_WORDS] = {0};
	uint64_t bytes = p->length;

	(void)b;
	if (bytes > GO_LABEL_BYTES)
		bytes = GO_LABEL_BYTES;
	/* The check and the use must be in one register for the verifier. */
	asm volatile("" : "+r"(bytes));
	if (bytes && bytes <= GO_LABEL_BYTES && env_read(env, words, bytes, p->address))
		return 1;
	uint64_t hash = go_hash(p->hash, bytes);

	for (int i = 0; i < GO_LABEL_WORDS; i++)
		hash = go_hash(hash, words[i]);
	p->hash = hash;
	return 0;
}

RUNTIME_PART(go, add_text)

/* Adds a text of the list to the hash. Returns 0 if it could be read. */
static __always_inline int go_add(struct unwind_state *s, UNWIND_ENV env, const struct go_block *b,
				  uint32_t label, uint32_t is_value)
{
	struct go_state *p = go_state(s);
	const uint32_t at = go_text_word(b->is_map, label, is_value);

	p->address = s->runtime.heap[bits_mask(at, HEAP_COPY_WORDS - 1)];
	p->length = s->runtime.heap[bits_mask(at + 1, HEAP_COPY_WORDS - 1)];
	return RUNTIME_CALL(go, add_text, s, env, b);
}

/* Computes the hash of all labels. Returns whether there are any that could be read. */
static __always_inline int go_hash_all(struct unwind_state *s, UNWIND_ENV env,
				       const struct go_block *b)
{
	struct go_state *p = go_state(s);
	uint64_t bytes = go_list_bytes(p, b);
	int any = 0;

	s->runtime.heap_bytes = 0;
	p->hash = 0;
	asm volatile("" : "+r"(bytes));
	if (!bytes || bytes > GO_LIST_BYTES || env_read(env, s->runtime.heap, bytes, p->list))
		return 0;
	UNWIND_NO_UNROLL
	for (uint32_t i = 0; i < GO_LABELS_MAX; i++) {
		if (!go_has_label(b->is_map, s->runtime.heap[0], (uint32_t)p->count, i))
			continue;
		if (go_add(s, env, b, i, 0) || go_add(s, env, b, i, 1))
			return 0;
		any = 1;
	}
	return any;
}

RUNTIME_PART(go, hash_all)

static __always_inline int go_walk(struct unwind_state *s, UNWIND_ENV env, const struct go_block *b)
{
	struct go_state *p = go_state(s);

	s->runtime.verdict = WALKER_NOT_MINE;
	if (s->runtime.data == GO_RANGE_GROW)
		return RUNTIME_CALL(go, move, s, env, b);
	if (p->done)
		return UNWIND_CONTINUE;
	p->done = 1;
	RUNTIME_CALL(go, find, s, env, b);
	if (!p->list || !RUNTIME_CALL(go, hash_all, s, env, b))
		return UNWIND_CONTINUE;
	const uint64_t word = go_frame_word(p->hash);
	const int end = push_managed(s, BH_RUNTIME_GO, go_frame_payload(p->hash), 1, &word);

	s->runtime.new_code = 1;
	return end ? end : UNWIND_CONTINUE;
}

RUNTIME_WALKER(go, BH_RUNTIME_GO)

/* Copies a text of the list, or what counts of it. */
static __always_inline void go_copy_one(UNWIND_ENV env, struct go_copied_text *to,
					const uint64_t *text, int is_there)
{
	const uint64_t bytes = text[1] < GO_LABEL_BYTES ? text[1] : GO_LABEL_BYTES;

	walker_copy_part(env, &to->part, to->text, sizeof(to->text), text[0], is_there ? bytes : 0);
}

/* Copies the labels of the present stack after the struct bh_memory_copy at the start of
 * s->runtime.heap. Returns the size of all. */
static __always_inline int go_copy_code(struct unwind_state *s, UNWIND_ENV env,
					const struct go_block *b)
{
	struct go_copy *copy = (void *)s->runtime.heap;
	const struct go_state *p = go_state(s);

	s->runtime.heap_bytes = 0;
	walker_copy_part(env, &copy->list_part, copy->list, sizeof(copy->list), p->list,
			 go_list_bytes(p, b));
	if (!copy->list_part.bytes)
		return 0;
	UNWIND_NO_UNROLL
	for (uint32_t i = 0; i < GO_LABELS_MAX; i++) {
		const int is_there = go_has_label(b->is_map, copy->list[0], (uint32_t)p->count, i);

		for (uint32_t j = 0; j < 2; j++) {
			const uint64_t at = bits_mask(go_text_word(b->is_map, i, j), 63);

			if (at < GO_LIST_WORDS - 1)
				go_copy_one(env, &copy->texts[i][j], &copy->list[at], is_there);
		}
	}
	return sizeof(*copy);
}

RUNTIME_PART(go, copy_code)

#define RUNTIME_COPY walker_go_copy_code

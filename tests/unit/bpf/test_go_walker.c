/* SPDX-License-Identifier: Apache-2.0 */
/* The walker of Go: whose labels and id a stack gets, where it goes on when it grows, and what
 * forged structures do. */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

/* Addresses of a program's memory, and indexes of its words. */
enum {
	THREAD_POINTER = 4,
	SCHEDULER = 16, /* the runtime.g on whose stack the scheduler of a thread runs */
	THREAD = 48,	/* its runtime.m */
	GOROUTINE = 64,
	OTHER = 96,
	SLICE = 128,
	LIST = 144,
	TEXTS = 200,
	WORDS = 400,
	TEXT_WORDS = 8,
};
#define BASE 0xc000000000ull
#define STACK_LOW 0xc000800000ull
#define STACK_HIGH 0xc000808000ull

static uint64_t memory[WORDS];
static struct unwind_state state;
static const struct test_env program = {.memory = memory, .start = BASE, .bytes = sizeof(memory)};

static uint64_t env_thread_pointer(UNWIND_ENV from)
{
	(void)from;
	return BASE + THREAD_POINTER * 8;
}

#include "bpf/runtime/go.bpf.c"

static const struct go_block offsets = {
    .current = -8, .thread = 0x30, .user = 0x18, .labels = 0x40};
static struct bh_runtime_block block;
static unsigned int texts;

static uint64_t address(unsigned int word)
{
	return BASE + word * 8;
}

static void set_stack(unsigned int goroutine, uint64_t low, uint64_t high)
{
	memory[goroutine] = low;
	memory[goroutine + 1] = high;
}

/* Writes a text as {address, length}. */
static void put_text(unsigned int word, const char *text)
{
	const unsigned int at = TEXTS + texts++ * TEXT_WORDS;

	memset(&memory[at], 0, TEXT_WORDS * 8);
	memcpy(&memory[at], text, strlen(text));
	memory[word] = address(at);
	memory[word + 1] = strlen(text);
}

/* A thread runs a goroutine with one label. */
static void set_up(void)
{
	memset(memory, 0, sizeof(memory));
	memset(&state, 0, sizeof(state));
	memset(&block, 0, sizeof(block));
	texts = 0;
	memcpy(&block, &offsets, sizeof(offsets));
	memory[THREAD_POINTER - 1] = address(GOROUTINE);
	memory[GOROUTINE + offsets.thread / 8] = address(THREAD);
	memory[SCHEDULER + offsets.thread / 8] = address(THREAD);
	memory[THREAD + offsets.user / 8] = address(GOROUTINE);
	set_stack(GOROUTINE, STACK_LOW, STACK_HIGH);
	set_stack(OTHER, STACK_LOW + 0x100000, STACK_HIGH + 0x100000);
	memory[GOROUTINE + offsets.labels / 8] = address(SLICE);
	memory[SLICE] = address(LIST);
	memory[SLICE + 1] = 1;
	put_text(LIST, "request");
	put_text(LIST + 2, "checkout");
	unwind_start(&state);
	state.sp = STACK_HIGH;
}

TestSuite(go_walker, .init = set_up);

/* Calls the walker at the end of another stack. Returns how many words it has pushed. */
static unsigned int walk(void)
{
	unwind_start(&state);
	cr_assert_eq(walker_go(&state, &program, &block), UNWIND_CONTINUE);
	cr_assert_eq(state.runtime.verdict, WALKER_NOT_MINE, "the native frame stays");
	return state.frame_count;
}

static uint64_t hash_of(uint64_t hash, const char *text)
{
	uint64_t padded[GO_LABEL_WORDS] = {0};

	memcpy(padded, text, strlen(text));
	hash = go_hash(hash, strlen(text));
	for (int i = 0; i < GO_LABEL_WORDS; i++)
		hash = go_hash(hash, padded[i]);
	return hash;
}

static void expect_labels(const char *key, const char *value)
{
	const uint64_t hash = hash_of(hash_of(0, key), value);

	cr_assert_eq(walk(), 2);
	cr_expect_eq(state.frames[0] & BH_ADDRESS_MASK, go_frame_payload(hash));
	cr_expect_eq(state.frames[1], go_frame_word(hash));
}

Test(go_walker, a_goroutine_has_its_labels)
{
	expect_labels("request", "checkout");
	/* The same texts elsewhere are the same labels. */
	put_text(LIST, "request");
	put_text(LIST + 2, "checkout");
	expect_labels("request", "checkout");
	put_text(LIST + 2, "check");
	expect_labels("request", "check");
}

Test(go_walker, labels_are_pushed_once_for_a_stack)
{
	cr_assert_eq(walk(), 2);
	cr_assert_eq(walker_go(&state, &program, &block), UNWIND_CONTINUE);
	cr_expect_eq(state.frame_count, 2);
}

/* The scheduler works for a goroutine, as in the allocator of memory. */
Test(go_walker, the_goroutine_is_the_user_of_the_thread)
{
	memory[THREAD_POINTER - 1] = address(SCHEDULER);
	set_stack(SCHEDULER, 0x7f0000000000, 0x7f0000010000);
	expect_labels("request", "checkout");
}

/* The word after the labels is the id. */
Test(go_walker, the_id_is_that_of_the_goroutine)
{
	struct go_block with_id = offsets;

	memory[GOROUTINE + 9] = 17;
	memory[OTHER + 9] = 18;
	walk();
	cr_expect_eq(state.runtime.goroutine, 0, "it is not wanted");
	with_id.id = 0x48;
	memcpy(&block, &with_id, sizeof(with_id));
	expect_labels("request", "checkout");
	cr_expect_eq(state.runtime.goroutine, 17);
	/* A program that gives no labels. */
	with_id.labels = 0;
	memcpy(&block, &with_id, sizeof(with_id));
	cr_expect_eq(walk(), 0);
	cr_expect_eq(state.runtime.goroutine, 17);
	/* The thread has another user by now. */
	memory[THREAD + offsets.user / 8] = address(OTHER);
	cr_expect_eq(walk(), 0);
	cr_expect_eq(state.runtime.goroutine, 0);
}

enum {
	SAVED_PC = 0x4a1234,
	SAVED_FP = 0x1111,
};

/* The thread calls runtime.newstack on its own stack. */
static void grow(void)
{
	struct go_block saved = offsets;

	saved.saved_pc = 0x58;
	saved.saved_sp = 0x50;
	saved.saved_fp = 0x60;
	memcpy(&block, &saved, sizeof(saved));
	memory[GOROUTINE + 0x58 / 8] = SAVED_PC;
	memory[GOROUTINE + 0x50 / 8] = STACK_LOW + 0x100;
	memory[GOROUTINE + 0x60 / 8] = SAVED_FP;
	memory[THREAD_POINTER - 1] = address(SCHEDULER);
	state.pc = 0x47d8a0;
	state.sp = 0x7f0000001000;
	unwind_start(&state);
	state.runtime.data = GO_RANGE_GROW;
}

static unsigned int moves(void)
{
	cr_assert_eq(walker_go(&state, &program, &block), UNWIND_CONTINUE);
	cr_assert_eq(state.frame_count, 0);
	return state.runtime.verdict == WALKER_MOVED;
}

Test(go_walker, a_stack_that_grows_goes_on_with_the_goroutine)
{
	grow();
	cr_assert(moves());
	cr_expect_eq(state.pc, SAVED_PC);
	cr_expect_eq(state.sp, STACK_LOW + 0x100);
	cr_expect_eq(state.fp, SAVED_FP);
	cr_expect_eq(state.registers_known, 0);
	/* Forged, so that it goes round. */
	state.sp = 0x7f0000001000;
	cr_expect_not(moves());
	cr_expect_eq(state.sp, 0x7f0000001000);
}

Test(go_walker, a_stack_that_does_not_belong_to_the_goroutine_ends)
{
	static const uint64_t pointers[] = {0, STACK_LOW, STACK_HIGH + 8, 0x7f0000001000,
					    UINT64_MAX};

	/* It has not been left yet. */
	grow();
	state.sp = STACK_LOW + 0x200;
	cr_expect_not(moves());
	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		grow();
		memory[GOROUTINE + 0x50 / 8] = pointers[i];
		cr_expect_not(moves(), "%zu", i);
		cr_expect_eq(state.pc, 0x47d8a0);
	}
	/* Another thread may run it. */
	grow();
	memory[THREAD + offsets.user / 8] = 0;
	cr_expect_not(moves());
	grow();
	memory[THREAD + offsets.user / 8] = address(OTHER);
	cr_expect_not(moves());
}

Test(go_walker, another_stack_has_none)
{
	static const uint64_t pointers[] = {0,
					    STACK_LOW - 8,
					    STACK_LOW,
					    STACK_HIGH + 8,
					    STACK_HIGH + 0x100000,
					    0x7f0000001000,
					    UINT64_MAX};

	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		state.sp = pointers[i];
		cr_expect_eq(walk(), 0, "%zu", i);
	}
	/* The user of the thread has changed meanwhile. */
	state.sp = STACK_HIGH;
	memory[THREAD + offsets.user / 8] = address(OTHER);
	memory[OTHER + offsets.labels / 8] = address(SLICE);
	cr_expect_eq(walk(), 0);
	/* Bounds that are the other way round, or as wide as they can be. */
	memory[THREAD + offsets.user / 8] = address(GOROUTINE);
	set_stack(GOROUTINE, STACK_HIGH, STACK_LOW);
	cr_expect_eq(walk(), 0);
	set_stack(GOROUTINE, 0, UINT64_MAX);
	cr_expect_eq(walk(), 2, "it is the program's own doing");
}

Test(go_walker, pointers_that_cannot_be_followed)
{
	const unsigned int links[] = {THREAD_POINTER - 1, GOROUTINE + offsets.thread / 8,
				      THREAD + offsets.user / 8, GOROUTINE + offsets.labels / 8,
				      SLICE};
	static const uint64_t forged[] = {
	    0, 1, BASE - 8, BASE + sizeof(memory) - 4, UINT64_MAX, 1ull << 63};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		for (size_t j = 0; j < sizeof(forged) / sizeof(forged[0]); j++) {
			set_up();
			memory[links[i]] = forged[j];
			cr_expect_eq(walk(), 0, "%zu %zu", i, j);
		}
	}
}

Test(go_walker, forged_lengths)
{
	memory[SLICE + 1] = 0;
	cr_expect_eq(walk(), 0);
	/* More labels than there is room for: the first ones, of which the others are empty. */
	memory[SLICE + 1] = UINT64_MAX;
	cr_expect_eq(walk(), 2);
	/* Of a longer text, the start counts. */
	memory[SLICE + 1] = 1;
	memory[LIST + 3] = UINT64_MAX;
	cr_expect_eq(walk(), 2);
	memory[LIST + 3] = GO_LABEL_BYTES;
	const uint64_t cut = state.frames[1];
	cr_expect_eq(walk(), 2);
	cr_expect_eq(state.frames[1], cut);
	/* The end cannot be read. */
	memory[LIST + 2] = BASE + sizeof(memory) - 8;
	cr_expect_eq(walk(), 0);
}

/* Before Go 1.24: a map, whose only bucket is the list. */
static void set_up_map(uint64_t log_of_buckets)
{
	struct go_block *b = (void *)&block;

	set_up();
	b->is_map = 1;
	memory[SLICE] = address(SLICE + 2);
	memory[SLICE + 2 + GO_MAP_BITS / 8] = log_of_buckets << GO_MAP_BITS % 8 * 8;
	memory[SLICE + 2 + GO_MAP_BUCKETS / 8] = address(LIST);
	memset(&memory[LIST], 0, GO_BUCKET_BYTES);
	/* The second place, after a label that was deleted. */
	memory[LIST] = 1 | 0xffull << 8;
	put_text(LIST + GO_BUCKET_KEYS / 8 + 2, "tenant");
	put_text(LIST + GO_BUCKET_VALUES / 8 + 2, "blue");
}

Test(go_walker, maps)
{
	set_up_map(0);
	expect_labels("tenant", "blue");
	memory[LIST] = 0;
	cr_expect_eq(walk(), 0, "it is empty");
	set_up_map(1);
	cr_expect_eq(walk(), 0, "the labels are in several buckets");
}

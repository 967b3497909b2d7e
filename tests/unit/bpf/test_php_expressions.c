/* SPDX-License-Identifier: Apache-2.0 */
/* The walker of PHP in regular expressions that PCRE2 has compiled (bpf/runtime/sljit.h). */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#define METHOD_CACHE_BITS 4
#include "tests/unit/bpf/unwind_env.h"

#include "bpf/runtime/method_cache.h"

/* Offsets in the memory: two chunks of 64 KiB, and then the stack. */
enum {
	CHUNK = 1 << 16,
	FREE_BYTES = 0xdab8,
	BLOCK = FREE_BYTES,
	BLOCK_BYTES = 0x1540,
	CODE = BLOCK + 16,
	STACK = 2 * CHUNK,
	STACK_BYTES = 4096,
	FRAME_BYTES = 0x50,
	SAVED_WORDS = 5,
};
#define BASE 0x7f8000000000ull
#define CALLER 0x7f9000001234ull
#define SAVED_RBP 0x7ffd00001000ull
#define SAVED_RBX 0x1234567ull

static uint8_t memory[STACK + STACK_BYTES];
static struct unwind_state state;
static struct bh_runtime_block published;
static const struct test_env program = {.memory = memory, .start = BASE, .bytes = sizeof(memory)};

static uint64_t env_thread_pointer(UNWIND_ENV env)
{
	(void)env;
	return 0;
}

static struct method_cache *env_method_cache(UNWIND_ENV env)
{
	(void)env;
	return NULL;
}

#include "bpf/runtime/php.bpf.c"

static void put_words(uint64_t at, const uint64_t *words, size_t count)
{
	memcpy(memory + at, words, count * sizeof(*words));
}

static void put_header(uint64_t at, uint64_t size, uint64_t previous_size)
{
	put_words(at, (const uint64_t[]){size, previous_size}, 2);
}

static void put_free_header(uint64_t at, uint64_t size, uint64_t previous_size)
{
	put_words(at, (const uint64_t[]){0, previous_size, 0, 0, size}, 5);
}

/* push rbx; push r15; push r14; push r13; push rbp; mov rbx, rdi; sub rsp, 0x50 */
static const uint8_t entry[] = {0x53, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55,	0x55,
				0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, FRAME_BYTES};

/* The function is in its frame of `frame_bytes`, below the registers that its first `pushes`
 * instructions have saved. */
static void put_stack(uint64_t frame_bytes, unsigned int pushes)
{
	const uint64_t saved[SAVED_WORDS] = {SAVED_RBX, 15, 14, 13, SAVED_RBP};
	uint64_t at = STACK + frame_bytes;

	for (unsigned int i = pushes; i > 0; i--, at += 8)
		put_words(at, &saved[i - 1], 1);
	put_words(at, (const uint64_t[]){CALLER}, 1);
}

/* One chunk with a free block, a block with a function, and the end of the chunk. */
static void set_up(void)
{
	memset(memory, 0, sizeof(memory));
	memset(&state, 0, sizeof(state));
	memset(&published, 0, sizeof(published));
	put_free_header(0, FREE_BYTES, 0);
	put_header(BLOCK, BLOCK_BYTES, FREE_BYTES);
	put_header(BLOCK + BLOCK_BYTES, CHUNK - 16 - BLOCK - BLOCK_BYTES, BLOCK_BYTES);
	put_header(CHUNK - 16, 1, CHUNK - 16 - BLOCK - BLOCK_BYTES);
	memcpy(memory + CODE, entry, sizeof(entry));
	put_stack(FRAME_BYTES, SAVED_WORDS);
	unwind_start(&state);
	state.runtime.data = PHP_RANGE_EXPRESSIONS;
	state.runtime.range_start = BASE;
	state.runtime.range_end = BASE + STACK;
	state.sp = BASE + STACK;
	state.fp = 5;
	state.gpr[BH_REG_RBX] = 3;
	state.pc = BASE + CODE + 0x400;
}

TestSuite(php_expressions, .init = set_up);

static void walk(void)
{
	cr_assert_eq(walker_php(&state, &program, &published), UNWIND_CONTINUE);
}

/* The walker has pushed the frame, and gone to its caller, above `bytes` of stack. */
static void expect_caller(uint64_t bytes, uint64_t fp, uint64_t bx)
{
	const uint64_t pc = state.pc;

	walk();
	cr_assert_eq(state.runtime.verdict, WALKER_MOVED);
	cr_expect_eq(state.frame_count, 1);
	cr_expect_eq(state.frames[0], bh_frame_raw(pc));
	cr_expect_eq(state.pc, CALLER);
	cr_expect_eq(state.sp, BASE + STACK + bytes + 8);
	cr_expect_eq(state.fp, fp);
	cr_expect_eq(state.gpr[BH_REG_RBX], bx);
	cr_expect_eq(state.registers_known, 0);
}

static void expect_not_mine(void)
{
	const uint64_t pc = state.pc, sp = state.sp;

	walk();
	cr_assert_eq(state.runtime.verdict, WALKER_NOT_MINE);
	cr_expect_eq(state.frame_count, 0);
	cr_expect_eq(state.pc, pc);
	cr_expect_eq(state.sp, sp);
}

Test(php_expressions, caller_of_a_function)
{
	expect_caller(FRAME_BYTES + SAVED_WORDS * 8, SAVED_RBP, SAVED_RBX);
}

Test(php_expressions, function_that_called_another_one)
{
	state.registers_known = 0;
	state.pc++;
	walk();
	cr_expect_eq(state.frames[0], bh_frame_raw(BASE + CODE + 0x400));
	cr_expect_eq(state.pc, CALLER);
}

Test(php_expressions, frames_of_other_sizes)
{
	static const uint8_t large[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x55, 0x48,
					0x81, 0xec, 0x00, 0x04, 0x00, 0x00};

	memcpy(memory + CODE, large, sizeof(large));
	memset(memory + STACK, 0, STACK_BYTES);
	put_words(STACK + 0x400, (const uint64_t[]){SAVED_RBP, SAVED_RBX, CALLER}, 3);
	expect_caller(0x400 + 2 * 8, SAVED_RBP, SAVED_RBX);
}

Test(php_expressions, function_that_makes_its_frame)
{
	static const struct {
		uint64_t executed; /* bytes */
		unsigned int pushes;
	} places[] = {{0, 0}, {1, 1}, {3, 2}, {5, 3}, {7, 4}, {8, 5}, {11, 5}};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		set_up();
		put_stack(0, places[i].pushes);
		state.pc = BASE + CODE + places[i].executed;
		expect_caller(places[i].pushes * 8, places[i].pushes == 5 ? SAVED_RBP : 5,
			      places[i].pushes ? SAVED_RBX : 3);
	}
}

Test(php_expressions, chunk_that_follows_another_one)
{
	memcpy(memory + CHUNK, memory, CHUNK);
	state.pc += CHUNK;
	expect_caller(FRAME_BYTES + SAVED_WORDS * 8, SAVED_RBP, SAVED_RBX);
}

Test(php_expressions, chunk_of_twice_the_size)
{
	put_header(BLOCK, 2 * CHUNK - 16 - BLOCK, FREE_BYTES);
	put_header(2 * CHUNK - 16, 1, 2 * CHUNK - 16 - BLOCK);
	memset(memory + BLOCK + BLOCK_BYTES, 0x90, 2 * CHUNK - 16 - BLOCK - BLOCK_BYTES);
	state.pc = BASE + CHUNK + 0x1000;
	expect_caller(FRAME_BYTES + SAVED_WORDS * 8, SAVED_RBP, SAVED_RBX);
}

Test(php_expressions, memory_that_is_free)
{
	state.pc = BASE + 0x1000;
	expect_not_mine();
}

Test(php_expressions, header_instead_of_code)
{
	state.pc = BASE + BLOCK + 8;
	expect_not_mine();
}

Test(php_expressions, sizes_that_contradict_each_other)
{
	put_header(BLOCK, BLOCK_BYTES, FREE_BYTES + 8);
	expect_not_mine();
}

Test(php_expressions, sizes_out_of_bounds)
{
	static const uint64_t sizes[] = {0, 1, 56, 0xdab1, 1ull << 32, ~0ull};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		set_up();
		put_free_header(0, sizes[i], 0);
		put_header(BLOCK, BLOCK_BYTES, sizes[i]);
		expect_not_mine();
	}
}

Test(php_expressions, too_many_blocks)
{
	for (uint64_t at = 0; at < BLOCK; at += SLJIT_BLOCK_LEAST)
		put_header(at, SLJIT_BLOCK_LEAST, at ? SLJIT_BLOCK_LEAST : 0);
	expect_not_mine();
}

Test(php_expressions, other_instructions)
{
	memory[CODE + 3] = 0xc3;
	expect_not_mine();
}

Test(php_expressions, only_pushes)
{
	memset(memory + CODE, 0x53, 2 * SLJIT_ENTRY_BYTES);
	expect_not_mine();
}

Test(php_expressions, caller_in_the_same_memory)
{
	put_words(STACK + FRAME_BYTES + SAVED_WORDS * 8, (const uint64_t[]){BASE + CODE}, 1);
	expect_not_mine();
}

Test(php_expressions, frame_beyond_the_stack)
{
	static const uint8_t large[] = {0x48, 0x81, 0xec, 0x00, 0xf0, 0x00, 0x00};

	memcpy(memory + CODE, large, sizeof(large));
	expect_not_mine();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The window of bpf/unwind/stack.h, next to the end of a stack. */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

enum {
	PAGE = 4096,
	STACK = 16 * PAGE,
	END = STACK + 2 * PAGE,
	WINDOW = STACK_WINDOW_WORDS * 8,
};

static struct unwind_state state;
/* Each word is its own address. */
static uint64_t stack[4 * PAGE / 8];
static unsigned int failures;
static struct test_env env = {.memory = stack, .failures = &failures};

/* The stack ends at END. What comes after that can be read later. */
static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	unwind_start(&state);
	for (size_t i = 0; i < sizeof(stack) / 8; i++)
		stack[i] = STACK + i * 8;
	env.start = STACK;
	env.bytes = END - STACK;
	failures = 0;
}

static void read_word(uint64_t near, uint64_t address)
{
	uint64_t value = 0;

	cr_assert_eq(stack_read_word(&state, &env, near, address, &value), UNWIND_CONTINUE);
	cr_assert_eq(value, address);
}

static void start_again(void)
{
	unwind_start(&state);
	failures = 0;
}

TestSuite(stack, .init = set_up);

Test(stack, window_starts_at_the_frame)
{
	read_word(STACK + 64, STACK + 128);
	cr_assert_eq(state.window_start, STACK + 64);
	read_word(STACK + WINDOW, STACK + 64 + WINDOW - 8);
	cr_assert_eq(state.window_start, STACK + 64);
	cr_assert_eq(failures, 0);
}

Test(stack, window_starts_at_a_word_far_from_the_frame)
{
	read_word(STACK + 64, STACK + 56);
	cr_assert_eq(state.window_start, STACK + 56);
	read_word(STACK + 64, STACK + 64 + WINDOW);
	cr_assert_eq(state.window_start, STACK + 64 + WINDOW);
}

Test(stack, words_need_not_be_aligned)
{
	uint64_t value = 0;

	read_word(STACK + 67, STACK + 128);
	cr_assert_eq(state.window_start, STACK + 64);
	cr_assert_eq(stack_read_word(&state, &env, STACK, STACK + 132, &value), UNWIND_CONTINUE);
	cr_assert_eq(value, (uint64_t)(STACK + 136) << 32);
	cr_assert_eq(stack_window_at(&state, &env, STACK + 132, 1), STACK_NO_WORDS);
}

Test(stack, window_ends_with_the_stack)
{
	const uint64_t near = END - 256;

	for (uint64_t at = near; at < END; at += 8)
		read_word(near, at);
	cr_assert_eq(state.window_start, END - WINDOW);
	cr_assert_eq(failures, 1, "the end was met once, not for each word");
	start_again();
	for (uint64_t at = near; at < END; at += 8)
		read_word(near, at);
	cr_assert_eq(failures, 0, "the end is remembered");
}

Test(stack, words_in_a_row_end_with_the_stack)
{
	const unsigned int count = 5;

	for (int turn = 0; turn < 2; turn++) {
		const uint64_t at = stack_window_at(&state, &env, END - count * 8, count);

		cr_assert_neq(at, STACK_NO_WORDS);
		for (unsigned int i = 0; i < count; i++)
			cr_assert_eq(stack_window_word(&state, at + i), END - count * 8 + i * 8);
		cr_assert_eq(failures, turn ? 0 : 1);
		start_again();
	}
}

Test(stack, nothing_beyond_the_end_is_read)
{
	uint64_t value = 0;

	for (int turn = 0; turn < 2; turn++) {
		cr_assert_eq(stack_window_at(&state, &env, END - 8, 2), STACK_NO_WORDS);
		cr_assert_eq(stack_window_at(&state, &env, END, 1), STACK_NO_WORDS);
		cr_assert_eq(stack_read_word(&state, &env, END - 64, END, &value),
			     BH_REASON_READ_FAULT);
		cr_assert_eq(stack_read_word(&state, &env, END, END, &value), BH_REASON_READ_FAULT);
		/* What is there can be read nevertheless. */
		read_word(END - 64, END - 8);
		start_again();
	}
}

Test(stack, a_frame_outside_does_not_hide_the_word)
{
	read_word(STACK - 8, STACK);
	read_word(END, END - 8);
}

/* An end that is remembered may belong to another process, or the stack has grown. */
Test(stack, a_wrong_end_only_makes_windows_shorter)
{
	read_word(END - 256, END - 8);
	cr_assert_eq(failures, 1);
	start_again();
	env.bytes = sizeof(stack);
	read_word(END - 256, END - 8);
	cr_assert_eq(state.window_start, END - WINDOW);
	read_word(END - 256, END);
	cr_assert_eq(state.window_start, END - 256);
	start_again();
	cr_assert_neq(stack_window_at(&state, &env, END - 8, 2), STACK_NO_WORDS);
	cr_assert_eq(failures, 0);
}

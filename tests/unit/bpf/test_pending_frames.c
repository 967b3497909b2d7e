/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

/* Addresses: an interpreter with two ranges, another interpreter, and code outside of all ranges. */
enum {
	LOOP = 0x401000,
	LOOP_COLD = 0x500000,
	OTHER = 0x600000,
	HELPER = 0x700000,
	RANGE_BYTES = 0x1000,
	STACK = 0x10000,
	FRAMES_MAX = 2 * BH_USER_FRAMES_MAX,
	STEPS_MAX = 4 * FRAMES_MAX,
	BLOCK = 7,
	OTHER_BLOCK = 8,
};

static struct unwind_state state;
static struct rule_cache cache;
static struct bh_runtime_table table;
/* A frame pointer and a return address for each frame, and room for a whole window after them. */
static uint64_t stack[2 * FRAMES_MAX + STACK_WINDOW_WORDS];
static const struct test_env env = {
    .runtimes = &table, .memory = stack, .start = STACK, .bytes = sizeof(stack)};

static void add_range(uint64_t start, uint16_t block)
{
	struct bh_runtime_range *range = &table.ranges[state.runtime.range_count++];

	*range = (struct bh_runtime_range){.start = start,
					   .end = start + RANGE_BYTES,
					   .runtime = BH_RUNTIME_CPYTHON,
					   .block = block};
}

/* Makes a stack with the code at pc, called from callers[0], which was called from callers[1]. */
static void set_up(uint64_t pc, const uint64_t *callers, int count)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
	memset(stack, 0, sizeof(stack));
	unwind_start(&state);
	add_range(LOOP, BLOCK);
	add_range(LOOP_COLD, BLOCK);
	add_range(OTHER, OTHER_BLOCK);
	state.runtime.code_filters[0] =
	    (struct bh_runtime_code_filter){.start = LOOP, .bytes = HELPER - LOOP};
	for (int i = 0; i < count; i++) {
		stack[2 * i] = STACK + 16 * (i + 1);
		stack[2 * i + 1] = callers[i];
	}
	state.last = (struct bh_mapping){
	    .start = 0x400000, .end = 0x800000, .module_id = TEST_MODULE, .slot = TEST_MODULE};
	state.pc = pc;
	state.sp = STACK;
	state.fp = STACK;
	state.registers_known = 0;
}

/* Fills the cache with the rules of these frames, as if the stack had been walked before. */
static void fill_cache(uint64_t pc, const uint64_t *callers, int count)
{
	for (int i = 0; i <= count; i++) {
		const uint64_t frame = tables_native_frame(&state, (i ? callers[i - 1] : pc) - 1);

		cache.entries[rule_cache_add(&cache, frame)].rule =
		    (struct bh_rule){.kind = BH_RULE_FP,
				     .cfa = 16,
				     .fp_kind = BH_FP_CFA,
				     .fp = -2,
				     .bx_kind = BH_FP_SAME};
	}
}

static void push(uint64_t payload)
{
	const uint64_t word = payload + 1;

	cr_assert_eq(push_managed(&state, BH_RUNTIME_CPYTHON, payload, 1, &word), 0);
	state.runtime.verdict = WALKER_REPLACED;
}

static void add_pending(uint64_t payload, int count)
{
	cr_assert(pending_begin(&state));
	for (int i = 0; i < count; i++, payload += 100)
		pending_push(&state, payload, payload + 1);
}

/* Unwinds until a walker has to be called, or the stack ends. */
static int walk(void)
{
	int end = UNWIND_CONTINUE;

	for (int i = 0; i < STEPS_MAX && end == UNWIND_CONTINUE; i++)
		end = unwind_steps(&state, &env, &cache);
	return end;
}

static void expect_managed(uint32_t at, uint64_t payload)
{
	cr_expect_eq(state.frames[at], bh_frame_managed(BH_RUNTIME_CPYTHON, payload, 1), "frame %u",
		     at);
	cr_expect_eq(state.frames[at + 1], payload + 1, "frame %u", at);
}

Test(pending_frames, each_stands_for_one_native_frame)
{
	const uint64_t callers[] = {HELPER + 1,	   LOOP + 2, HELPER + 2,
				    LOOP_COLD + 3, LOOP + 4, HELPER + 5};

	/* The first round uses unwind_step(), the second unwind_cached(). */
	for (int round = 0; round < 2; round++) {
		set_up(LOOP + 1, callers, 6);
		if (round)
			fill_cache(LOOP + 1, callers, 6);
		cr_assert_eq(walk(), UNWIND_CALL_WALKER);
		cr_assert_eq(state.frame_count, 0);
		push(100);
		add_pending(200, 3);
		cr_assert_eq(walk(), BH_REASON_COMPLETE);
		cr_assert_eq(state.frame_count, 4 * 2 + 3, "%u", state.frame_count);
		cr_assert_eq(state.runtime.managed_frames, 4);
		expect_managed(0, 100);
		cr_expect_eq(state.frames[2], (uint64_t)1 << BH_FRAME_OFFSET_BITS | HELPER);
		expect_managed(3, 200);
		expect_managed(6, 300);
		expect_managed(8, 400);
	}
}

Test(pending_frames, the_stack_id_is_the_same_as_with_a_call_for_each_frame)
{
	const uint64_t callers[] = {LOOP + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	for (uint64_t payload = 100; payload < 400; payload += 100) {
		cr_assert_eq(walk(), UNWIND_CALL_WALKER);
		push(payload);
	}
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	const uint64_t sum = state.stack_sum;

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	push(100);
	add_pending(200, 2);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	cr_assert_eq(state.stack_sum, sum);
}

Test(pending_frames, the_walker_is_called_when_no_frame_is_left)
{
	const uint64_t callers[] = {LOOP + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	push(100);
	add_pending(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.pc, LOOP + 3);
	cr_assert_eq(state.frame_count, 4);
}

Test(pending_frames, frames_of_another_block_do_not_use_them)
{
	const uint64_t callers[] = {OTHER + 2, LOOP_COLD + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	push(100);
	add_pending(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.block, OTHER_BLOCK);
	push(500);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	cr_assert_eq(state.frame_count, 6);
	expect_managed(2, 500);
	expect_managed(4, 200);
}

Test(pending_frames, a_second_list_cannot_start_while_frames_are_pending)
{
	const uint64_t callers[] = {OTHER + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	push(100);
	add_pending(200, PENDING_FRAMES_MAX);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.block, OTHER_BLOCK);
	cr_assert_not(pending_begin(&state));
	push(500);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	expect_managed(4, 200);
	for (uint32_t i = 1; i < PENDING_FRAMES_MAX; i++)
		cr_expect_eq(state.runtime.pending.frames[i].extra, 200 + 100 * i + 1);
}

/* There is room for one more word, but a frame has two. The walker is called and gets TOO_DEEP. */
Test(pending_frames, no_frame_is_taken_without_room)
{
	const uint64_t callers[] = {LOOP + 2};
	const uint64_t word = 0;

	set_up(LOOP + 1, callers, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	while (state.frame_count < BH_USER_FRAMES_MAX - 3)
		push_native(&state, 1);
	push(100);
	add_pending(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.frame_count, BH_USER_FRAMES_MAX - 1);
	cr_assert_eq(push_managed(&state, BH_RUNTIME_CPYTHON, 200, 1, &word), BH_REASON_TOO_DEEP);
}

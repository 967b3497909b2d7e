/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verdicts in bpf/unwind/state.h: one test for each row. */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

enum {
	LOOP = 0x401000, /* an interpreter's loop, in a range */
	LOOP_BYTES = 0x1000,
	CALLER = 0x700000, /* in no range */
	STACK = 0x10000,
	WORDS = 8,
};

static struct unwind_state state;
static struct rule_cache cache;
static struct bh_runtime_table table;
/* Two frames with frame pointers, and room for a whole window after them. */
static uint64_t stack[WORDS + STACK_WINDOW_WORDS];
static const struct test_env env = {
    .runtimes = &table, .memory = stack, .start = STACK, .bytes = sizeof(stack)};

/* The frame at LOOP was called by one at CALLER, which is the outermost frame. The walker has been
 * called for the first one. */
static void set_up(void)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
	unwind_start(&state);
	table.ranges[0] = (struct bh_runtime_range){
	    .start = LOOP, .end = LOOP + LOOP_BYTES, .runtime = BH_RUNTIME_CPYTHON};
	state.runtime.range_count = 1;
	state.runtime.code_filters[0] =
	    (struct bh_runtime_code_filter){.start = LOOP, .bytes = LOOP_BYTES};
	state.last = (struct bh_mapping){
	    .start = 0x400000, .end = 0x800000, .module_id = TEST_MODULE, .slot = TEST_MODULE};
	stack[0] = STACK + 16;
	stack[1] = CALLER + 1;
	state.pc = LOOP + 1;
	state.sp = STACK;
	state.fp = STACK;
	state.registers_known = 0;
	cr_assert_eq(unwind_steps(&state, &env, &cache), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.resume, WALKER_AT_FRAME);
	cr_assert_eq(state.frame_count, 0);
}

static int answer(enum walker_verdict verdict)
{
	state.runtime.verdict = verdict;
	return unwind_steps(&state, &env, &cache);
}

TestSuite(step, .init = set_up);

Test(step, moved_continues_where_the_walker_went)
{
	state.pc = CALLER + 1;
	state.sp = state.fp = STACK + 16;
	cr_assert_eq(answer(WALKER_MOVED), BH_REASON_COMPLETE);
	cr_assert_eq(state.frame_count, 1);
	cr_assert_eq(state.frames[0], (uint64_t)TEST_MODULE << BH_FRAME_OFFSET_BITS | CALLER);
}

Test(step, replaced_unwinds_the_native_frame_and_does_not_push_it)
{
	cr_assert_eq(answer(WALKER_REPLACED), UNWIND_CONTINUE);
	cr_assert_eq(state.pc, CALLER + 1);
	cr_assert_eq(state.frame_count, 0);
	cr_assert_eq(unwind_steps(&state, &env, &cache), BH_REASON_COMPLETE);
	cr_assert_eq(state.frame_count, 1);
}

Test(step, not_mine_pushes_and_unwinds_the_native_frame)
{
	cr_assert_eq(answer(WALKER_NOT_MINE), UNWIND_CONTINUE);
	cr_assert_eq(state.frame_count, 1);
	cr_assert_eq(state.frames[0], (uint64_t)TEST_MODULE << BH_FRAME_OFFSET_BITS | LOOP);
	cr_assert_eq(unwind_steps(&state, &env, &cache), BH_REASON_COMPLETE);
	cr_assert_eq(state.frame_count, 2);
}

Test(step, resume_in_caller_calls_the_walker_with_the_bounds_of_the_frame)
{
	cr_assert_eq(answer(WALKER_RESUME_IN_CALLER), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.resume, WALKER_IN_CALLER);
	cr_assert_eq(state.runtime.frame_start, STACK);
	cr_assert_eq(state.runtime.frame_end, STACK + 16);
	cr_assert_eq(state.runtime.result, UNWIND_CONTINUE);
	cr_assert_eq(state.frame_count, 0, "the native frame is not pushed");
	cr_assert_eq(answer(WALKER_MOVED), BH_REASON_COMPLETE);
	cr_assert_eq(state.runtime.resume, WALKER_AT_FRAME);
}

Test(step, resume_in_caller_of_the_outermost_frame_has_no_upper_bound)
{
	stack[1] = 0;
	cr_assert_eq(answer(WALKER_RESUME_IN_CALLER), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.frame_end, ~0ull);
	cr_assert_eq(state.runtime.result, BH_REASON_COMPLETE);
}

Test(step, call_again_calls_the_walker_for_the_same_frame)
{
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(answer(WALKER_CALL_AGAIN), UNWIND_CALL_WALKER);
		cr_assert_eq(state.runtime.resume, WALKER_AT_FRAME);
		cr_assert_eq(state.pc, LOOP + 1);
	}
}

Test(step, call_again_in_the_caller_keeps_the_bounds)
{
	cr_assert_eq(answer(WALKER_RESUME_IN_CALLER), UNWIND_CALL_WALKER);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(answer(WALKER_CALL_AGAIN), UNWIND_CALL_WALKER);
		cr_assert_eq(state.runtime.resume, WALKER_IN_CALLER_AGAIN);
		cr_assert_eq(state.runtime.frame_start, STACK);
	}
}

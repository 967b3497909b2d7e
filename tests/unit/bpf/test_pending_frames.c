/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#define RULE_CACHE_BITS 6
#define MAPPING_HINT_BITS 0
#include "tests/unit/bpf/unwind_env.h"

/* An interpreter in two ranges, another, and code that is in none. */
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
/* Frame pointers and return addresses, one pair a frame; and room for a whole window behind them. */
static uint64_t stack[2 * FRAMES_MAX + STACK_WINDOW_WORDS];
static const struct test_env env = {.runtimes = &table, .memory = stack, .start = STACK, .bytes = sizeof(stack)};

static void add_range(uint64_t start, uint16_t block)
{
	struct bh_runtime_range *range = &table.ranges[state.runtime.range_count++];

	*range = (struct bh_runtime_range){.start = start, .end = start + RANGE_BYTES, .runtime = BH_RUNTIME_CPYTHON, .block = block};
}

/* The code at pc, called from callers[0], that from callers[1]. */
static void set_up(uint64_t pc, const uint64_t *callers, int count)
{
	memset(&state, 0, sizeof(state));
	memset(&cache, 0, sizeof(cache));
	memset(stack, 0, sizeof(stack));
	unwind_start(&state);
	add_range(LOOP, BLOCK);
	add_range(LOOP_COLD, BLOCK);
	add_range(OTHER, OTHER_BLOCK);
	state.runtime.code_filters[0] = (struct bh_runtime_code_filter){.start = LOOP, .bytes = HELPER - LOOP};
	for (int i = 0; i < count; i++) {
		stack[2 * i] = STACK + 16 * (i + 1);
		stack[2 * i + 1] = callers[i];
	}
	state.last = (struct bh_mapping){.start = 0x400000, .end = 0x800000, .module_id = TEST_MODULE, .slot = TEST_MODULE};
	state.pc = pc;
	state.sp = STACK;
	state.fp = STACK;
	state.registers_known = 0;
}

/* The rules of all those frames, as if they had been walked before. */
static void remember(uint64_t pc, const uint64_t *callers, int count)
{
	for (int i = 0; i <= count; i++) {
		const uint64_t frame = tables_native_frame(&state, (i ? callers[i - 1] : pc) - 1);
		const uint32_t place = cache.added++;

		cache.entries[place] = (struct rule_cache_entry){
		    .frame = frame, .rule = {.kind = BH_RULE_FP, .cfa = 16, .fp_kind = BH_FP_CFA, .fp = -2, .bx_kind = BH_FP_SAME}};
		ring_index_insert(rule_cache_index(&cache, frame), place);
	}
}

static void note(uint64_t payload)
{
	const uint64_t word = payload + 1;

	cr_assert_eq(push_managed(&state, BH_RUNTIME_CPYTHON, payload, 1, &word), 0);
	state.runtime.verdict = WALKER_REPLACED;
}

static void note_ahead(uint64_t payload, int count)
{
	cr_assert(pending_begin(&state));
	for (int i = 0; i < count; i++, payload += 100)
		pending_push(&state, payload, payload + 1);
}

/* Until a walker is asked, or the stack ends. */
static int walk(void)
{
	int end = UNWIND_CONTINUE;

	for (int i = 0; i < STEPS_MAX && end == UNWIND_CONTINUE; i++)
		end = unwind_steps(&state, &env, &cache);
	return end;
}

static void expect_managed(uint32_t at, uint64_t payload)
{
	cr_expect_eq(state.frames[at], bh_frame_managed(BH_RUNTIME_CPYTHON, payload, 1), "frame %u", at);
	cr_expect_eq(state.frames[at + 1], payload + 1, "frame %u", at);
}

Test(pending_frames, each_stands_for_one_native_frame)
{
	const uint64_t callers[] = {HELPER + 1, LOOP + 2, HELPER + 2, LOOP_COLD + 3, LOOP + 4, HELPER + 5};

	/* Rules that are looked up are unwind_step's, those remembered unwind_cached's. */
	for (int round = 0; round < 2; round++) {
		set_up(LOOP + 1, callers, 6);
		if (round)
			remember(LOOP + 1, callers, 6);
		cr_assert_eq(walk(), UNWIND_CALL_WALKER);
		cr_assert_eq(state.frame_count, 0);
		note(100);
		note_ahead(200, 3);
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

/* The number of the stack is the same as if a walker had been called for each. */
Test(pending_frames, same_sum)
{
	const uint64_t callers[] = {LOOP + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	for (uint64_t payload = 100; payload < 400; payload += 100) {
		cr_assert_eq(walk(), UNWIND_CALL_WALKER);
		note(payload);
	}
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	const uint64_t sum = state.stack_sum;

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	note(100);
	note_ahead(200, 2);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	cr_assert_eq(state.stack_sum, sum);
}

/* Nothing is left: the walker is asked. */
Test(pending_frames, used_up)
{
	const uint64_t callers[] = {LOOP + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	note(100);
	note_ahead(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.pc, LOOP + 3);
	cr_assert_eq(state.frame_count, 4);
}

/* Another interpreter's frames are its own, and ours still wait behind them. */
Test(pending_frames, another_block)
{
	const uint64_t callers[] = {OTHER + 2, LOOP_COLD + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	note(100);
	note_ahead(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.block, OTHER_BLOCK);
	note(500);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	cr_assert_eq(state.frame_count, 6);
	expect_managed(2, 500);
	expect_managed(4, 200);
}

/* Not while frames wait: theirs come first. */
Test(pending_frames, one_block_at_a_time)
{
	const uint64_t callers[] = {OTHER + 2, LOOP + 3};

	set_up(LOOP + 1, callers, 2);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	note(100);
	note_ahead(200, PENDING_FRAMES_MAX);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.runtime.block, OTHER_BLOCK);
	cr_assert_not(pending_begin(&state));
	note(500);
	cr_assert_eq(walk(), BH_REASON_COMPLETE);
	expect_managed(4, 200);
	for (uint32_t i = 1; i < PENDING_FRAMES_MAX; i++)
		cr_expect_eq(state.runtime.pending[i].extra, 200 + 100 * i + 1);
}

/* The stack has room for one word more, a frame has two: the walker is asked, and is told so. */
Test(pending_frames, full_stack)
{
	const uint64_t callers[] = {LOOP + 2};
	const uint64_t word = 0;

	set_up(LOOP + 1, callers, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	while (state.frame_count < BH_USER_FRAMES_MAX - 3)
		push_native(&state, 1);
	note(100);
	note_ahead(200, 1);
	cr_assert_eq(walk(), UNWIND_CALL_WALKER);
	cr_assert_eq(state.frame_count, BH_USER_FRAMES_MAX - 1);
	cr_assert_eq(push_managed(&state, BH_RUNTIME_CPYTHON, 200, 1, &word), BH_REASON_TOO_DEEP);
}

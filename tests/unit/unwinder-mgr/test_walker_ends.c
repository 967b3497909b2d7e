/* SPDX-License-Identifier: Apache-2.0 */
/* How a walk ends: for each reason, and over stacks that are deep, endless or hostile. */
#include "tests/unit/unwinder-mgr/walker_world.h"

/* ---- Each way to end ---- */

Test(walker_ends, an_unknown_mapping_ends_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(32));
	static const uint64_t nowhere[] = {1,	       A - 1,	     A + TEXT_BYTES,
					   B - 1,      RAW + 0x1000, 1ull << 47,
					   1ull << 62, 1ull << 63,   UINT64_MAX - 4096};

	for (unsigned int i = 0; i < sizeof(nowhere) / 8; i++) {
		put_word(w, STACK + 64 + 24, nowhere[i] + 1);
		EXPECT(w, BH_REASON_NO_MAPPING, frame_of(in(0)));
	}
	for (unsigned int i = 0; i < sizeof(nowhere) / 8; i++) {
		w->registers.rip = nowhere[i];
		EXPECT(w, BH_REASON_NO_MAPPING, BH_FRAME_RAW | nowhere[i] << 16 >> 16);
	}
	world_free(w);
}

/* A leaf that code of module B has called. */
static struct world *world_of_caller_in_b(void)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, B + 8);
	return w;
}

/* Checks how a stack ends in module B, which is in this state. */
static void expect_end_in_b(struct world *w, enum bh_module_state state, enum bh_reason reason)
{
	w->memory.modules[2].state = state;
	EXPECT(w, reason, frame_of(in(0)), (uint64_t)MODULE_ID_B << BH_FRAME_OFFSET_BITS | 7);
}

Test(walker_ends, a_pending_table_ends_the_stack)
{
	struct world *w = world_of_caller_in_b();

	expect_end_in_b(w, BH_MODULE_PENDING, BH_REASON_NO_TABLE);
	world_free(w);
}

Test(walker_ends, a_table_or_a_rule_without_room_ends_the_stack)
{
	struct world *w = world_of_caller_in_b();

	expect_end_in_b(w, BH_MODULE_REFUSED, BH_REASON_REFUSED);
	/* When there is room, the rule is not remembered. */
	expect_end_in_b(w, BH_MODULE_PENDING, BH_REASON_NO_TABLE);
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_REFUSED});
	EXPECT(w, BH_REASON_REFUSED, frame_of(in(0)));
	world_free(w);
}

Test(walker_ends, a_file_of_32_bits_ends_the_stack)
{
	struct world *w = world_of_caller_in_b();

	expect_end_in_b(w, BH_MODULE_COMPAT, BH_REASON_COMPAT);
	world_free(w);
}

Test(walker_ends, a_changed_module_ends_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	w->memory.modules[1].id++;
	EXPECT(w, BH_REASON_CHANGED, frame_of(in(0)));
	world_free(w);
}

Test(walker_ends, a_rule_that_cannot_be_evaluated_ends_the_stack)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_UNKNOWN});

	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0)));
	put_rule(w, 0, (struct bh_rule){.kind = 200, .fp_kind = 200, .bx_kind = 200, .reg = 255});
	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0)));
	world_free(w);
}

Test(walker_ends, the_end_of_the_copy_ends_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	w->copy.length = 64 + 32 - 1;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	w->copy.length++;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));
	w->copy.length = 0;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	w->copy.length = sizeof(w->stack);
	w->copy.start = STACK + 64 + 25;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	/* A saved register is beyond the end of the copy. */
	w->copy.start = STACK;
	put_rule(
	    w, 0,
	    (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = INT16_MIN});
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	put_rule(
	    w, 0,
	    (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = INT16_MAX});
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	world_free(w);
}

Test(walker_ends, a_descending_cfa_ends_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(0));

	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	put_rule(w, 0, SP_RULE(INT32_MIN));
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	put_rule(w, 0, FP_RULE);
	w->registers.gpr[BH_REG_RBP] = STACK + 64 - 16;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	/* The CFA is so high that it wraps around. */
	w->registers.gpr[BH_REG_RBP] = UINT64_MAX - 4;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	world_free(w);
}

Test(walker_ends, an_inconsistent_table_ends_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(32));
	struct bh_mapping *mapping = w->mapping;
	const struct bh_module module = w->memory.modules[1];

	mapping[0].slot = 1 << BH_MODULES_BITS;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	mapping[0].slot = UINT32_MAX;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	mapping[0].slot = 1;
	w->memory.modules[1].page_slab = 2;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	w->memory.modules[1].page_slab = UINT32_MAX;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	w->memory.modules[1] = module;
	struct bh_page *page =
	    (void *)(w->memory.slabs.slabs[module.page_slab].data + module.page_offset);
	page->slab = UINT16_MAX;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	page->slab = BH_SLABS_MAX - 1;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	w->mappings.slab = 17;
	EXPECT(w, BH_REASON_BAD_TABLE, BH_FRAME_RAW | in(0));
	world_free(w);
}

/* Programs that set up a stack themselves end it with a return address of zero. */
Test(walker_ends, a_return_address_of_zero_completes_the_stack)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, 0);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)));
	world_free(w);
}

/* ---- Deep, endless, hostile ---- */

/* Makes a stack of function 0, which has called itself `depth` times, and function 1. */
static void put_recursion(struct world *w, unsigned int depth)
{
	for (unsigned int i = 0; i < depth; i++)
		put_word(w, STACK + 64 + 24 + i * 32, in(i + 1 < depth ? 0 : 1));
}

Test(walker_ends, a_deep_recursion_ends_with_too_deep)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_recursion(w, BH_USER_FRAMES_MAX - 1);
	cr_assert_eq(walk(w), BH_REASON_COMPLETE);
	cr_assert_eq(w->count, BH_USER_FRAMES_MAX);
	cr_assert_eq(w->frames[BH_USER_FRAMES_MAX - 1], frame_of(in(1) - 1));
	put_recursion(w, BH_USER_FRAMES_MAX);
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	cr_assert_eq(w->count, BH_USER_FRAMES_MAX);
	cr_assert_eq(w->frames[0], frame_of(in(0)));
	for (unsigned int i = 1; i < BH_USER_FRAMES_MAX; i++)
		cr_assert_eq(w->frames[i], frame_of(in(0) - 1));
	world_free(w);
}

Test(walker_ends, a_circle_of_frame_pointers_ends)
{
	struct world *w = world_new();

	w->registers.rip = RAW + 8;
	w->registers.gpr[BH_REG_RBP] = STACK + 200;
	put_word(w, STACK + 200, STACK + 300);
	put_word(w, STACK + 208, RAW + 20);
	put_word(w, STACK + 300, STACK + 200);
	put_word(w, STACK + 308, RAW + 30);
	EXPECT(w, BH_REASON_BAD_CFA, BH_FRAME_RAW | (RAW + 8), BH_FRAME_RAW | (RAW + 19),
	       BH_FRAME_RAW | (RAW + 29));
	put_word(w, STACK + 200, STACK + 200);
	EXPECT(w, BH_REASON_BAD_CFA, BH_FRAME_RAW | (RAW + 8), BH_FRAME_RAW | (RAW + 19));
	/* Each frame is one byte above the last. The stack becomes as deep as it may. */
	for (uint64_t at = STACK + 200; at + 16 < STACK_END; at += 16) {
		put_word(w, at, at + 16);
		put_word(w, at + 8, RAW + 20);
	}
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	world_free(w);
}

/* A signal frame may lead anywhere, also to itself. */
Test(walker_ends, a_circle_of_signal_frames_ends)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_SIGNAL});
	uint64_t gpr[16] = {0};

	gpr[BH_REG_RSP] = STACK + 64;
	put_ucontext(w, STACK + 64, gpr, in(0));
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	cr_assert_eq(w->count, BH_USER_FRAMES_MAX);
	cr_assert_eq(w->frames[BH_USER_FRAMES_MAX - 1], frame_of(in(0)));
	world_free(w);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How the unwinder finds callers: each kind of rule, reading of the stack, search of mappings. */
#include "tests/unit/unwinder-mgr/walker_world.h"

/* ---- Each kind of rule ---- */

Test(walker, the_cfa_is_computed_from_the_stack_pointer)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	EXPECT_CALLED(w);
}

/* A call is the last instruction of its function, so the return address is in the next one. */
Test(walker, a_return_address_after_the_function_belongs_to_the_caller)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, A + 2 * FUNCTION_BYTES);
	put_rule(w, 2, (struct bh_rule){.kind = BH_RULE_UNKNOWN});
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(A + 2 * FUNCTION_BYTES - 1));
	/* The address of the leaf itself is used as it is, also at its first byte. */
	w->registers.rip = A + 2 * FUNCTION_BYTES;
	EXPECT(w, BH_REASON_NO_RULE, frame_of(A + 2 * FUNCTION_BYTES));
	world_free(w);
}

Test(walker, the_cfa_is_computed_from_the_frame_pointer)
{
	struct world *w = world_of_leaf(FP_RULE);

	w->registers.gpr[BH_REG_RBP] = STACK + 64 + 16;
	EXPECT_CALLED(w);
}

/* Go's systemstack: it was called on a stack that may be at a lower address. */
Test(walker, a_function_that_switched_stacks_was_called_on_another_one)
{
	const struct bh_rule switched = {
	    .kind = BH_RULE_OTHER_STACK, .cfa = 16, .fp_kind = BH_FP_CFA, .fp = -2};
	struct world *w = world_of_leaf(SP_RULE(32));

	w->registers.gpr[BH_REG_RSP] = STACK + 800;
	w->registers.gpr[BH_REG_RBP] = STACK + 96;
	put_word(w, STACK + 800 + 24, in(1));
	put_word(w, STACK + 96, STACK + 400);
	put_word(w, STACK + 104, in(2));
	put_rule(w, 1, switched);
	put_rule(w, 2, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 1, FP_RULE);
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)), frame_of(in(1) - 1));
	/* A cycle of switches ends. */
	put_rule(w, 1, switched);
	put_word(w, STACK + 96, STACK + 96);
	put_word(w, STACK + 104, in(1));
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	world_free(w);
}

/* The caller's rbp: saved at the CFA, at rbp itself, or lost. */
Test(walker, the_frame_pointer_of_the_caller_is_restored)
{
	struct world *w = world_of_leaf(
	    (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = -3});

	put_rule(w, 1, FP_RULE);
	put_rule(w, 2, END_RULE);
	put_word(w, STACK + 64 + 8, STACK + 1000);
	put_word(w, STACK + 1008, in(2));
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(
	    w, 0,
	    (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_REGISTER, .fp = 4});
	w->registers.gpr[BH_REG_RBP] = STACK + 64 + 8 - 32;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, SP_RULE(32));
	w->registers.gpr[BH_REG_RBP] = STACK + 1000;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_LOST});
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)), frame_of(in(1) - 1));
	world_free(w);
}

Test(walker, the_cfa_of_the_leaf_may_use_any_register)
{
	for (uint8_t i = 0; i < 16; i++) {
		struct world *w =
		    world_of_leaf((struct bh_rule){.kind = BH_RULE_REGISTER, .reg = i, .cfa = -8});

		if (i != BH_REG_RSP)
			w->registers.gpr[i] = STACK + 64 + 40;
		else
			w->memory.rules->table[rule_of(0)].cfa = 32;
		EXPECT_CALLED(w);
	}
}

/* Of the registers of a caller only those that were saved are known. */
Test(walker, the_cfa_of_a_caller_may_use_saved_registers_only)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_rule(w, 2, END_RULE);
	put_word(w, STACK + 512 + 24, in(2));
	for (uint8_t i = 0; i < 16; i++) {
		if (i == BH_REG_RSP || i == BH_REG_RBP || i == BH_REG_RBX)
			continue;
		w->registers.gpr[i] = STACK + 512;
		put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = i, .cfa = 32});
		EXPECT(w, BH_REASON_REGISTER_LOST, frame_of(in(0)), frame_of(in(1) - 1));
		put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_RA_REGISTER, .reg = i, .cfa = 32});
		EXPECT(w, BH_REASON_REGISTER_LOST, frame_of(in(0)), frame_of(in(1) - 1));
		put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_DEREF, .reg = i, .cfa = 32});
		EXPECT(w, BH_REASON_REGISTER_LOST, frame_of(in(0)), frame_of(in(1) - 1));
	}
	/* rbx is unchanged, saved or lost. */
	put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	w->registers.gpr[BH_REG_RBX] = STACK + 512;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	w->registers.gpr[BH_REG_RBX] = 0;
	put_rule(w, 0,
		 (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = -2});
	put_word(w, STACK + 64 + 16, STACK + 512);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_LOST});
	EXPECT(w, BH_REASON_REGISTER_LOST, frame_of(in(0)), frame_of(in(1) - 1));
	world_free(w);
}

/* Code without a table may have changed rbx. A caller that saved it makes it known again. */
Test(walker, a_frame_without_table_loses_rbx)
{
	struct world *w = world_new();

	w->registers.rip = RAW + 5;
	w->registers.gpr[BH_REG_RBX] = STACK + 512;
	w->registers.gpr[BH_REG_RBP] = STACK + 128;
	put_word(w, STACK + 128 + 8, in(0));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	EXPECT(w, BH_REASON_REGISTER_LOST, BH_FRAME_RAW | (RAW + 5), frame_of(in(0) - 1));
	put_rule(w, 0,
		 (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = -2});
	put_word(w, STACK + 144 + 24, in(1));
	put_word(w, STACK + 144 + 16, STACK + 512);
	put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	put_word(w, STACK + 512 + 24, in(2));
	put_rule(w, 2, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 5), frame_of(in(0) - 1),
	       frame_of(in(1) - 1), frame_of(in(2) - 1));
	world_free(w);
}

Test(walker, the_cfa_may_be_read_through_a_pointer)
{
	struct world *w = world_of_leaf(
	    (struct bh_rule){.kind = BH_RULE_DEREF, .reg = BH_REG_RBP, .cfa = -8, .extra = 8});

	w->registers.gpr[BH_REG_RBP] = STACK + 1008;
	put_word(w, STACK + 1000, STACK + 64 + 24);
	EXPECT_CALLED(w);
	w = world_of_leaf((struct bh_rule){.kind = BH_RULE_DEREF, .reg = BH_REG_RSP, .cfa = 8});
	put_word(w, STACK + 72, STACK + 64 + 32);
	EXPECT_CALLED(w);
	w = world_of_leaf((struct bh_rule){.kind = BH_RULE_DEREF, .reg = BH_REG_RAX});
	w->registers.gpr[BH_REG_RAX] = STACK_END;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	w->registers.gpr[BH_REG_RAX] = STACK_END - 8;
	put_word(w, STACK_END - 8, STACK + 64);
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	world_free(w);
}

/* A push in an entry of the lazy PLT, before byte 6 or 11, moves the stack pointer. */
Test(walker, the_cfa_in_the_plt_depends_on_the_address)
{
	for (uint64_t i = 0; i < 32; i++) {
		struct world *w =
		    world_of_leaf((struct bh_rule){.kind = BH_RULE_PLT, .cfa = 8, .extra = 11});

		w->registers.rip = A + i;
		w->registers.gpr[BH_REG_RSP] = STACK + 64 + 24 - (i % 16 >= 11 ? 8 : 0);
		EXPECT(w, BH_REASON_COMPLETE, frame_of(A + i), frame_of(in(1) - 1));
		world_free(w);
	}
}

Test(walker, the_return_address_may_be_in_a_register)
{
	struct world *w = world_of_leaf(
	    (struct bh_rule){.kind = BH_RULE_RA_REGISTER, .reg = BH_REG_RDI, .cfa = 8});

	put_word(w, STACK + 64 + 24, 0);
	w->registers.gpr[BH_REG_RDI] = in(1);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));
	/* The return address was popped, so the frame is empty. */
	w->memory.rules->table[rule_of(0)].cfa = 0;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));
	w->memory.rules->table[rule_of(0)].cfa = -8;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	/* Without a limit this would be endless. */
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_RA_REGISTER, .reg = BH_REG_RBX});
	w->registers.gpr[BH_REG_RBX] = in(0);
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	world_free(w);
}

/* The interrupted frame did not call: its address is used as it is, and all its registers are
 * known. */
Test(walker, a_signal_frame_restores_all_registers)
{
	for (uint8_t i = 0; i < 16; i++) {
		struct world *w = world_of_leaf(SP_RULE(32));
		uint64_t gpr[16] = {0};

		put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_SIGNAL});
		gpr[BH_REG_RSP] = STACK + 1024;
		gpr[i] = STACK + 1024;
		put_ucontext(w, STACK + 64 + 32, gpr, A + 2 * FUNCTION_BYTES);
		put_rule(w, 2, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = i, .cfa = 16});
		put_word(w, STACK + 1024 + 8, in(3));
		put_rule(w, 3, END_RULE);
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1),
		       frame_of(A + 2 * FUNCTION_BYTES), frame_of(in(3) - 1));
		world_free(w);
	}
}

Test(walker, a_signal_frame_beyond_the_copy_ends_the_stack)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_SIGNAL});

	w->registers.gpr[BH_REG_RSP] = STACK_END - 40 - 17 * 8 + 8;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	w->registers.gpr[BH_REG_RSP] -= 8;
	put_word(w, STACK_END - 8, in(1));
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1)));
	put_word(w, STACK_END - 8, 0);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)));
	w->registers.gpr[BH_REG_RSP] = UINT64_MAX - 60;
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	world_free(w);
}

/* The kernel emulates the three functions of the vsyscall page. They only occur as a leaf. */
Test(walker, a_vsyscall_is_a_leaf)
{
	struct world *w = world_new();

	w->registers.rip = VSYSCALL + 0x400;
	put_word(w, STACK + 64, in(0));
	put_rule(w, 0, SP_RULE(16));
	put_word(w, STACK + 80, in(1));
	put_rule(w, 1, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16,
	       frame_of(in(0) - 1), frame_of(in(1) - 1));
	put_word(w, STACK + 80, VSYSCALL + 0x401);
	EXPECT(w, BH_REASON_NO_MAPPING, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16,
	       frame_of(in(0) - 1));
	w->registers.gpr[BH_REG_RSP] = STACK_END;
	EXPECT(w, BH_REASON_COPY_SHORT, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16);
	world_free(w);
}

/* ---- No table: frame pointers ---- */

Test(walker, without_a_table_frame_pointers_are_followed)
{
	struct world *w = world_new();
	const uint64_t c = (uint64_t)MODULE_ID_C << BH_FRAME_OFFSET_BITS;

	w->registers.rip = RAW + 8;
	w->registers.gpr[BH_REG_RBP] = STACK + 200;
	put_word(w, STACK + 200, STACK + 300);
	put_word(w, STACK + 208, C + 20);
	put_word(w, STACK + 300, STACK + 400);
	put_word(w, STACK + 308, RAW + 30);
	put_word(w, STACK + 400, 0);
	put_word(w, STACK + 408, C + 40);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 8), c | 19, BH_FRAME_RAW | (RAW + 29),
	       c | 39);
	put_word(w, STACK + 408, 0);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 8), c | 19, BH_FRAME_RAW | (RAW + 29));
	/* The stack has no first frame pointer. */
	w->registers.gpr[BH_REG_RBP] = 0;
	EXPECT(w, BH_REASON_NO_RULE, BH_FRAME_RAW | (RAW + 8));
	world_free(w);
}

/* At the first instructions of a program no register has been set. It is the outermost frame. */
Test(walker, the_entry_of_a_program_is_complete)
{
	struct world *w = world_new();
	static const uint8_t saved[] = {BH_REG_RBX, 12, 13, 14, 15};

	w->registers.rip = RAW + 8;
	w->registers.gpr[15] = 0;
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 8));
	for (unsigned int i = 0; i < sizeof(saved); i++) {
		memset(&w->registers.gpr, 0, sizeof(w->registers.gpr));
		w->registers.gpr[saved[i]] = 1;
		EXPECT(w, BH_REASON_NO_RULE, BH_FRAME_RAW | (RAW + 8));
	}
	world_free(w);
}

/* Outside the pages of a module there are no rules. */
Test(walker, offsets_outside_the_pages_use_frame_pointers)
{
	struct world *w = world_of_leaf(END_RULE);

	w->mapping[0].bias -= 0x10000;
	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0) + 0x10000));
	w->mapping[0].bias += 0x20000;
	walk(w);
	cr_assert_eq(w->frames[0], (uint64_t)MODULE_ID_A << BH_FRAME_OFFSET_BITS |
				       ((in(0) - A + A_OFFSET - 0x10000) & BH_FRAME_OFFSET_MASK));
	cr_assert_eq(w->count, 1);
	world_free(w);
}

/* ---- Reading: windows, their ends, odd addresses ---- */

Test(walker, frames_of_all_sizes_are_read_through_the_window)
{
	/* Return addresses are at all places in a window and beyond it. The copy ends right after
	 * the last one. */
	for (uint32_t size = 8; size < 3000; size += 8) {
		struct world *w = world_of_leaf(SP_RULE(size));
		const unsigned int depth = 40;

		for (unsigned int i = 0; i < depth; i++)
			put_word(w, STACK + 64 + (uint64_t)(i + 1) * size - 8,
				 in(i + 1 < depth ? 0 : 1));
		w->copy.length = 64 + depth * size;
		cr_assert_eq(walk(w), BH_REASON_COMPLETE, "size %u, %u frames", size, w->count);
		cr_assert_eq(w->count, depth + 1);
		world_free(w);
	}
}

Test(walker, unaligned_stack_pointers_are_read)
{
	for (unsigned int odd = 1; odd < 8; odd++) {
		struct world *w = world_of_leaf((struct bh_rule){
		    .kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = -2});

		w->registers.gpr[BH_REG_RSP] += odd;
		put_word(w, STACK + 64 + 24 + odd, in(1));
		put_word(w, STACK + 64 + 16 + odd, STACK + 1000 + odd);
		put_rule(w, 1, FP_RULE);
		put_word(w, STACK + 1008 + odd, in(2));
		put_rule(w, 2, END_RULE);
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1),
		       frame_of(in(2) - 1));
		world_free(w);
	}
}

/* By the table a register is still saved below the stack pointer, although it was popped. */
Test(walker, registers_in_the_red_zone_are_restored)
{
	struct world *w = world_of_leaf(
	    (struct bh_rule){.kind = BH_RULE_SP, .cfa = 8, .fp_kind = BH_FP_CFA, .fp = -3});

	put_word(w, STACK + 64, in(1));
	put_word(w, STACK + 64 + 8 - 24, STACK + 1000);
	put_rule(w, 1, FP_RULE);
	put_word(w, STACK + 1008, in(2));
	put_rule(w, 2, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	world_free(w);
}

/* ---- Mappings ---- */

Test(walker, the_largest_list_of_mappings_is_searched)
{
	static const unsigned int counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 4094, 4095};
	enum {
		SIZE = 16,
		STEP = 64
	};
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_UNKNOWN});
	const struct walker_tables tables = unwind_memory_tables(&w->memory);

	/* In the second slab, after the deltas. */
	const uint32_t slab = 1, offset = 1 << 20;
	struct bh_mapping *mappings = (void *)(w->memory.slabs.slabs[slab].data + offset);
	for (unsigned int c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		memset(mappings, 0xff, (BH_SLAB_BYTES - offset));
		for (uint64_t i = 0; i < counts[c]; i++)
			mappings[i] = (struct bh_mapping){A + i * STEP, A + i * STEP + SIZE,
							  A - A_OFFSET, 3, MODULE_ID_C};
		for (uint64_t i = 0; i < counts[c]; i++) {
			for (uint64_t at = 0; at < STEP; at += 5) {
				w->registers.rip = A + i * STEP + at;
				unsigned int end =
				    walker_run(&tables, &w->registers, &w->copy, slab, offset,
					       counts[c], w->frames, &w->count);

				cr_assert_eq(w->count, 1);
				cr_assert_eq(end,
					     at < SIZE ? BH_REASON_NO_RULE : BH_REASON_NO_MAPPING,
					     "mapping %lu of %u, +%lu", i, counts[c], at);
			}
		}
	}
	world_free(w);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and stacks written by hand. Module A is 64 functions of 256 bytes, each with one rule all over; B has no table yet, C says
 * nothing (frame pointers), and there is memory without a file.
 */
#include <criterion/criterion.h>

#include "tests/support/unwind_memory.h"

enum {
	FUNCTIONS = 64,
	FUNCTION_BYTES = 256,
	A_OFFSET = 0x2000, /* of the mapping in A's file */
	A = 0x10000,	   /* address */
	B = 0x40000,
	C = 0x50000,
	RAW = 0x60000,
	TEXT_BYTES = FUNCTIONS * FUNCTION_BYTES,
	NUMBER_A = 5,
	NUMBER_B = 6,
	NUMBER_C = 0x3fffff,
	MAPPINGS = 4,
	STACK_WORDS = 16384,
};

#define STACK 0x7ffd00000000ull
#define STACK_END (STACK + STACK_WORDS * 8)
#define VSYSCALL 0xffffffffff600000ull

struct world {
	struct unwind_memory memory;
	struct slab_block mappings;
	struct bh_mapping *mapping;
	uint64_t stack[STACK_WORDS];
	struct bh_registers registers;
	uint64_t frames[BH_USER_FRAMES_MAX];
	unsigned int count;
	struct walker_stack copy;
};

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));
	struct slab_block pages, deltas;

	cr_assert_eq(unwind_memory_init(&w->memory, 2), 0);
	struct slabs *slabs = &w->memory.slabs;
	cr_assert_eq(slabs_alloc(slabs, 4096, &w->mappings), 0);
	cr_assert_eq(slabs_alloc(slabs, TEXT_BYTES >> BH_PAGE_BITS << 3, &pages), 0);
	/* Deltas in another slab than the pages. */
	cr_assert_eq(slabs_alloc(slabs, BH_SLAB_BYTES, &deltas), 0);
	cr_assert_neq(deltas.slab, pages.slab);
	struct bh_page *page = slabs_at(slabs, &pages);
	struct bh_delta *delta = slabs_at(slabs, &deltas);
	for (uint32_t i = 0; i < TEXT_BYTES >> BH_PAGE_BITS; i++)
		page[i] = (struct bh_page){.offset = deltas.offset + i * 4 * (uint32_t)sizeof(*delta), .slab = (uint16_t)deltas.slab, .count = 4};
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		delta[i] = (struct bh_delta){.low = (uint16_t)(i % 4 * FUNCTION_BYTES), .rule = (uint16_t)(i + 1)};
	w->memory.modules[1] = (struct bh_module){.state = BH_MODULE_READY,
						  .id = NUMBER_A,
						  .page_slab = pages.slab,
						  .page_offset = pages.offset,
						  .first_page = A_OFFSET >> BH_PAGE_BITS,
						  .page_count = TEXT_BYTES >> BH_PAGE_BITS};
	w->memory.modules[2] = (struct bh_module){.state = BH_MODULE_PENDING, .id = NUMBER_B};
	w->memory.modules[3] = (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = NUMBER_C};
	w->mapping = slabs_at(slabs, &w->mappings);
	w->mapping[0] = (struct bh_mapping){A, A + TEXT_BYTES, A - A_OFFSET, 1, NUMBER_A};
	w->mapping[1] = (struct bh_mapping){B, B + 0x1000, B, 2, NUMBER_B};
	w->mapping[2] = (struct bh_mapping){C, C + 0x1000, C, 3, NUMBER_C};
	w->mapping[3] = (struct bh_mapping){RAW, RAW + 0x1000, 0, 0, 0};
	w->copy = (struct walker_stack){STACK, (const uint8_t *)w->stack, sizeof(w->stack)};
	w->registers.gpr[BH_REG_RSP] = STACK + 64;
	w->registers.gpr[15] = 1; /* not at a program's entry */
	return w;
}

static void world_free(struct world *w)
{
	unwind_memory_fini(&w->memory);
	free(w);
}

/* An address in function i. */
static uint64_t in(unsigned int i)
{
	return A + i * FUNCTION_BYTES + 17;
}

static uint64_t frame_of(uint64_t address)
{
	return (uint64_t)NUMBER_A << BH_FRAME_OFFSET_BITS | (address - A + A_OFFSET);
}

static void put_rule(struct world *w, unsigned int function, struct bh_rule rule)
{
	w->memory.rules->table[function + 1] = rule;
}

static void put_word(struct world *w, uint64_t address, uint64_t value)
{
	memcpy((uint8_t *)w->stack + (address - STACK), &value, sizeof(value));
}

static unsigned int walk(struct world *w)
{
	const struct walker_tables tables = unwind_memory_tables(&w->memory);

	return walker_run(&tables, &w->registers, &w->copy, w->mappings.slab, w->mappings.offset, MAPPINGS, w->frames, &w->count);
}

static void expect(struct world *w, unsigned int reason, unsigned int count, const uint64_t *frames)
{
	const unsigned int got = walk(w);

	cr_assert_eq(got, reason, "reason %u, not %u, after %u frames", got, reason, w->count);
	cr_assert_eq(w->count, count, "%u frames, not %u", w->count, count);
	for (unsigned int i = 0; i < count; i++)
		cr_assert_eq(w->frames[i], frames[i], "frame %u: %lx, not %lx", i, w->frames[i], frames[i]);
}

#define EXPECT(w, reason, ...)                                                                                                \
	expect(w, reason, (unsigned int)sizeof((const uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__})

#define SP_RULE(bytes) ((struct bh_rule){.kind = BH_RULE_SP, .cfa = (bytes)})
#define FP_RULE ((struct bh_rule){.kind = BH_RULE_FP, .cfa = 16, .fp_kind = BH_FP_CFA, .fp = -2})
#define END_RULE ((struct bh_rule){.kind = BH_RULE_END})

/* The leaf with `rule`, called from function 1, which is the outermost. The leaf's frame has 32 bytes. */
static struct world *world_of_leaf(struct bh_rule rule)
{
	struct world *w = world_new();

	put_rule(w, 0, rule);
	put_rule(w, 1, END_RULE);
	w->registers.rip = in(0);
	put_word(w, STACK + 64 + 24, in(1));
	return w;
}

#define EXPECT_CALLED(w)                                                                                                      \
	do {                                                                                                                  \
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));                                          \
		world_free(w);                                                                                                \
	} while (0)

/* ---- Each kind of rule ---- */

Test(walker, cfa_from_the_stack_pointer)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	EXPECT_CALLED(w);
}

/* A call as the last instruction: the return address is in the next function, the frame in the one that called. */
Test(walker, return_address_behind_the_function)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, A + 2 * FUNCTION_BYTES);
	put_rule(w, 2, (struct bh_rule){.kind = BH_RULE_UNKNOWN});
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(A + 2 * FUNCTION_BYTES - 1));
	/* The leaf itself is where it is: at its first byte too. */
	w->registers.rip = A + 2 * FUNCTION_BYTES;
	EXPECT(w, BH_REASON_NO_RULE, frame_of(A + 2 * FUNCTION_BYTES));
	world_free(w);
}

Test(walker, cfa_from_the_frame_pointer)
{
	struct world *w = world_of_leaf(FP_RULE);

	w->registers.gpr[BH_REG_RBP] = STACK + 64 + 16;
	EXPECT_CALLED(w);
}

/* rbp is restored on the way: from the CFA, from rbp itself, not at all. */
Test(walker, frame_pointer_of_the_caller)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = -3});

	put_rule(w, 1, FP_RULE);
	put_rule(w, 2, END_RULE);
	put_word(w, STACK + 64 + 8, STACK + 1000);
	put_word(w, STACK + 1008, in(2));
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_REGISTER, .fp = 4});
	w->registers.gpr[BH_REG_RBP] = STACK + 64 + 8 - 32;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, SP_RULE(32));
	w->registers.gpr[BH_REG_RBP] = STACK + 1000;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_LOST});
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)), frame_of(in(1) - 1));
	world_free(w);
}

Test(walker, cfa_from_any_register_of_the_leaf)
{
	for (uint8_t i = 0; i < 16; i++) {
		struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_REGISTER, .reg = i, .cfa = -8});

		if (i != BH_REG_RSP)
			w->registers.gpr[i] = STACK + 64 + 40;
		else
			w->memory.rules->table[1].cfa = 32;
		EXPECT_CALLED(w);
	}
}

/* A caller's registers are those that were saved, and no others. */
Test(walker, cfa_from_a_register_of_a_caller)
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
	/* rbx: unchanged, saved, lost. */
	put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	w->registers.gpr[BH_REG_RBX] = STACK + 512;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	w->registers.gpr[BH_REG_RBX] = 0;
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = -2});
	put_word(w, STACK + 64 + 16, STACK + 512);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_LOST});
	EXPECT(w, BH_REASON_REGISTER_LOST, frame_of(in(0)), frame_of(in(1) - 1));
	world_free(w);
}

/* Code without a table may have changed rbx; a caller that saved it gives it back. */
Test(walker, rbx_beyond_a_frame_without_table)
{
	struct world *w = world_new();

	w->registers.rip = RAW + 5;
	w->registers.gpr[BH_REG_RBX] = STACK + 512;
	w->registers.gpr[BH_REG_RBP] = STACK + 128;
	put_word(w, STACK + 128 + 8, in(0));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	EXPECT(w, BH_REASON_REGISTER_LOST, BH_FRAME_RAW | (RAW + 5), frame_of(in(0) - 1));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = -2});
	put_word(w, STACK + 144 + 24, in(1));
	put_word(w, STACK + 144 + 16, STACK + 512);
	put_rule(w, 1, (struct bh_rule){.kind = BH_RULE_REGISTER, .reg = BH_REG_RBX, .cfa = 32});
	put_word(w, STACK + 512 + 24, in(2));
	put_rule(w, 2, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 5), frame_of(in(0) - 1), frame_of(in(1) - 1), frame_of(in(2) - 1));
	world_free(w);
}

Test(walker, cfa_behind_a_pointer)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_DEREF, .reg = BH_REG_RBP, .cfa = -8, .extra = 8});

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

/* The lazy PLT: a push in its entries, at bytes 6 or 11, moves the stack pointer. */
Test(walker, procedure_linkage_table)
{
	for (uint64_t i = 0; i < 32; i++) {
		struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_PLT, .cfa = 8, .extra = 11});

		w->registers.rip = A + i;
		w->registers.gpr[BH_REG_RSP] = STACK + 64 + 24 - (i % 16 >= 11 ? 8 : 0);
		EXPECT(w, BH_REASON_COMPLETE, frame_of(A + i), frame_of(in(1) - 1));
		world_free(w);
	}
}

Test(walker, return_address_in_a_register)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_RA_REGISTER, .reg = BH_REG_RDI, .cfa = 8});

	put_word(w, STACK + 64 + 24, 0);
	w->registers.gpr[BH_REG_RDI] = in(1);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));
	/* Popped: the frame is empty. */
	w->memory.rules->table[1].cfa = 0;
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));
	w->memory.rules->table[1].cfa = -8;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	/* Endless if nobody counted. */
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_RA_REGISTER, .reg = BH_REG_RBX});
	w->registers.gpr[BH_REG_RBX] = in(0);
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	world_free(w);
}

static void put_ucontext(struct world *w, uint64_t at, const uint64_t gpr[16], uint64_t rip)
{
	static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, BH_REG_RDI, BH_REG_RSI, BH_REG_RBP, BH_REG_RBX,
					BH_REG_RDX, BH_REG_RAX, BH_REG_RCX, BH_REG_RSP};

	for (unsigned int i = 0; i < 16; i++)
		put_word(w, at + 40 + i * 8, gpr[order[i]]);
	put_word(w, at + 40 + 128, rip);
}

/* Interrupted, not called: its address is as it is, and all of its registers are there. */
Test(walker, signal_frames)
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
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(A + 2 * FUNCTION_BYTES),
		       frame_of(in(3) - 1));
		world_free(w);
	}
}

Test(walker, signal_frame_behind_the_copy)
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

/* Three functions at a fixed address, emulated by the kernel: only as a leaf. */
Test(walker, vsyscall)
{
	struct world *w = world_new();

	w->registers.rip = VSYSCALL + 0x400;
	put_word(w, STACK + 64, in(0));
	put_rule(w, 0, SP_RULE(16));
	put_word(w, STACK + 80, in(1));
	put_rule(w, 1, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16, frame_of(in(0) - 1), frame_of(in(1) - 1));
	put_word(w, STACK + 80, VSYSCALL + 0x401);
	EXPECT(w, BH_REASON_NO_MAPPING, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16, frame_of(in(0) - 1));
	w->registers.gpr[BH_REG_RSP] = STACK_END;
	EXPECT(w, BH_REASON_COPY_SHORT, BH_FRAME_RAW | (VSYSCALL + 0x400) << 16 >> 16);
	world_free(w);
}

/* ---- No table: frame pointers ---- */

Test(walker, frame_pointers)
{
	struct world *w = world_new();
	const uint64_t c = (uint64_t)NUMBER_C << BH_FRAME_OFFSET_BITS;

	w->registers.rip = RAW + 8;
	w->registers.gpr[BH_REG_RBP] = STACK + 200;
	put_word(w, STACK + 200, STACK + 300);
	put_word(w, STACK + 208, C + 20);
	put_word(w, STACK + 300, STACK + 400);
	put_word(w, STACK + 308, RAW + 30);
	put_word(w, STACK + 400, 0);
	put_word(w, STACK + 408, C + 40);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 8), c | 19, BH_FRAME_RAW | (RAW + 29), c | 39);
	put_word(w, STACK + 408, 0);
	EXPECT(w, BH_REASON_COMPLETE, BH_FRAME_RAW | (RAW + 8), c | 19, BH_FRAME_RAW | (RAW + 29));
	/* Nothing to begin with. */
	w->registers.gpr[BH_REG_RBP] = 0;
	EXPECT(w, BH_REASON_NO_RULE, BH_FRAME_RAW | (RAW + 8));
	world_free(w);
}

/* A program's first instructions, before anything was put in a register: the outermost frame, and no broken stack. */
Test(walker, at_the_entry)
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

/* Outside of a module's pages nothing is known of it. */
Test(walker, outside_of_the_pages)
{
	struct world *w = world_of_leaf(END_RULE);

	w->mapping[0].bias -= 0x10000;
	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0) + 0x10000));
	w->mapping[0].bias += 0x20000;
	walk(w);
	cr_assert_eq(w->frames[0], (uint64_t)NUMBER_A << BH_FRAME_OFFSET_BITS | ((in(0) - A + A_OFFSET - 0x10000) & BH_FRAME_OFFSET_MASK));
	cr_assert_eq(w->count, 1);
	world_free(w);
}

/* ---- Each way to end ---- */

Test(walker, end_no_mapping)
{
	struct world *w = world_of_leaf(SP_RULE(32));
	static const uint64_t nowhere[] = {1, A - 1, A + TEXT_BYTES, B - 1, RAW + 0x1000, 1ull << 47, 1ull << 62, 1ull << 63, UINT64_MAX - 4096};

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

Test(walker, end_no_table)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, B + 8);
	EXPECT(w, BH_REASON_NO_TABLE, frame_of(in(0)), (uint64_t)NUMBER_B << BH_FRAME_OFFSET_BITS | 7);
	world_free(w);
}

Test(walker, end_changed)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	w->memory.modules[1].id++;
	EXPECT(w, BH_REASON_CHANGED, frame_of(in(0)));
	world_free(w);
}

Test(walker, end_no_rule)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_UNKNOWN});

	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0)));
	put_rule(w, 0, (struct bh_rule){.kind = 200, .fp_kind = 200, .bx_kind = 200, .reg = 255});
	EXPECT(w, BH_REASON_NO_RULE, frame_of(in(0)));
	world_free(w);
}

Test(walker, end_copy_short)
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
	/* A saved register that is out of reach. */
	w->copy.start = STACK;
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = INT16_MIN});
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	put_rule(w, 0, (struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .bx_kind = BH_FP_CFA, .bx = INT16_MAX});
	EXPECT(w, BH_REASON_COPY_SHORT, frame_of(in(0)));
	world_free(w);
}

Test(walker, end_bad_cfa)
{
	struct world *w = world_of_leaf(SP_RULE(0));

	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	put_rule(w, 0, SP_RULE(INT32_MIN));
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	put_rule(w, 0, FP_RULE);
	w->registers.gpr[BH_REG_RBP] = STACK + 64 - 16;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	/* So far up that it comes around. */
	w->registers.gpr[BH_REG_RBP] = UINT64_MAX - 4;
	EXPECT(w, BH_REASON_BAD_CFA, frame_of(in(0)));
	world_free(w);
}

Test(walker, end_bad_table)
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
	struct bh_page *page = (void *)(w->memory.slabs.slabs[module.page_slab].data + module.page_offset);
	page->slab = UINT16_MAX;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	page->slab = BH_SLABS_MAX - 1;
	EXPECT(w, BH_REASON_BAD_TABLE, frame_of(in(0)));
	w->mappings.slab = 17;
	EXPECT(w, BH_REASON_BAD_TABLE, BH_FRAME_RAW | in(0));
	world_free(w);
}

/* A return address of zero is the end of stacks made by hand. */
Test(walker, end_at_zero)
{
	struct world *w = world_of_leaf(SP_RULE(32));

	put_word(w, STACK + 64 + 24, 0);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)));
	world_free(w);
}

/* ---- Deep, endless, hostile ---- */

/* Function 0 calling itself `depth` times, from function 1. */
static void put_recursion(struct world *w, unsigned int depth)
{
	for (unsigned int i = 0; i < depth; i++)
		put_word(w, STACK + 64 + 24 + i * 32, in(i + 1 < depth ? 0 : 1));
}

Test(walker, end_too_deep)
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

Test(walker, frame_pointers_in_a_circle)
{
	struct world *w = world_new();

	w->registers.rip = RAW + 8;
	w->registers.gpr[BH_REG_RBP] = STACK + 200;
	put_word(w, STACK + 200, STACK + 300);
	put_word(w, STACK + 208, RAW + 20);
	put_word(w, STACK + 300, STACK + 200);
	put_word(w, STACK + 308, RAW + 30);
	EXPECT(w, BH_REASON_BAD_CFA, BH_FRAME_RAW | (RAW + 8), BH_FRAME_RAW | (RAW + 19), BH_FRAME_RAW | (RAW + 29));
	put_word(w, STACK + 200, STACK + 200);
	EXPECT(w, BH_REASON_BAD_CFA, BH_FRAME_RAW | (RAW + 8), BH_FRAME_RAW | (RAW + 19));
	/* Step by step, one byte at a time: as deep as a stack may be. */
	for (uint64_t at = STACK + 200; at + 16 < STACK_END; at += 16) {
		put_word(w, at, at + 16);
		put_word(w, at + 8, RAW + 20);
	}
	cr_assert_eq(walk(w), BH_REASON_TOO_DEEP);
	world_free(w);
}

/* A signal frame may lead anywhere, also to itself. */
Test(walker, signal_frames_in_a_circle)
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

/* ---- Reading: windows, their ends, odd addresses ---- */

Test(walker, frames_of_all_sizes)
{
	/* Return addresses wherever they may fall in a window, or behind it; the copy ends right after the last. */
	for (uint32_t size = 8; size < 3000; size += 8) {
		struct world *w = world_of_leaf(SP_RULE(size));
		const unsigned int depth = 40;

		for (unsigned int i = 0; i < depth; i++)
			put_word(w, STACK + 64 + (uint64_t)(i + 1) * size - 8, in(i + 1 < depth ? 0 : 1));
		w->copy.length = 64 + depth * size;
		cr_assert_eq(walk(w), BH_REASON_COMPLETE, "size %u, %u frames", size, w->count);
		cr_assert_eq(w->count, depth + 1);
		world_free(w);
	}
}

Test(walker, odd_stack_pointers)
{
	for (unsigned int odd = 1; odd < 8; odd++) {
		struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_SP, .cfa = 32, .fp_kind = BH_FP_CFA, .fp = -2});

		w->registers.gpr[BH_REG_RSP] += odd;
		put_word(w, STACK + 64 + 24 + odd, in(1));
		put_word(w, STACK + 64 + 16 + odd, STACK + 1000 + odd);
		put_rule(w, 1, FP_RULE);
		put_word(w, STACK + 1008 + odd, in(2));
		put_rule(w, 2, END_RULE);
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
		world_free(w);
	}
}

/* What was popped but is, by the table, still where it was: below the stack pointer. */
Test(walker, registers_below_the_stack_pointer)
{
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_SP, .cfa = 8, .fp_kind = BH_FP_CFA, .fp = -3});

	put_word(w, STACK + 64, in(1));
	put_word(w, STACK + 64 + 8 - 24, STACK + 1000);
	put_rule(w, 1, FP_RULE);
	put_word(w, STACK + 1008, in(2));
	put_rule(w, 2, END_RULE);
	EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1), frame_of(in(2) - 1));
	world_free(w);
}

/* ---- Mappings ---- */

Test(walker, as_many_mappings_as_a_process_can_have)
{
	static const unsigned int counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 4094, 4095};
	enum { SIZE = 16, STEP = 64 };
	struct world *w = world_of_leaf((struct bh_rule){.kind = BH_RULE_UNKNOWN});
	const struct walker_tables tables = unwind_memory_tables(&w->memory);

	/* In the second slab, behind the deltas. */
	const uint32_t slab = 1, offset = 1 << 20;
	struct bh_mapping *mappings = (void *)(w->memory.slabs.slabs[slab].data + offset);
	for (unsigned int c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		memset(mappings, 0xff, (BH_SLAB_BYTES - offset));
		for (uint64_t i = 0; i < counts[c]; i++)
			mappings[i] = (struct bh_mapping){A + i * STEP, A + i * STEP + SIZE, A - A_OFFSET, 3, NUMBER_C};
		for (uint64_t i = 0; i < counts[c]; i++) {
			for (uint64_t at = 0; at < STEP; at += 5) {
				w->registers.rip = A + i * STEP + at;
				unsigned int end = walker_run(&tables, &w->registers, &w->copy, slab, offset, counts[c], w->frames, &w->count);

				cr_assert_eq(w->count, 1);
				cr_assert_eq(end, at < SIZE ? BH_REASON_NO_RULE : BH_REASON_NO_MAPPING, "mapping %lu of %u, +%lu", i, counts[c], at);
			}
		}
	}
	world_free(w);
}

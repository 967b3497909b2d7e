/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process for the tests of the unwinder, with tables and stacks that are written by hand. Module
 * A has 64 functions of 256 bytes, each with one rule for all of it. B has no table yet. C has none
 * and uses frame pointers. And there is memory without a file.
 */
#ifndef TESTS_UNIT_WALKER_WORLD_H
#define TESTS_UNIT_WALKER_WORLD_H

#include <criterion/criterion.h>

#include "tests/support/unwind_memory.h"

enum {
	FUNCTIONS = 64,
	FUNCTION_BYTES = 256,
	A_OFFSET = 0x2000, /* offset of the mapping in the file of A */
	A = 0x10000,	   /* address of the mapping */
	B = 0x40000,
	C = 0x50000,
	RAW = 0x60000,
	TEXT_BYTES = FUNCTIONS * FUNCTION_BYTES,
	MODULE_ID_A = 5,
	MODULE_ID_B = 6,
	MODULE_ID_C = 0x3fffff,
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

/* Returns the id of a function's rule. */
static inline uint16_t rule_of(unsigned int function)
{
	return (uint16_t)(BH_RULE_IDS_FIXED + function);
}

static inline struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));
	struct slab_block pages, deltas;

	cr_assert_eq(unwind_memory_init(&w->memory, 2), 0);
	struct slabs *slabs = &w->memory.slabs;
	cr_assert_eq(slabs_alloc(slabs, 4096, &w->mappings), 0);
	cr_assert_eq(slabs_alloc(slabs, TEXT_BYTES >> BH_PAGE_BITS << 3, &pages), 0);
	/* The deltas are in another slab than the pages. */
	cr_assert_eq(slabs_alloc(slabs, BH_SLAB_BYTES, &deltas), 0);
	cr_assert_neq(deltas.slab, pages.slab);
	struct bh_page *page = slabs_at(slabs, &pages);
	struct bh_delta *delta = slabs_at(slabs, &deltas);
	for (uint32_t i = 0; i < TEXT_BYTES >> BH_PAGE_BITS; i++)
		page[i] =
		    (struct bh_page){.offset = deltas.offset + i * 4 * (uint32_t)sizeof(*delta),
				     .slab = (uint16_t)deltas.slab,
				     .count = 4};
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		delta[i] = (struct bh_delta){.low = (uint16_t)(i % 4 * FUNCTION_BYTES),
					     .rule = rule_of(i)};
	w->memory.modules[1] = (struct bh_module){.state = BH_MODULE_READY,
						  .id = MODULE_ID_A,
						  .page_slab = pages.slab,
						  .page_offset = pages.offset,
						  .first_page = A_OFFSET >> BH_PAGE_BITS,
						  .page_count = TEXT_BYTES >> BH_PAGE_BITS};
	w->memory.modules[2] = (struct bh_module){.state = BH_MODULE_PENDING, .id = MODULE_ID_B};
	w->memory.modules[3] =
	    (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = MODULE_ID_C};
	w->mapping = slabs_at(slabs, &w->mappings);
	w->mapping[0] = (struct bh_mapping){A, A + TEXT_BYTES, A - A_OFFSET, 1, MODULE_ID_A};
	w->mapping[1] = (struct bh_mapping){B, B + 0x1000, B, 2, MODULE_ID_B};
	w->mapping[2] = (struct bh_mapping){C, C + 0x1000, C, 3, MODULE_ID_C};
	w->mapping[3] = (struct bh_mapping){RAW, RAW + 0x1000, 0, 0, 0};
	w->copy = (struct walker_stack){STACK, (const uint8_t *)w->stack, sizeof(w->stack)};
	w->registers.gpr[BH_REG_RSP] = STACK + 64;
	w->registers.gpr[15] = 1; /* otherwise it looks like the first instruction of a program */
	return w;
}

static inline void world_free(struct world *w)
{
	unwind_memory_fini(&w->memory);
	free(w);
}

/* Returns an address in function i of A. */
static inline uint64_t in(unsigned int i)
{
	return A + i * FUNCTION_BYTES + 17;
}

static inline uint64_t frame_of(uint64_t address)
{
	return (uint64_t)MODULE_ID_A << BH_FRAME_OFFSET_BITS | (address - A + A_OFFSET);
}

static inline void put_rule(struct world *w, unsigned int function, struct bh_rule rule)
{
	w->memory.rules->table[rule_of(function)] = rule;
}

static inline void put_word(struct world *w, uint64_t address, uint64_t value)
{
	memcpy((uint8_t *)w->stack + (address - STACK), &value, sizeof(value));
}

static inline unsigned int walk(struct world *w)
{
	const struct walker_tables tables = unwind_memory_tables(&w->memory);

	return walker_run(&tables, &w->registers, &w->copy, w->mappings.slab, w->mappings.offset,
			  MAPPINGS, w->frames, &w->count);
}

static inline void expect(struct world *w, unsigned int reason, unsigned int count,
			  const uint64_t *frames)
{
	const unsigned int got = walk(w);

	cr_assert_eq(got, reason, "reason %u, not %u, after %u frames", got, reason, w->count);
	cr_assert_eq(w->count, count, "%u frames, not %u", w->count, count);
	for (unsigned int i = 0; i < count; i++)
		cr_assert_eq(w->frames[i], frames[i], "frame %u: %lx, not %lx", i, w->frames[i],
			     frames[i]);
}

#define EXPECT(w, reason, ...)                                                                     \
	expect(w, reason, (unsigned int)sizeof((const uint64_t[]){__VA_ARGS__}) / 8,               \
	       (const uint64_t[]){__VA_ARGS__})

#define SP_RULE(bytes) ((struct bh_rule){.kind = BH_RULE_SP, .cfa = (bytes)})
#define FP_RULE ((struct bh_rule){.kind = BH_RULE_FP, .cfa = 16, .fp_kind = BH_FP_CFA, .fp = -2})
#define END_RULE ((struct bh_rule){.kind = BH_RULE_END})

/* Makes a leaf with `rule`, called from function 1, which is the outermost. The frame of the leaf
 * has 32 bytes. */
static inline struct world *world_of_leaf(struct bh_rule rule)
{
	struct world *w = world_new();

	put_rule(w, 0, rule);
	put_rule(w, 1, END_RULE);
	w->registers.rip = in(0);
	put_word(w, STACK + 64 + 24, in(1));
	return w;
}

#define EXPECT_CALLED(w)                                                                           \
	do {                                                                                       \
		EXPECT(w, BH_REASON_COMPLETE, frame_of(in(0)), frame_of(in(1) - 1));               \
		world_free(w);                                                                     \
	} while (0)

static inline void put_ucontext(struct world *w, uint64_t at, const uint64_t gpr[16], uint64_t rip)
{
	static const uint8_t order[] = {8,	    9,		10,	    11,
					12,	    13,		14,	    15,
					BH_REG_RDI, BH_REG_RSI, BH_REG_RBP, BH_REG_RBX,
					BH_REG_RDX, BH_REG_RAX, BH_REG_RCX, BH_REG_RSP};

	for (unsigned int i = 0; i < 16; i++)
		put_word(w, at + 40 + i * 8, gpr[order[i]]);
	put_word(w, at + 40 + 128, rip);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of machine code with known rules, for the tests of code_flow.h. */
#ifndef TESTS_CODE_FLOW_FIXTURE_H
#define TESTS_CODE_FLOW_FIXTURE_H

#include <criterion/criterion.h>

#include "parse/code_flow.h"
#include "tests/support/cfi_paint.h"

enum {
	RBX = 3,
	RBP = 6,
	RSP = 7,
};

/* ---- Collecting the rows of a region ---- */

static inline void parse(struct cfi_paint *painted, const struct code_region *region)
{
	const struct cfi_sink sink = cfi_paint_sink(painted);
	struct code_flow *flow;

	cr_assert_eq(code_flow_new(&flow, &sink), 0);
	cr_assert_eq(code_flow_parse(flow, region), 0);
	code_flow_free(flow);
}

static inline const struct cfi_rule *rule_before(const struct cfi_paint *painted, const void *label, unsigned int bytes)
{
	const uint64_t vaddr = (uint64_t)label - bytes;

	cr_assert_lt(vaddr - painted->start, painted->length);
	return cfi_paint_rule(painted, vaddr);
}

static inline const struct cfi_rule *rule_at(const struct cfi_paint *painted, const void *label)
{
	return rule_before(painted, label, 0);
}

static inline void is_cfa(const struct cfi_paint *painted, const void *label, int reg, int offset, const char *what)
{
	const struct cfi_rule *rule = rule_at(painted, label);

	cr_assert_not_null(rule, "%s", what);
	cr_expect_eq(rule->cfa_kind, CFI_CFA_REGISTER, "%s", what);
	cr_expect_eq(rule->cfa_register, reg, "%s: register %d", what, rule->cfa_register);
	cr_expect_eq(rule->cfa_offset, offset, "%s: offset %d", what, rule->cfa_offset);
	cr_expect_eq(rule->ra_kind, CFI_SAVE_CFA, "%s", what);
	cr_expect_eq(rule->ra_offset, -8, "%s", what);
}

/* `saved` is the distance below the CFA; 0: still in the register. */
static inline void is_saved(const struct cfi_paint *painted, const void *label, int fp, int bx, const char *what)
{
	const struct cfi_rule *rule = rule_at(painted, label);

	cr_assert_not_null(rule, "%s", what);
	cr_expect_eq(rule->fp_kind, fp ? CFI_SAVE_CFA : CFI_SAVE_SAME, "%s", what);
	cr_expect_eq(rule->fp_offset, fp, "%s: rbp at %d", what, rule->fp_offset);
	cr_expect_eq(rule->bx_kind, bx ? CFI_SAVE_CFA : CFI_SAVE_SAME, "%s", what);
	cr_expect_eq(rule->bx_offset, bx, "%s: rbx at %d", what, rule->bx_offset);
}

static inline void is_lost(const struct cfi_paint *painted, const void *label, const char *what)
{
	const struct cfi_rule *rule = rule_at(painted, label);

	cr_assert_not_null(rule, "%s", what);
	cr_expect_eq(rule->cfa_kind, CFI_CFA_FRAME_POINTER, "%s", what);
}

/* A region between two labels, and its rows. */
#define REGION(name, painted)                                                                        \
	extern const uint8_t name[], name##_end[];                                                 \
	struct code_region region = {.bytes = name,                                              \
				       .length = (size_t)(name##_end - name),                      \
				       .vaddr = (uint64_t)name};                                   \
	struct cfi_paint painted;                                                                          \
	cr_assert_eq(cfi_paint_init(&painted, (uint64_t)name, region.length), 0)

#define LABEL(name) extern const uint8_t name[]
#define CFA(label, reg, offset)                                                                    \
	do {                                                                                       \
		LABEL(label);                                                                      \
		is_cfa(&painted, label, reg, offset, #label);                                         \
	} while (0)
#define SAVED(label, fp, bx)                                                                       \
	do {                                                                                       \
		LABEL(label);                                                                      \
		is_saved(&painted, label, fp, bx, #label);                                            \
	} while (0)
#define LOST(label)                                                                                \
	do {                                                                                       \
		LABEL(label);                                                                      \
		is_lost(&painted, label, #label);                                                     \
	} while (0)

#endif

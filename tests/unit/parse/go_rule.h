/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of Go functions have in common. */
#ifndef TESTS_GO_RULE_H
#define TESTS_GO_RULE_H

#include <criterion/criterion.h>
#include <string.h>

#include "parse/cfi_types.h"

/* Checks everything of a rule but how large the frame is. */
static inline void go_check_rule(const struct cfi_rule *rule)
{
	const bool has_frame = rule->cfa_offset > 8;
	const struct cfi_rule expected = {.cfa_kind = CFI_CFA_REGISTER,
					  .cfa_register = 7,
					  .cfa_offset = rule->cfa_offset,
					  .fp_kind = has_frame ? CFI_SAVE_CFA : CFI_SAVE_SAME,
					  .fp_offset = has_frame ? -16 : 0,
					  .ra_kind = CFI_SAVE_CFA,
					  .ra_offset = -8};

	cr_assert_eq(memcmp(rule, &expected, sizeof(expected)), 0);
}

#endif

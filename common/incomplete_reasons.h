/* SPDX-License-Identifier: Apache-2.0 */
/* Why a user stack is incomplete: the reasons of incomplete_reasons.def and their names. */
#ifndef COMMON_INCOMPLETE_REASONS_H
#define COMMON_INCOMPLETE_REASONS_H

/* The values equal those of enum bh_reason in bpf/shared.h, which is generated from the same
 * table. */
enum incomplete_reason {
	INCOMPLETE_NONE, /* the stack is complete */
#define INCOMPLETE_REASON(id, name) INCOMPLETE_##id,
#include "common/incomplete_reasons.def"
#undef INCOMPLETE_REASON
	INCOMPLETE_COUNT
};

extern const char *const incomplete_reason_names[INCOMPLETE_COUNT];

#endif

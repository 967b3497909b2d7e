/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWINDER_MGR_RULE_COMPILE_H
#define UNWINDER_MGR_RULE_COMPILE_H

#include "bpf/shared.h"
#include "parse/cfi.h"

/* A rule as the walker knows it. What the walker does not look at is zero, so that equal rules are
 * one rule. */
struct bh_rule rule_compile(const struct cfi_rule *rule);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWINDER_MGR_RULE_COMPILE_H
#define UNWINDER_MGR_RULE_COMPILE_H

#include "bpf/shared.h"
#include "parse/cfi.h"

/* Translates a rule of the call frame information into the walker's form. Fields that the walker
 * does not read for this kind of rule are zero, so that rules with the same effect are equal. What
 * the walker cannot express becomes BH_RULE_UNKNOWN. */
struct bh_rule rule_compile(const struct cfi_rule *rule);

#endif

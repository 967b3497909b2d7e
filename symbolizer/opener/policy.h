/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOLIZER_OPENER_POLICY_H
#define SYMBOLIZER_OPENER_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy opener_policy;
/* With --strict-memory. */
extern const struct sandbox_policy opener_strict_policy;

#endif

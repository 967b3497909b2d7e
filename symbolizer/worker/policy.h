/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOLIZER_WORKER_POLICY_H
#define SYMBOLIZER_WORKER_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy worker_policy;
/* The policy with --strict-memory. */
extern const struct sandbox_policy worker_strict_policy;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWINDER_MGR_POLICY_H
#define UNWINDER_MGR_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy manager_policy;

#endif

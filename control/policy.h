/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTROL_POLICY_H
#define CONTROL_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy control_policy;

#endif

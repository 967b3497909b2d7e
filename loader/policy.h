/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADER_POLICY_H
#define LOADER_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy loader_policy;

#endif

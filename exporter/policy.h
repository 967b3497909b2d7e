/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_POLICY_H
#define EXPORTER_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy exporter_policy;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_DELIVERY_POLICY_H
#define EXPORTER_DELIVERY_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy otlp_exporter_policy;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_DELIVERY_POLICY_H
#define EXPORTER_DELIVERY_POLICY_H

#include "common/sandbox.h"

extern const struct sandbox_policy otlp_exporter_policy;
/* Where export.endpoint is a Unix socket: for the role, and for the helper that connects. */
extern const struct sandbox_policy otlp_local_exporter_policy, otlp_connector_policy;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What OTLP says about a process. */
#ifndef EXPORTER_OTLP_OTLP_RESOURCE_H
#define EXPORTER_OTLP_OTLP_RESOURCE_H

#include "exporter/otlp/otlp_encode.h"
#include "exporter/otlp/proto_out.h"

/* The Resource of a process as a field of its ResourceProfiles. `for_backend`: without what only
 * files need. Attributes have their keys and values inline, not by number: several receivers
 * resolve no references in a resource. */
void otlp_resource_put(const struct profile *profile, uint32_t process,
		       const struct otlp_encode_options *options, bool for_backend,
		       struct proto_out *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What OTLP says about a process: its Resource. */
#ifndef EXPORTER_OTLP_OTLP_RESOURCE_H
#define EXPORTER_OTLP_OTLP_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "exporter/model/profile.h"
#include "exporter/otlp/proto_out.h"

/* Both are UTF-8. */
struct otlp_resource_attribute {
	const char *key, *value;
};

struct otlp_resource_options {
	/* Attributes that every resource gets. One is left out if the process itself, or an earlier
	 * entry of the list, has an attribute with this key. */
	const struct otlp_resource_attribute *attributes;
	size_t attribute_count;
	bool for_backend; /* without the attributes that only a recording needs */
};

/* Writes the Resource of a process as a field of its ResourceProfiles. Keys and values are written
 * inline and not as indexes into the dictionary, because several backends resolve no indexes in a
 * resource. */
void otlp_resource_put(const struct profile *profile, uint32_t process,
		       const struct otlp_resource_options *options, struct proto_out *out);

#endif

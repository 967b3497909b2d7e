/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exporter/model/profile.h"

void profile_location_name(const struct profile *profile, uint32_t location, char *buffer,
			   size_t size)
{
	const struct profile_location *l = &profile->locations[location];
	uint32_t name = profile->functions[l->function].name;

	if (!size)
		return;
	if (name) {
		snprintf(buffer, size, "%s", profile->strings[name]);
		return;
	}
	const char *module = profile->strings[profile->mappings[l->mapping].filename];
	const char *slash = strrchr(module, '/');
	if (slash && slash[1])
		module = slash + 1;
	if (*module)
		snprintf(buffer, size, "%s+0x%" PRIx64, module, l->address);
	else
		snprintf(buffer, size, "0x%" PRIx64, l->address);
}

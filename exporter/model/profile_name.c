/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
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

void profile_location_line(const struct profile *profile, uint32_t location,
			   char buffer[static PROFILE_LINE_BYTES])
{
	const struct profile_location *l = &profile->locations[location];
	const char *path = profile->strings[profile->functions[l->function].filename];
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;

	if (!l->line)
		buffer[0] = 0;
	else if (!*file || strlen(file) > NAME_MAX)
		snprintf(buffer, PROFILE_LINE_BYTES, " (line %" PRIu32 ")", l->line);
	else
		snprintf(buffer, PROFILE_LINE_BYTES, " (%s:%" PRIu32 ")", file, l->line);
}

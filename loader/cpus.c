/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/cpus.h"

#include <errno.h>
#include <stdlib.h>

int cpus_parse(const char *text, struct cpu_set *set)
{
	struct cpu_set parsed = {0};

	while (*text && *text != '\n') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return -EINVAL;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text || last < first)
				return -EINVAL;
		}
		for (unsigned long cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++)
			parsed.online[cpu] = true;
		text = end;
		if (*text == ',')
			text++;
		else if (*text && *text != '\n')
			return -EINVAL;
	}
	*set = parsed;
	return 0;
}

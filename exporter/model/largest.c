/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/largest.h"

unsigned int largest_find(const uint64_t *values, uint32_t count, uint32_t *indexes,
			  unsigned int room)
{
	unsigned int found = 0;

	for (uint32_t i = 0; i < count; i++) {
		unsigned int at = found;

		while (at > 0 && values[indexes[at - 1]] < values[i])
			at--;
		if (!values[i] || at == room)
			continue;
		if (found < room)
			found++;
		for (unsigned int j = found - 1; j > at; j--)
			indexes[j] = indexes[j - 1];
		indexes[at] = i;
	}
	return found;
}

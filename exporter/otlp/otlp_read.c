/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The file may come from anyone, so reading it must not take much more memory than
 * it has bytes. Messages that contain many others are walked field by field with the cursor. Only
 * their smallest parts (one table entry, one sample) are unpacked by protobuf-c, with a cap on the
 * memory for it. Each index is checked against its table when the entry that contains it is read.
 *
 * protobuf allows fields in any order, and merges a submessage that occurs several times. So the
 * file is walked once for each table of the dictionary, in the order in which tables refer to each
 * other, and then twice for the samples: the first pass only finds faults and counts, the second
 * one adds. A malformed file therefore adds no sample.
 *
 * Example: a file with the fields
 *
 *   resource_profiles { ... samples { stack_index: 1 } }
 *   dictionary { string_table: "" "main"  function_table: {} { name_strindex: 1 }
 *                location_table: {} { lines { function_index: 1 } }
 *                stack_table: {} { location_indices: 1 } }
 *
 * The walk for strings stores "" and "main"; that for functions interns "main" in the profile and
 * stores the id for index 1; that for locations finds function index 1 in that list; that for
 * stacks finds location index 1. The walk for samples then finds stack index 1, although the sample
 * comes first in the file.
 *
 * Parts: otlp_read_dictionary.c (tables), otlp_read_resources.c (samples).
 */
#include "exporter/otlp/otlp_read.h"

#include <errno.h>

#include "exporter/otlp/otlp_read_dictionary.h"
#include "exporter/otlp/otlp_read_resources.h"

int otlp_read(const uint8_t *data, size_t length, struct profile *profile)
{
	_cleanup_(reader_free) struct reader *r = reader_new(data, length, profile);

	if (!r)
		return -ENOMEM;
	int result = reader_read_dictionary(r);
	if (result == 0)
		result = reader_for_each(r, r->file, OTLP_DATA_RESOURCE_PROFILES,
					 reader_read_resource_profiles, NULL);
	if (result < 0)
		return result;
	r->adding = true;
	return reader_for_each(r, r->file, OTLP_DATA_RESOURCE_PROFILES,
			       reader_read_resource_profiles, NULL);
}

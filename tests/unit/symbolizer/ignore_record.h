/* SPDX-License-Identifier: Apache-2.0 */
/* IGNORE_RECORD(kind): the handler ignore_KIND of a struct records_visitor, for records of which the
 * test looks at none. */
#ifndef TESTS_UNIT_SYMBOLIZER_IGNORE_RECORD_H
#define TESTS_UNIT_SYMBOLIZER_IGNORE_RECORD_H

#include "records/records.h"

#define IGNORE_RECORD(kind)                                                                        \
	static int ignore_##kind(void *context, const struct record_##kind *record)                \
	{                                                                                          \
		(void)context;                                                                     \
		(void)record;                                                                      \
		return 0;                                                                          \
	}

#endif

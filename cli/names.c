/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/names.h"

#include <inttypes.h>

const char *const loss_names[LOSS_COUNT] = {
#define LOSS_NAME(name, text) text,
    LOSS_REASONS(LOSS_NAME)
#undef LOSS_NAME
};

void names_print_json(FILE *out, const char *key, const char *const *names, const uint64_t *counts,
		      int first, int count)
{
	fprintf(out, "  \"%s\": {", key);
	for (int i = first; i < count; i++)
		fprintf(out, "%s\"%s\": %" PRIu64, i > first ? ", " : "", names[i], counts[i]);
	fprintf(out, "},\n");
}

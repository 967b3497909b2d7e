/* SPDX-License-Identifier: Apache-2.0 */
#include "config/runtime_set.h"

#include <string.h>
#include <strings.h>

#include "common/runtimes.h"

static uint32_t find_name(const char *text, size_t length)
{
	for (unsigned int i = 1; i < RUNTIME_ID_COUNT; i++) {
		if (strlen(runtime_names[i]) == length &&
		    !strncasecmp(runtime_names[i], text, length))
			return 1u << i;
	}
	return 0;
}

bool runtime_set_parse(const char *text, uint32_t *set)
{
	static const char between[] = ", \t";
	uint32_t found = 0;

	if (!strcasecmp(text, "all")) {
		*set = RUNTIME_SET_ALL;
		return true;
	}
	if (!strcasecmp(text, "none")) {
		*set = 0;
		return true;
	}
	while (*(text += strspn(text, between))) {
		const size_t length = strcspn(text, between);
		const uint32_t one = find_name(text, length);

		if (!one)
			return false;
		found |= one;
		text += length;
	}
	if (found)
		*set = found;
	return found;
}

void runtime_set_print(uint32_t set, FILE *out)
{
	bool first = true;

	if (set == RUNTIME_SET_ALL || !set) {
		fputs(set ? "all" : "none", out);
		return;
	}
	for (unsigned int i = 1; i < RUNTIME_ID_COUNT; i++) {
		if (!(set >> i & 1))
			continue;
		fprintf(out, "%s%s", first ? "" : ",", runtime_names[i]);
		first = false;
	}
}

const char *runtime_set_names(void)
{
	static const char text[] = ""
#define RUNTIME(id, name, frame_type, title) ", " #name
#define RUNTIME_WITHOUT_WALKER(id, name, title) ", " #name
#include "common/runtimes.def"
#undef RUNTIME
	    ;

	return text + strlen(", ");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config/runtime_set.h"

#include <string.h>
#include <strings.h>

#include "common/runtimes.h"

static const char all_name[] = "all";

/* By extra: the runtime that it is a part of. */
static const uint32_t implied[RUNTIME_EXTRA_END] = {
#define RUNTIME(id, name, frame_type, title)
#define RUNTIME_EXTRA(id, name, of) [RUNTIME_ID_##id] = 1u << RUNTIME_ID_##of,
#include "common/runtimes.def"
#undef RUNTIME
};

static bool is_name(const char *name, const char *text, size_t length)
{
	return strlen(name) == length && !strncasecmp(name, text, length);
}

static uint32_t find_name(const char *text, size_t length)
{
	if (is_name(all_name, text, length))
		return RUNTIME_SET_ALL;
	for (unsigned int i = 1; i < RUNTIME_EXTRA_END; i++) {
		if (is_name(runtime_names[i], text, length))
			return 1u << i | implied[i];
	}
	return 0;
}

bool runtime_set_parse(const char *text, uint32_t *set)
{
	static const char between[] = ", \t";
	uint32_t found = 0;

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
	const bool all = (set & RUNTIME_SET_ALL) == RUNTIME_SET_ALL;
	bool first = !all;

	fputs(all ? all_name : set ? "" : "none", out);
	for (unsigned int i = all ? RUNTIME_ID_COUNT : 1; i < RUNTIME_EXTRA_END; i++) {
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
#define RUNTIME_EXTRA(id, name, of) ", " #name
#include "common/runtimes.def"
#undef RUNTIME
	    ;

	return text + strlen(", ");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of /proc/PID/cgroup. In addition to memory errors, it checks what cgroup.h
 * promises. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char allowed[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
	struct cgroup_container found, again;

	memset(&found, 'x', sizeof(found));
	cgroup_parse((const char *)data, size, &found);
	check(memchr(found.id, 0, sizeof(found.id)));
	check(strspn(found.id, allowed) == strlen(found.id));
	check(!found.by_unified_alone || found.id[0]);
	const uint64_t number = cgroup_container_of_host((const char *)data, size);
	check(!number || found.id[0] || size > CGROUP_TEXT_MAX);
	/* An additional line without a container does not change the id. */
	char *longer = malloc(size + 6);
	check(longer);
	memcpy(longer, "7:x:/\n", 6);
	if (size)
		memcpy(longer + 6, data, size);
	if (size + 6 <= CGROUP_TEXT_MAX) {
		cgroup_parse(longer, size + 6, &again);
		check(!strcmp(found.id, again.id));
		check(found.by_unified_alone == again.by_unified_alone);
		check(cgroup_container_of_host(longer, size + 6) == number);
	}
	free(longer);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the parser of the table of mounts. What it keeps must be paths with an end. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/host_mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void check_mount(const struct host_mount *mount)
{
	check(memchr(mount->path, 0, sizeof(mount->path)) != NULL);
	check(memchr(mount->root, 0, sizeof(mount->root)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host_mounts mounts;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	host_mounts_parse(text, &mounts);
	check_mount(&mounts.cgroup2);
	check_mount(&mounts.cgroup_memory);
	check_mount(&mounts.bpffs);
	check(memchr(mounts.proc_hidepid, 0, sizeof(mounts.proc_hidepid)) != NULL);
	check(!strchr(mounts.proc_hidepid, ','));
	free(text);
	return 0;
}

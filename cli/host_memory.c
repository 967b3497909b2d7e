/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: /proc/self/cgroup names the cgroup of each hierarchy, relative to the root of
 * that hierarchy. The mount shows a directory of the hierarchy, often its root. So the path below
 * the mount is the name without the directory that is mounted. From there up to the mount, each
 * cgroup may have a limit, and the least one counts.
 *
 * Example: the line "0::/kubepods/pod1/c1" and a mount of "/" at /sys/fs/cgroup. The files are
 * /sys/fs/cgroup/kubepods/pod1/c1/memory.max, then memory.max of the two directories above it.
 */
#include "cli/host_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/host_text.h"

enum {
	/* A process is in one cgroup per hierarchy, of which version 1 has at most 20 or so. */
	CGROUP_FILE_BYTES = 16 << 10,
};

/* Version 1 writes the largest multiple of a page for "no limit". */
#define LEAST_UNLIMITED (1ull << 62)

/* Finds the line of the hierarchy in /proc/self/cgroup: "ID:CONTROLLERS:PATH", where version 2 has
 * the id 0 and no controllers. Returns the path, or NULL. */
static char *find_cgroup(char *text, bool version2)
{
	char *saved = NULL;

	for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path || path[1] != '/')
			continue;
		*path++ = 0;
		*controllers++ = 0;
		if (version2 ? !strcmp(line, "0") && !*controllers
			     : host_text_has_word(controllers, "memory"))
			return path;
	}
	return NULL;
}

static void take_limit(const char *directory, const char *file, uint64_t *least)
{
	char text[64], *end;

	if (host_text_read(directory, file, text, sizeof(text)) <= 0)
		return;
	errno = 0;
	const uint64_t value = strtoull(text, &end, 10);
	if (end != text && !errno && text[0] != '-' && value < LEAST_UNLIMITED && value < *least)
		*least = value;
}

/* Follows one hierarchy. Returns 0, or -ENOENT if the cgroup is not below the mount. */
static int follow(const char *root, const struct host_mount *mount, const char *cgroup,
		  const char *file, uint64_t *least)
{
	const size_t visible = strcmp(mount->root, "/") ? strlen(mount->root) : 0;
	char path[PATH_MAX];

	if (strncmp(cgroup, mount->root, visible) || strstr(cgroup, "/.."))
		return -ENOENT;
	const int top = snprintf(path, sizeof(path), "%s%s", root, mount->path);
	const int n = snprintf(path, sizeof(path), "%s%s%s", root, mount->path, cgroup + visible);
	if (top < 0 || n < top || (size_t)n >= sizeof(path))
		return -ENOENT;
	for (char *end = path + n; end >= path + top; end--) {
		if (*end && *end != '/')
			continue;
		*end = 0;
		take_limit(path, file, least);
	}
	return 0;
}

int host_memory_read_limit(const char *root, const struct host_mounts *mounts, uint64_t *bytes)
{
	const bool version2 = !mounts->cgroup_memory.path[0];
	const struct host_mount *mount = version2 ? &mounts->cgroup2 : &mounts->cgroup_memory;
	char text[CGROUP_FILE_BYTES];

	if (!mount->path[0] || host_text_read(root, "/proc/self/cgroup", text, sizeof(text)) <= 0)
		return -ENOENT;
	const char *cgroup = find_cgroup(text, version2);
	if (!cgroup)
		return -ENOENT;
	uint64_t least = HOST_MEMORY_UNLIMITED;
	int r = follow(root, mount, cgroup, version2 ? "/memory.max" : "/memory.limit_in_bytes",
		       &least);
	if (!r)
		*bytes = least;
	return r;
}

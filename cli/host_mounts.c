/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: a line of the table has six fields, some optional ones, a field "-", and then the
 * type, the source and the options of the file system, all separated by single spaces. A space in a
 * path is written as \040.
 *
 * Example: 22 27 0:21 / /proc rw,relatime shared:12 - proc proc rw,hidepid=invisible
 */
#include "cli/host_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file_read.h"

enum {
	MOUNT_FIELDS = 6, /* before the optional ones */
	FIELD_ROOT = 3,
	FIELD_PATH = 4,
	FIRST_READ_BYTES = 16 << 10,
};

struct mount_line {
	char *root, *path, *type, *options;
};

/* Replaces \NNN by the byte with this octal number. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned int byte = 0;
		int digits = 0;

		while (*from == '\\' && digits < 3 && from[digits + 1] >= '0' &&
		       from[digits + 1] <= '7')
			byte = byte * 8 + (unsigned int)(from[++digits] - '0');
		*to = digits == 3 ? (char)byte : *from;
		from += digits == 3 ? 4 : 1;
	}
	*to = 0;
}

static bool split_line(char *line, struct mount_line *mount)
{
	char *fields[MOUNT_FIELDS], *saved = NULL;
	char *end = strstr(line, " - ");

	if (!end)
		return false;
	*end = 0;
	for (int i = 0; i < MOUNT_FIELDS; i++) {
		fields[i] = strtok_r(i ? NULL : line, " ", &saved);
		if (!fields[i])
			return false;
	}
	mount->type = strtok_r(end + 3, " ", &saved);
	/* The source of a mount may be empty, so the options are what follows the last space. */
	char *options = saved ? strrchr(saved, ' ') : NULL;
	mount->options = options ? options + 1 : saved;
	mount->root = fields[FIELD_ROOT];
	mount->path = fields[FIELD_PATH];
	unescape(mount->root);
	unescape(mount->path);
	return mount->type && mount->options && *mount->options;
}

/* Finds an option of a list separated by commas. Returns what follows `name` in it, or NULL. */
static const char *find_option(const char *options, const char *name, size_t *length)
{
	const size_t name_length = strlen(name);

	for (const char *at = options; *at; at += strspn(at, ",")) {
		const size_t n = strcspn(at, ",");

		if (n >= name_length && !strncmp(at, name, name_length)) {
			*length = n - name_length;
			return at + name_length;
		}
		at += n;
	}
	return NULL;
}

static void keep_first(struct host_mount *kept, const struct mount_line *mount)
{
	if (kept->path[0] || strlen(mount->path) >= sizeof(kept->path) ||
	    strlen(mount->root) >= sizeof(kept->root))
		return;
	memcpy(kept->path, mount->path, strlen(mount->path) + 1);
	memcpy(kept->root, mount->root, strlen(mount->root) + 1);
}

/* The last mount on /proc hides earlier ones. */
static void keep_proc(struct host_mounts *mounts, const struct mount_line *mount)
{
	size_t length = 0, rest = 0;
	const char *hidepid = find_option(mount->options, "hidepid=", &length);

	mounts->proc = !strcmp(mount->type, "proc");
	mounts->proc_subset_pid = find_option(mount->options, "subset=pid", &rest) && !rest;
	mounts->proc_hidepid[0] = 0;
	if (hidepid && length < sizeof(mounts->proc_hidepid)) {
		memcpy(mounts->proc_hidepid, hidepid, length);
		mounts->proc_hidepid[length] = 0;
	}
}

static void keep_mount(struct host_mounts *mounts, const struct mount_line *mount)
{
	size_t rest = 1;

	if (!strcmp(mount->path, "/proc"))
		keep_proc(mounts, mount);
	if (!strcmp(mount->type, "cgroup2"))
		keep_first(&mounts->cgroup2, mount);
	if (!strcmp(mount->type, "bpf"))
		keep_first(&mounts->bpffs, mount);
	if (!strcmp(mount->type, "cgroup") && find_option(mount->options, "memory", &rest) && !rest)
		keep_first(&mounts->cgroup_memory, mount);
}

void host_mounts_parse(char *text, struct host_mounts *mounts)
{
	char *saved = NULL;

	*mounts = (struct host_mounts){0};
	for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
		struct mount_line mount;

		if (split_line(line, &mount))
			keep_mount(mounts, &mount);
	}
}

int host_mounts_read(const char *root, struct host_mounts *mounts)
{
	char path[PATH_MAX];
	_cleanup_free_ uint8_t *text = NULL;
	size_t length;

	*mounts = (struct host_mounts){0};
	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	int r = file_read_all(fd, FIRST_READ_BYTES, HOST_MOUNTS_BYTES, &text, &length);
	if (r < 0)
		return r;
	host_mounts_parse((char *)text, mounts);
	return 0;
}

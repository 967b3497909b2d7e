/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see open_debug.h. */
#include "symbolizer/opener/open_debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "symbolizer/opener/open_file.h"

enum {
	HEX_BYTES = 2 * MSG_BUILD_ID_BYTES + 1,
	PATH_BYTES = HEX_BYTES + sizeof(".build-id//.debug"),
};

/* Returns whether the owner of the directory, who may have placed a link in it, may read the file.
 * What root keeps from others is no debug file. */
static bool is_readable(const struct stat *file, const struct stat *directory)
{
	return file->st_mode & S_IROTH ||
	       (file->st_uid && file->st_uid == directory->st_uid && file->st_mode & S_IRUSR);
}

static int open_below(int directory, const char *path)
{
	struct stat top, st;
	_cleanup_close_ int path_fd = openat(directory, path, O_PATH | O_CLOEXEC);

	if (path_fd < 0 || fstat(path_fd, &st) < 0 || fstat(directory, &top) < 0)
		return -errno;
	if (!is_readable(&st, &top))
		return -EACCES;
	return open_file_again(path_fd, major(st.st_dev), minor(st.st_dev));
}

int open_debug_file(const struct directories *directories, const struct msg_open_debug *request)
{
	char hex[HEX_BYTES], paths[2][PATH_BYTES];
	int error = -ENOENT;

	if (request->length < 2 || request->length > MSG_BUILD_ID_BYTES)
		return -EINVAL;
	for (uint32_t i = 0; i < request->length; i++)
		snprintf(hex + 2 * i, sizeof(hex) - 2 * i, "%02x", request->build_id[i]);
	snprintf(paths[0], sizeof(paths[0]), ".build-id/%.2s/%s.debug", hex, hex + 2);
	snprintf(paths[1], sizeof(paths[1]), "%s/debuginfo", hex);
	for (unsigned int i = 0; i < 2 * directories->count; i++) {
		const int fd = open_below(directories->fds[i / 2], paths[i % 2]);

		if (fd >= 0)
			return fd;
		if (fd != -ENOENT && fd != -ENOTDIR)
			error = fd;
	}
	return error;
}

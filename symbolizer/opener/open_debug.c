/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see open_debug.h. */
#include "symbolizer/opener/open_debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "symbolizer/opener/open_file.h"

enum {
	HEX_BYTES = 2 * MSG_BUILD_ID_BYTES + 1,
	PATH_BYTES = HEX_BYTES + sizeof(".build-id//.debug"),
};

static int open_below(int directory, const char *path)
{
	struct stat st;
	_cleanup_close_ int path_fd = openat(directory, path, O_PATH | O_CLOEXEC);

	if (path_fd < 0 || fstat(path_fd, &st) < 0)
		return -errno;
	return open_file_again(path_fd, major(st.st_dev), minor(st.st_dev));
}

int open_debug_file(const struct directories *directories, const struct msg_open_debug *request)
{
	char hex[HEX_BYTES], packaged[PATH_BYTES], cached[PATH_BYTES];
	int r = -ENOENT;

	if (request->length < 2 || request->length > MSG_BUILD_ID_BYTES)
		return -EINVAL;
	for (uint32_t i = 0; i < request->length; i++)
		snprintf(hex + 2 * i, sizeof(hex) - 2 * i, "%02x", request->build_id[i]);
	snprintf(packaged, sizeof(packaged), ".build-id/%.2s/%s.debug", hex, hex + 2);
	snprintf(cached, sizeof(cached), "%s/debuginfo", hex);
	for (unsigned int i = 0; i < directories->count; i++) {
		const int first = open_below(directories->fds[i], packaged);

		r = first >= 0 ? first : open_below(directories->fds[i], cached);
		if (r >= 0)
			return r;
		/* The error that says more. */
		if (r == -ENOENT && first != -ENOTDIR)
			r = first;
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see open_debug.h. */
#include "symbolizer/opener/open_debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "symbolizer/opener/living_thread.h"
#include "symbolizer/opener/open_file.h"

enum {
	HEX_BYTES = 2 * MSG_BUILD_ID_BYTES + 1,
	PATH_BYTES = HEX_BYTES + sizeof(".build-id//.debug"),
};

/* Where distributions put debug files, in any root. */
#define DEBUG_DIRECTORY "usr/lib/debug"
/* Where they put alternate files, in directories of debug files: Debian (debhelper's dh_dwz),
 * Fedora (debugedit's find-debuginfo). */
static const char *const alternate_directories[] = {".dwz/x86_64-linux-gnu", ".dwz"};
enum {
	ALTERNATE_DIRECTORIES = sizeof(alternate_directories) / sizeof(alternate_directories[0]),
};
/* Where they put the kernel with its debug information, around its version: Debian and Ubuntu
 * (/usr/lib/debug/boot/vmlinux-VERSION), Fedora (/usr/lib/debug/lib/modules/VERSION/vmlinux). Below
 * the directory where somebody has built one, it is just "vmlinux". */
static const char *const kernel_paths[][2] = {{"boot/vmlinux-", ""}, {"lib/modules/", "/vmlinux"}};
enum {
	KERNEL_PATHS = sizeof(kernel_paths) / sizeof(kernel_paths[0]),
	HOST_PATHS_MAX = 2 + KERNEL_PATHS + 1,
};
_Static_assert(HOST_PATHS_MAX >= 2 + (int)ALTERNATE_DIRECTORIES, "paths of alternate files fit");

/* --- by build id, on the host --- */

/* Returns whether the owner of the directory, who may have placed a link in it, may read the file.
 * What root keeps from others is no debug file. */
static bool is_readable(const struct stat *file, uid_t owner)
{
	return file->st_mode & S_IROTH ||
	       (file->st_uid && file->st_uid == owner && file->st_mode & S_IRUSR);
}

/* Opens for reading what is open with O_PATH, if this user may read it. */
static int open_readable(int path_fd, uid_t owner)
{
	struct stat st;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!is_readable(&st, owner))
		return -EACCES;
	return open_file_again(path_fd, major(st.st_dev), minor(st.st_dev));
}

/* Opens a file below a directory of the CLI. */
static int open_below(int directory, const char *path)
{
	struct stat top;
	_cleanup_close_ int path_fd = openat(directory, path, O_PATH | O_CLOEXEC);

	if (path_fd < 0 || fstat(directory, &top) < 0)
		return -errno;
	return open_readable(path_fd, top.st_uid);
}

static bool has_build_id(const struct msg_open_debug *request)
{
	return request->length >= 2 && request->length <= MSG_BUILD_ID_BYTES;
}

/* Makes the path of a build id, as packages have it or, if `cached`, as debuginfod's cache does. */
static void make_path(const struct msg_open_debug *request, bool cached, char path[PATH_BYTES])
{
	char hex[HEX_BYTES];

	for (uint32_t i = 0; i < request->length; i++)
		snprintf(hex + 2 * i, sizeof(hex) - 2 * i, "%02x", request->build_id[i]);
	if (cached)
		snprintf(path, PATH_BYTES, "%s/debuginfo", hex);
	else
		snprintf(path, PATH_BYTES, ".build-id/%.2s/%s.debug", hex, hex + 2);
}

static bool is_missing(int error)
{
	return error == -ENOENT || error == -ENOTDIR;
}

/* Returns whether a link ends, and with this suffix after something else. */
static bool ends_with(const char link[MSG_DEBUG_LINK_BYTES], const char *suffix)
{
	const size_t length = strnlen(link, MSG_DEBUG_LINK_BYTES);

	return length < MSG_DEBUG_LINK_BYTES && length > strlen(suffix) &&
	       strcmp(link + length - strlen(suffix), suffix) == 0;
}

/* Returns whether a file may have the name in a .gnu_debuglink, and it looks like a debug file. */
static bool is_link_name(const char link[MSG_DEBUG_LINK_BYTES])
{
	return ends_with(link, ".debug") && !strchr(link, '/');
}

/* Returns whether a split file may have this path below a directory. */
static bool is_split_path(const char link[MSG_DEBUG_LINK_BYTES])
{
	return ends_with(link, ".dwo") && link[0] != '/' && !strstr(link, "..");
}

/* Returns whether a version of a kernel can be a part of a path. */
static bool is_version(const char link[MSG_DEBUG_LINK_BYTES])
{
	const size_t length = strnlen(link, MSG_DEBUG_LINK_BYTES);

	return length && length < MSG_DEBUG_LINK_BYTES && !memchr(link, '/', length);
}

/* Returns whether an alternate file may be searched by its name. */
static bool has_alternate_name(const struct msg_open_debug *request)
{
	return (request->place == MSG_DEBUG_ALTERNATE_OF_HOST ||
		request->place == MSG_DEBUG_ALTERNATE_OF_PROCESS) &&
	       is_link_name(request->link);
}

/* Makes the paths below a directory of the CLI. Returns how many there are. */
static uint32_t make_paths(const struct msg_open_debug *request,
			   char paths[static HOST_PATHS_MAX][PATH_BYTES + MSG_DEBUG_LINK_BYTES])
{
	const size_t size = sizeof(paths[0]);
	uint32_t count = 2;

	make_path(request, false, paths[0]);
	make_path(request, true, paths[1]);
	if (has_alternate_name(request)) {
		for (unsigned int i = 0; i < ALTERNATE_DIRECTORIES; i++)
			snprintf(paths[count++], size, "%s/%s", alternate_directories[i],
				 request->link);
	}
	if (request->place != MSG_DEBUG_KERNEL_OF_HOST)
		return count;
	for (unsigned int i = 0; i < KERNEL_PATHS && is_version(request->link); i++)
		snprintf(paths[count++], size, "%s%s%s", kernel_paths[i][0], request->link,
			 kernel_paths[i][1]);
	snprintf(paths[count++], size, "vmlinux");
	return count;
}

int open_debug_file(const struct directories *directories, const struct msg_open_debug *request,
		    uint32_t *path)
{
	char paths[HOST_PATHS_MAX][PATH_BYTES + MSG_DEBUG_LINK_BYTES];
	int error = -ENOENT;

	if (!has_build_id(request))
		return -EINVAL;
	const uint32_t count = make_paths(request, paths);
	for (uint32_t i = request->first; i < count * directories->count; i++) {
		const int fd = open_below(directories->fds[i / count], paths[i % count]);

		if (fd >= 0) {
			*path = i;
			return fd;
		}
		if (!is_missing(fd))
			error = fd;
	}
	return error;
}

/* --- near a file that a process maps --- */

/* The paths, in the order in which they are tried. */
enum {
	PATH_ID_IN_ROOT,	/* by build id */
	PATH_ALTERNATE_IN_ROOT, /* the first one of the directories of alternate files */
	/* next to the file, by the link */
	PATH_NEXT_IN_ROOT = PATH_ALTERNATE_IN_ROOT + ALTERNATE_DIRECTORIES,
	PATH_BELOW_NEXT_IN_ROOT,
	PATH_DEBUG_IN_ROOT, /* below the debug directory, by directory and link */
	PATH_NEXT_ON_HOST,
	PATH_BELOW_NEXT_ON_HOST,
	PATH_DIRECTORIES, /* the first one of the CLI's directories */
};

struct search {
	const struct directories *directories;
	const struct msg_open_debug *request;
	uint32_t uid;
	int root, host;	       /* descriptors; the same one if both are the same directory */
	const char *link;      /* of the request, or made from the name of the file; NULL: none */
	const char *directory; /* of the file, without the first slash */
};

/* Opens a path of which any part may have been chosen by others. A link is as good as nothing. */
static int open_in(const struct search *search, int root, char *path)
{
	_cleanup_close_ int path_fd = open_file_walk(root, path, &search->uid);
	struct stat st;

	if (path_fd < 0)
		return path_fd;
	if (fstat(path_fd, &st) < 0)
		return -errno;
	return S_ISLNK(st.st_mode) ? -ENOENT : open_readable(path_fd, search->uid);
}

/* Tries a path made of the directory of the file and the link. Returns a descriptor or a negative
 * errno. */
static int try_link(const struct search *search, uint32_t number)
{
	const char *before = number == PATH_DEBUG_IN_ROOT ? DEBUG_DIRECTORY "/" : "";
	const bool below = number == PATH_BELOW_NEXT_IN_ROOT || number == PATH_BELOW_NEXT_ON_HOST;
	const bool on_host = number == PATH_NEXT_ON_HOST || number == PATH_BELOW_NEXT_ON_HOST;
	const char *link = search->link, *slash = link ? strrchr(link, '/') : NULL;
	_cleanup_free_ char *path = NULL;

	if (!link || (on_host && search->host == search->root))
		return -ENOENT;
	/* A split file that has a path is not searched there, but without its directories. */
	if (below && slash)
		link = slash + 1;
	if (asprintf(&path, "%s%s/%s%s", before, search->directory,
		     below && !slash ? ".debug/" : "", link) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	/* An empty directory is the root itself. */
	if (number >= PATH_DIRECTORIES)
		return open_below(search->directories->fds[number - PATH_DIRECTORIES],
				  path + strspn(path, "/"));
	return open_in(search, on_host ? search->host : search->root, path);
}

/* Tries the name of an alternate file in one of the directories of such files. */
static int try_alternate(const struct search *search, const char *directory)
{
	char path[sizeof(DEBUG_DIRECTORY "/") + PATH_BYTES + MSG_DEBUG_LINK_BYTES];

	if (!has_alternate_name(search->request))
		return -ENOENT;
	snprintf(path, sizeof(path), DEBUG_DIRECTORY "/%s/%s", directory, search->request->link);
	return open_in(search, search->root, path);
}

/* Tries a path. Returns a descriptor or a negative errno. */
static int try_path(const struct search *search, uint32_t number)
{
	char by_id[PATH_BYTES], path[sizeof(DEBUG_DIRECTORY "/") + PATH_BYTES];

	if (number >= PATH_NEXT_IN_ROOT)
		return try_link(search, number);
	if (number >= PATH_ALTERNATE_IN_ROOT)
		return try_alternate(search,
				     alternate_directories[number - PATH_ALTERNATE_IN_ROOT]);
	if (!has_build_id(search->request))
		return -ENOENT;
	make_path(search->request, false, by_id);
	snprintf(path, sizeof(path), DEBUG_DIRECTORY "/%s", by_id);
	return open_in(search, search->root, path);
}

static int try_paths(const struct search *search, uint32_t *path)
{
	int error = -ENOENT;

	for (uint32_t i = search->request->first; i < PATH_DIRECTORIES + search->directories->count;
	     i++) {
		const int fd = try_path(search, i);

		if (fd >= 0) {
			*path = i;
			return fd;
		}
		if (!is_missing(fd))
			error = fd;
	}
	return error;
}

static bool is_same(int one, int other)
{
	struct stat a, b;

	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Makes the name of what is searched near the file `name`. Returns 0, with NULL if there is none;
 * or -ENOMEM. The caller frees it. */
static int make_link(const struct msg_open_debug *request, const char *name, char **link)
{
	*link = NULL;
	if (request->place == MSG_DEBUG_PACKAGE_OF_PROCESS) {
		if (asprintf(link, "%s.dwp", name) < 0)
			*link = NULL;
	} else if (request->place == MSG_DEBUG_SPLIT_OF_PROCESS ? is_split_path(request->link)
								: is_link_name(request->link)) {
		*link = strdup(request->link);
	} else {
		return 0;
	}
	return *link ? 0 : -ENOMEM;
}

int open_debug_file_of_process(const struct directories *directories,
			       const struct msg_open_debug *request, uint32_t uid, uint32_t *path)
{
	_cleanup_free_ char *name = NULL, *link = NULL;
	int r = open_file_name(request->tgid, request->inode, &name);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r == -E2BIG ? -ENOENT : r;
	char *slash = strrchr(name, '/');
	if (name[0] != '/' || !slash)
		return -ENOENT;
	*slash = 0;
	r = make_link(request, slash + 1, &link);
	if (r < 0)
		return r;

	_cleanup_close_ int process = living_thread_open(request->tgid);
	if (process < 0)
		return process == -ENOENT ? -ESRCH : process;
	_cleanup_close_ int root = openat(process, "root", O_PATH | O_CLOEXEC);
	_cleanup_close_ int host = open("/", O_PATH | O_CLOEXEC);
	if (root < 0 || host < 0)
		return -errno;
	const struct search search = {.directories = directories,
				      .request = request,
				      .uid = uid,
				      .root = root,
				      .host = is_same(root, host) ? root : host,
				      .link = link,
				      .directory = name + strspn(name, "/")};
	return try_paths(&search, path);
}

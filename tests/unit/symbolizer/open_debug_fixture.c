/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/open_debug_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/symbolizer/expect_file.h"

enum {
	FDS_MAX = 1024,
};

char top[] = "/tmp/unit-open_debug-XXXXXX";
struct directories directories;
unsigned int opened;
unsigned int searched;
uint32_t found_path;
static unsigned int strayed; /* of these, not made of a build id, or more than searched */

int __real_open(const char *path, int flags);
int __wrap_open(const char *path, int flags);
int __wrap_open(const char *path, int flags)
{
	if (flags & O_PATH)
		strayed++;
	else
		opened++;
	return __real_open(path, flags);
}

/* Skips hexadecimal digits. Returns how many there were. */
static size_t skip_hex(const char **path)
{
	const size_t length = strspn(*path, "0123456789abcdef");

	*path += length;
	return length;
}

const char *alternate_name = "";

/* Returns whether a path is that of an alternate file by its name. */
static bool is_of_alternate(const char *path)
{
	static const char *const directories_of_distributions[] = {".dwz/",
								   ".dwz/x86_64-linux-gnu/"};

	for (unsigned int i = 0; i < 2; i++) {
		const size_t length = strlen(directories_of_distributions[i]);

		if (*alternate_name && !strncmp(path, directories_of_distributions[i], length) &&
		    !strcmp(path + length, alternate_name))
			return true;
	}
	return false;
}

const char *kernel_version = "";

/* Returns whether a path is that of a kernel by its version, or without one. */
static bool is_of_kernel(const char *path)
{
	char by_version[2][PATH_BYTES];

	snprintf(by_version[0], PATH_BYTES, "boot/vmlinux-%s", kernel_version);
	snprintf(by_version[1], PATH_BYTES, "lib/modules/%s/vmlinux", kernel_version);
	return *kernel_version && (!strcmp(path, by_version[0]) || !strcmp(path, by_version[1]) ||
				   !strcmp(path, "vmlinux"));
}

/* Returns whether a path is made of a build id and nothing else. */
static bool is_of_build_id(const char *path)
{
	static const char packages[] = ".build-id/";

	if (strncmp(path, packages, strlen(packages)) != 0)
		return skip_hex(&path) >= 4 && strcmp(path, "/debuginfo") == 0;
	path += strlen(packages);
	return skip_hex(&path) == 2 && *path++ == '/' && skip_hex(&path) >= 2 &&
	       strcmp(path, ".debug") == 0;
}

static bool is_directory(int fd)
{
	for (unsigned int i = 0; i < directories.count; i++) {
		if (directories.fds[i] == fd)
			return true;
	}
	return false;
}

int __real_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags)
{
	searched++;
	strayed += !is_directory(directory) || !(flags & O_PATH) ||
		   (!is_of_build_id(path) && !is_of_alternate(path) && !is_of_kernel(path));
	return __real_openat(directory, path, flags);
}

void open_debug_setup(void)
{
	char path[PATH_BYTES];

	cr_assert_not_null(mkdtemp(top));
	for (unsigned int i = 0; i < DIRECTORIES; i++) {
		snprintf(path, sizeof(path), "%s/%u", top, i);
		cr_assert_eq(mkdir(path, 0755), 0, "%s: %m", path);
		directories.fds[i] = __real_open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		cr_assert_geq(directories.fds[i], 0);
	}
	directories.count = DIRECTORIES;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void open_debug_teardown(void)
{
	for (unsigned int i = 0; i < DIRECTORIES; i++)
		close(directories.fds[i]);
	cr_expect_eq(nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0, "%s: %m", top);
}

const char *make_path(unsigned int directory, const char *name)
{
	static char path[PATH_BYTES];
	const int start = snprintf(path, sizeof(path), "%s/%u/", top, directory);

	snprintf(path + start, sizeof(path) - (size_t)start, "%s", name);
	for (char *slash = path + start; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %m", path);
		*slash = '/';
	}
	return path;
}

void make_file(unsigned int directory, const char *name)
{
	FILE *file = fopen(make_path(directory, name), "wx");

	cr_assert_not_null(file, "%s: %m", name);
	fprintf(file, "%u/%s", directory, name);
	fclose(file);
}

void remove_file(unsigned int directory, const char *name)
{
	cr_assert_eq(unlink(make_path(directory, name)), 0, "%s: %m", name);
}

struct msg_open_debug id_of(uint32_t length)
{
	struct msg_open_debug request = {.module = 7, .length = length};

	for (uint32_t i = 0; i < MSG_BUILD_ID_BYTES; i++)
		request.build_id[i] = (uint8_t)(i < length ? 0x11 * i : 0xee);
	return request;
}

static unsigned int count_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int find(const struct msg_open_debug *request)
{
	const unsigned int before = count_fds();

	opened = searched = 0;
	const int fd = open_debug_file(&directories, request, &found_path);
	cr_expect_eq(count_fds(), before + (fd >= 0), "nothing else stays open");
	cr_expect_eq(strayed, 0, "nothing else is opened");
	return fd;
}

void expect_found(const struct msg_open_debug *request, const char *expected)
{
	expect_file(find(request), expected);
	cr_expect_eq(opened, 1, "%s", expected);
}

void expect_error(const struct msg_open_debug *request, int error)
{
	const int fd = find(request);

	cr_expect_eq(fd, error, "%d", fd);
	cr_expect_eq(opened, 0);
}

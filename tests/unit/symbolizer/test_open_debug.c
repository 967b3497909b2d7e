/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files are found by their build id, below the directories that the test makes, and nothing
 * else is opened. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "symbolizer/opener/open_debug.h"
#include "tests/unit/symbolizer/file_system_type.h"

enum {
	DIRECTORIES = 3,
	PATH_BYTES = 256,
	FDS_MAX = 1024,
};

static char top[] = "/tmp/unit-open_debug-XXXXXX";
static struct directories directories; /* top/0, top/1, top/2 */
static unsigned int opened;	       /* for reading */
static unsigned int searched;	       /* paths below the directories */
static uint32_t found_path;	       /* of the file that was found */
static unsigned int strayed;	       /* of these, not made of a build id, or more than searched */

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

static const char *alternate_name = ""; /* in the request for an alternate file */

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
		   (!is_of_build_id(path) && !is_of_alternate(path));
	return __real_openat(directory, path, flags);
}

static void setup(void)
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

static void teardown(void)
{
	for (unsigned int i = 0; i < DIRECTORIES; i++)
		close(directories.fds[i]);
	cr_expect_eq(nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0, "%s: %m", top);
}

TestSuite(open_debug, .init = setup, .fini = teardown, .timeout = 30);

/* Writes the path of an entry in one of the directories, and makes the directories above it. */
static const char *make_path(unsigned int directory, const char *name)
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

/* Makes a file that contains where it is. */
static void make_file(unsigned int directory, const char *name)
{
	FILE *file = fopen(make_path(directory, name), "wx");

	cr_assert_not_null(file, "%s: %m", name);
	fprintf(file, "%u/%s", directory, name);
	fclose(file);
}

static void remove_file(unsigned int directory, const char *name)
{
	cr_assert_eq(unlink(make_path(directory, name)), 0, "%s: %m", name);
}

/* The build id 00112233... of this length. What follows is not part of it. */
static struct msg_open_debug id_of(uint32_t length)
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

static int find(const struct msg_open_debug *request)
{
	const unsigned int before = count_fds();

	opened = searched = 0;
	const int fd = open_debug_file(&directories, request, &found_path);
	cr_expect_eq(count_fds(), before + (fd >= 0), "nothing else stays open");
	cr_expect_eq(strayed, 0, "nothing else is opened");
	return fd;
}

/* The file that contains `expected` is found, and can be read and nothing more. */
static void expect_found(const struct msg_open_debug *request, const char *expected)
{
	char text[PATH_BYTES] = "";
	const int fd = find(request);

	cr_assert_geq(fd, 0, "%s: %s", expected, strerror(-fd));
	cr_expect_gt(pread(fd, text, sizeof(text) - 1, 0), 0);
	cr_expect_str_eq(text, expected);
	cr_expect_eq(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(opened, 1, "%s", expected);
	close(fd);
}

/* The error is returned, and no file was opened for reading. */
static void expect_error(const struct msg_open_debug *request, int error)
{
	const int fd = find(request);

	cr_expect_eq(fd, error, "%d", fd);
	cr_expect_eq(opened, 0);
}

static const struct {
	uint32_t length;
	const char *packaged, *cached;
} layouts[] = {
    {2, ".build-id/00/11.debug", "0011/debuginfo"},
    {3, ".build-id/00/1122.debug", "001122/debuginfo"},
    {16, ".build-id/00/112233445566778899aabbccddeeff.debug",
     "00112233445566778899aabbccddeeff/debuginfo"},
    {20, ".build-id/00/112233445566778899aabbccddeeff10213243.debug",
     "00112233445566778899aabbccddeeff10213243/debuginfo"},
};

enum {
	LAYOUTS = sizeof(layouts) / sizeof(layouts[0])
};

Test(open_debug, both_layouts_are_found)
{
	char expected[PATH_BYTES];

	for (unsigned int i = 0; i < LAYOUTS; i++) {
		const struct msg_open_debug request = id_of(layouts[i].length);

		expect_error(&request, -ENOENT);
		make_file(0, layouts[i].cached);
		snprintf(expected, sizeof(expected), "0/%s", layouts[i].cached);
		expect_found(&request, expected);
		/* That of a package is preferred. */
		make_file(0, layouts[i].packaged);
		snprintf(expected, sizeof(expected), "0/%s", layouts[i].packaged);
		expect_found(&request, expected);
		remove_file(0, layouts[i].cached);
		expect_found(&request, expected);
		remove_file(0, layouts[i].packaged);
		expect_error(&request, -ENOENT);
	}
}

/* Bytes after the build id, and files of longer and shorter ids, do not matter. */
Test(open_debug, the_file_has_the_whole_build_id)
{
	char expected[PATH_BYTES];

	for (unsigned int i = 0; i < LAYOUTS; i++)
		make_file(0, i % 2 ? layouts[i].packaged : layouts[i].cached);
	for (unsigned int i = 0; i < LAYOUTS; i++) {
		struct msg_open_debug request = id_of(layouts[i].length);

		snprintf(expected, sizeof(expected), "0/%s",
			 i % 2 ? layouts[i].packaged : layouts[i].cached);
		expect_found(&request, expected);
		request.build_id[request.length - 1] ^= 1;
		expect_error(&request, -ENOENT);
	}
}

Test(open_debug, directories_are_searched_in_their_order)
{
	const struct msg_open_debug request = id_of(20);
	char expected[PATH_BYTES];

	/* From the last one to the first one: each layout of a directory precedes the next one. */
	for (unsigned int i = DIRECTORIES; i-- > 0;) {
		make_file(i, layouts[3].cached);
		snprintf(expected, sizeof(expected), "%u/%s", i, layouts[3].cached);
		expect_found(&request, expected);
		cr_expect_eq(searched, 2 * (i + 1));
		make_file(i, layouts[3].packaged);
		snprintf(expected, sizeof(expected), "%u/%s", i, layouts[3].packaged);
		expect_found(&request, expected);
		cr_expect_eq(searched, 2 * i + 1);
	}
}

/* If a file is not the right one, the worker asks for the next one. */
Test(open_debug, each_path_is_found_once)
{
	struct msg_open_debug request = id_of(20);

	for (unsigned int i = 0; i < DIRECTORIES; i++) {
		make_file(i, layouts[3].packaged);
		make_file(i, layouts[3].cached);
	}
	for (unsigned int i = 0; i < 2 * DIRECTORIES; i++) {
		const int fd = find(&request);

		cr_assert_geq(fd, 0, "%u", i);
		close(fd);
		cr_expect_eq(found_path, i);
		request.first = found_path + 1;
	}
	expect_error(&request, -ENOENT);
	request.first = UINT32_MAX;
	expect_error(&request, -ENOENT);
}

Test(open_debug, without_directories_there_is_no_file)
{
	const struct msg_open_debug request = id_of(20);

	make_file(0, layouts[3].packaged);
	directories.count = 0;
	expect_error(&request, -ENOENT);
	cr_expect_eq(searched, 0);
	directories.count = 1;
	expect_found(&request, "0/.build-id/00/112233445566778899aabbccddeeff10213243.debug");
}

Test(open_debug, a_directory_that_is_gone_is_one_without_the_file)
{
	const struct msg_open_debug request = id_of(16);
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/0", top);
	cr_assert_eq(rmdir(path), 0);
	expect_error(&request, -ENOENT);
	make_file(1, layouts[2].cached);
	expect_found(&request, "1/00112233445566778899aabbccddeeff/debuginfo");
}

Test(open_debug, lengths_that_are_out_of_range_are_refused)
{
	static const uint32_t lengths[] = {0, 1, 21, 22, 255, 1u << 31, UINT32_MAX};

	for (unsigned int i = 0; i < LAYOUTS; i++) {
		make_file(0, layouts[i].packaged);
		make_file(0, layouts[i].cached);
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const struct msg_open_debug request = id_of(lengths[i]);

		expect_error(&request, -EINVAL);
		cr_expect_eq(searched, 0, "%u", lengths[i]);
	}
}

/* Who may place links in a directory must not get at what only root may read. */
Test(open_debug, a_file_that_is_not_for_everybody_is_of_the_owner_of_the_directory)
{
	enum {
		OWNER = 4321,
		OTHER = 4322
	};
	static const struct {
		uid_t directory, file;
		mode_t mode;
		int error;
	} cases[] = {{0, 0, 0644, 0},
		     {0, 0, 0600, -EACCES},
		     {OWNER, 0, 0600, -EACCES},
		     {OWNER, 0, 0640, -EACCES},
		     {OWNER, OWNER, 0600, 0},
		     {OWNER, OWNER, 0200, -EACCES},
		     {OWNER, OTHER, 0640, -EACCES},
		     {0, OTHER, 0640, -EACCES},
		     {OWNER, OTHER, 0444, 0}};
	const struct msg_open_debug request = id_of(16);
	char path[PATH_BYTES];

	if (geteuid())
		cr_skip_test("only root can give files away");
	make_file(1, "elsewhere");
	cr_assert_eq(symlink("../../../1/elsewhere", make_path(0, layouts[2].packaged)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(path, sizeof(path), "%s/0", top);
		cr_assert_eq(chown(path, cases[i].directory, 0), 0);
		cr_assert_eq(chown(make_path(1, "elsewhere"), cases[i].file, 0), 0);
		cr_assert_eq(chmod(make_path(1, "elsewhere"), cases[i].mode), 0);
		if (cases[i].error)
			expect_error(&request, cases[i].error);
		else
			expect_found(&request, "1/elsewhere");
	}
}

Test(open_debug, symbolic_links_are_followed)
{
	const struct msg_open_debug request = id_of(16);

	make_file(1, "elsewhere");
	cr_assert_eq(symlink("../../../1/elsewhere", make_path(0, layouts[2].packaged)), 0);
	expect_found(&request, "1/elsewhere");
	/* One that leads nowhere is none. */
	remove_file(1, "elsewhere");
	expect_error(&request, -ENOENT);
	make_file(0, layouts[2].cached);
	expect_found(&request, "0/00112233445566778899aabbccddeeff/debuginfo");
}

/* Nobody writes to the FIFO, so that opening it would not end. */
Test(open_debug, what_is_no_file_is_not_opened)
{
	const struct msg_open_debug request = id_of(20);

	cr_assert_eq(mkfifo(make_path(0, layouts[3].packaged), 0644), 0);
	expect_error(&request, -EINVAL);
	make_file(1, layouts[3].cached);
	expect_found(&request, "1/00112233445566778899aabbccddeeff10213243/debuginfo");
	directories.count = 1;
	expect_error(&request, -EINVAL);
	remove_file(0, layouts[3].packaged);
	cr_assert_eq(mkdir(make_path(0, layouts[3].packaged), 0755), 0);
	expect_error(&request, -EINVAL);
	cr_assert_eq(rmdir(make_path(0, layouts[3].packaged)), 0);
	cr_assert_eq(symlink("/dev/zero", make_path(0, layouts[3].packaged)), 0);
	/* devtmpfs is refused even before that. */
	type = EXT4_SUPER_MAGIC;
	expect_error(&request, -EINVAL);
	type = 0;
}

Test(open_debug, file_systems_that_are_not_known_to_be_local_are_not_touched)
{
	const struct {
		unsigned long type;
		bool local;
	} cases[] = {
	    {EXT4_SUPER_MAGIC, true},  {TMPFS_MAGIC, true}, {NFS_SUPER_MAGIC, false},
	    {FUSE_SUPER_MAGIC, false}, {V9FS_MAGIC, false}, {PROC_SUPER_MAGIC, false},
	    {0x12345678, false}, /* of tomorrow */
	};
	const struct msg_open_debug request = id_of(16);

	make_file(0, layouts[2].packaged);
	directories.count = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		type = cases[i].type;
		if (cases[i].local)
			expect_found(&request,
				     "0/.build-id/00/112233445566778899aabbccddeeff.debug");
		else
			expect_error(&request, -EOPNOTSUPP);
	}
	type = 0;
}

/* find() checks what __wrap_openat() has seen. Here it is each byte at each place, and there are
 * files that a build id may be mistaken for. */
Test(open_debug, no_build_id_leads_out_of_the_directories)
{
	struct msg_open_debug request = {.length = MSG_BUILD_ID_BYTES};

	make_file(0, "debuginfo");
	make_file(0, ".debug");
	make_file(0, ".build-id/.debug");
	make_file(1, ".debug");
	for (unsigned int byte = 0; byte < 256; byte++) {
		memset(request.build_id, (int)byte, sizeof(request.build_id));
		expect_error(&request, -ENOENT);
		for (unsigned int i = 0; i < MSG_BUILD_ID_BYTES; i++) {
			memcpy(request.build_id, "../../../../../../../../../etc/passwd", 20);
			request.build_id[i] = (uint8_t)byte;
			expect_error(&request, -ENOENT);
			cr_expect_eq(searched, 2 * DIRECTORIES);
		}
	}
}

Test(open_debug, a_file_in_the_place_of_a_directory_is_no_directory)
{
	const struct msg_open_debug request = id_of(16);

	make_file(0, ".build-id");
	directories.count = 1;
	expect_error(&request, -ENOENT);
	make_file(0, layouts[2].cached);
	expect_found(&request, "0/00112233445566778899aabbccddeeff/debuginfo");
}

/* --- alternate files --- */

static struct msg_open_debug alternate_of(const char *name)
{
	struct msg_open_debug request = id_of(20);

	request.place = MSG_DEBUG_ALTERNATE_OF_HOST;
	alternate_name = name;
	memcpy(request.link, name, strlen(name));
	return request;
}

/* By build id, and where distributions put them. */
Test(open_debug, alternate_files_may_be_found_by_name)
{
	static const char *const names[] = {".dwz/common.debug",
					    ".dwz/x86_64-linux-gnu/common.debug"};
	struct msg_open_debug request = alternate_of("common.debug");

	expect_error(&request, -ENOENT);
	cr_expect_eq(searched, 4 * DIRECTORIES);
	/* From the last one to the first one. */
	make_file(1, names[0]);
	expect_found(&request, "1/.dwz/common.debug");
	make_file(1, names[1]);
	expect_found(&request, "1/.dwz/x86_64-linux-gnu/common.debug");
	make_file(1, layouts[3].cached);
	expect_found(&request, "1/00112233445566778899aabbccddeeff10213243/debuginfo");
	make_file(1, layouts[3].packaged);
	expect_found(&request, "1/.build-id/00/112233445566778899aabbccddeeff10213243.debug");
	unsigned int found = 0;
	for (int fd; (fd = find(&request)) >= 0; found++) {
		close(fd);
		cr_assert_geq(found_path, request.first);
		request.first = found_path + 1;
	}
	cr_expect_eq(found, 4, "each is found once");
}

/* The name is bytes of a file that anybody may have written. */
Test(open_debug, names_of_alternate_files_lead_nowhere_else)
{
	static const char *const names[] = {"",
					    ".debug",
					    "common",
					    "../common.debug",
					    "/etc/common.debug",
					    "a/common.debug",
					    "common.debug/",
					    "..",
					    "common.debugx"};

	make_file(0, ".dwz/x86_64-linux-gnu/common.debug");
	make_file(0, ".dwz/a/common.debug");
	make_file(0, ".dwz/common");
	make_file(0, ".dwz/common.debugx");
	make_file(0, "common.debug");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct msg_open_debug request = alternate_of(names[i]);

		alternate_name = "";
		expect_error(&request, -ENOENT);
		cr_expect_eq(searched, 2 * DIRECTORIES, "%s", names[i]);
	}
	struct msg_open_debug request = alternate_of("common.debug");
	expect_found(&request, "0/.dwz/x86_64-linux-gnu/common.debug");
	/* Debug files are not searched there. */
	request.place = MSG_DEBUG_OF_HOST;
	alternate_name = "";
	expect_error(&request, -ENOENT);
	request.place = UINT32_MAX;
	expect_error(&request, -ENOENT);
}

Test(open_debug, an_alternate_file_that_root_keeps_from_others_is_not_opened)
{
	const struct msg_open_debug request = alternate_of("common.debug");

	make_file(0, ".dwz/common.debug");
	cr_assert_eq(chmod(make_path(0, ".dwz/common.debug"), 0600), 0);
	if (geteuid() == 0)
		expect_error(&request, -EACCES);
	cr_assert_eq(chmod(make_path(0, ".dwz/common.debug"), 0604), 0);
	expect_found(&request, "0/.dwz/common.debug");
}

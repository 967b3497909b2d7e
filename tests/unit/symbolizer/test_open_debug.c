/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files are found by their build id, below the directories that the test makes, and nothing
 * else is opened. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "tests/unit/symbolizer/file_system_type.h"
#include "tests/unit/symbolizer/open_debug_fixture.h"

TestSuite(open_debug, .init = open_debug_setup, .fini = open_debug_teardown, .timeout = 30);

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

/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files that are also found by a name: that of the kernel, and alternate files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/symbolizer/open_debug_fixture.h"

/* The paths of the build id of 20 bytes. */
#define PACKAGED ".build-id/00/112233445566778899aabbccddeeff10213243.debug"
#define CACHED "00112233445566778899aabbccddeeff10213243/debuginfo"

TestSuite(open_debug_names, .init = open_debug_setup, .fini = open_debug_teardown, .timeout = 30);

static struct msg_open_debug named(enum msg_debug_place place, const char *name)
{
	struct msg_open_debug request = id_of(20);

	request.place = place;
	memcpy(request.link, name, strlen(name));
	return request;
}

/* --- the kernel's --- */

static struct msg_open_debug kernel_of(const char *version)
{
	kernel_version = version;
	return named(MSG_DEBUG_KERNEL_OF_HOST, version);
}

/* In the order of the paths, and each of them once. */
Test(open_debug_names, of_the_kernel_may_be_found_by_version)
{
	static const char *const names[] = {PACKAGED, CACHED, "boot/vmlinux-6.1.0-1-amd64",
					    "lib/modules/6.1.0-1-amd64/vmlinux", "vmlinux"};
	struct msg_open_debug request = kernel_of("6.1.0-1-amd64");
	char expected[PATH_BYTES];

	expect_error(&request, -ENOENT);
	cr_expect_eq(searched, 5 * DIRECTORIES);
	for (unsigned int i = 0; i < 5; i++)
		make_file(1, names[i]);
	for (unsigned int i = 0; i < 5; i++) {
		snprintf(expected, sizeof(expected), "1/%s", names[i]);
		expect_found(&request, expected);
		cr_expect_eq(found_path, 5 + i);
		request.first = found_path + 1;
	}
	expect_error(&request, -ENOENT);
}

/* Nobody has put a version there, or it would lead elsewhere. */
Test(open_debug_names, of_the_kernel_without_a_version_has_no_name)
{
	static const char *const versions[] = {"", "../../etc", "a/b"};

	make_file(0, "boot/vmlinux-");
	for (unsigned int i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct msg_open_debug request = kernel_of(versions[i]);

		kernel_version = "none";
		expect_error(&request, -ENOENT);
		cr_expect_eq(searched, 3 * DIRECTORIES);
	}
	struct msg_open_debug endless = kernel_of("");
	kernel_version = "none";
	memset(endless.link, 'a', sizeof(endless.link));
	expect_error(&endless, -ENOENT);
}

/* --- alternate files --- */

static struct msg_open_debug alternate_of(const char *name)
{
	alternate_name = name;
	return named(MSG_DEBUG_ALTERNATE_OF_HOST, name);
}

/* By build id, and where distributions put them. */
Test(open_debug_names, alternate_files_may_be_found_by_name)
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
	make_file(1, CACHED);
	expect_found(&request, "1/" CACHED);
	make_file(1, PACKAGED);
	expect_found(&request, "1/" PACKAGED);
	unsigned int found = 0;
	for (int fd; (fd = find(&request)) >= 0; found++) {
		close(fd);
		cr_assert_geq(found_path, request.first);
		request.first = found_path + 1;
	}
	cr_expect_eq(found, 4, "each is found once");
}

/* The name is bytes of a file that anybody may have written. */
Test(open_debug_names, names_of_alternate_files_lead_nowhere_else)
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

Test(open_debug_names, an_alternate_file_that_root_keeps_from_others_is_not_opened)
{
	const struct msg_open_debug request = alternate_of("common.debug");

	make_file(0, ".dwz/common.debug");
	cr_assert_eq(chmod(make_path(0, ".dwz/common.debug"), 0600), 0);
	if (geteuid() == 0)
		expect_error(&request, -EACCES);
	cr_assert_eq(chmod(make_path(0, ".dwz/common.debug"), 0604), 0);
	expect_found(&request, "0/.dwz/common.debug");
}

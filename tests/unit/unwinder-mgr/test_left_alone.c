/* SPDX-License-Identifier: Apache-2.0 */
/* Files on which an earlier manager hung or died. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/unwinder-mgr/last_open_file.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"
#include "unwinder-mgr/module_table.h"
#include "unwinder-mgr/process_files.h"

enum {
	USER = 1000,
	NEIGHBOUR = 1001,
};

static struct work_page page;
static void setup(void)
{
	manager_setup();
	manager.role.work_page = &page;
}

TestSuite(left_alone, .init = setup, .fini = manager_teardown);

/* A new file, which is no ELF file. */
static int new_file(struct stat *file)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert(fd >= 0 && fstat(fd, file) == 0);
	return fd;
}

/* Lets a process of a user map the file. Returns the state of its module. */
static enum module_state map(uint32_t tgid, uint32_t uid, int fd, uint64_t inode)
{
	const uint64_t start = 0x1000 * inode;
	const struct mapping mapping = {.start = start, .end = start + 0x1000};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = inode};

	processes_exec(&manager, tgid, "program", 1);
	processes_set_uid(&manager, tgid, uid);
	processes_map(&manager, tgid, &mapping, &key, "/tmp/file");
	const struct msg_file answer = {.cookie = last.cookie, .same_file = 1, .uid = uid};
	process_files_on_answer(&manager, &answer, fd);
	return modules_find(&manager.modules, last.cookie)->state;
}

static void quarantine(uint64_t what, uint64_t id, uint64_t id2)
{
	const struct quarantine_key key = {what, {id, id2}};

	quarantine_add(&page.quarantine, &key, clock_monotonic_ns());
}

Test(left_alone, a_file_has_no_table_until_its_time_is_over)
{
	struct stat file, other;
	const int fd = new_file(&file), other_fd = new_file(&other);

	quarantine(QUARANTINE_FILE, file.st_dev, file.st_ino);
	cr_expect_eq(map(10, USER, fd, 1), MODULE_REFUSED);
	struct module *module = modules_find(&manager.modules, last.cookie);
	cr_expect_eq(map(11, USER, other_fd, 2), MODULE_UNKNOWN, "another file is read");
	page.quarantine = (struct quarantine){0};
	modules_build_again(&manager, clock_monotonic_ns() + LIMIT_REFUSED_RETRY_MS * NS_PER_MS);
	cr_expect_eq(module->state, MODULE_UNKNOWN, "it is no ELF file");
}

Test(left_alone, the_second_time_all_files_of_the_user_have_none)
{
	struct stat file, second, other;
	const int fd = new_file(&file), second_fd = new_file(&second), other_fd = new_file(&other);

	quarantine(QUARANTINE_USER, USER, 0);
	cr_expect_eq(map(10, USER, fd, 1), MODULE_UNKNOWN);
	quarantine(QUARANTINE_USER, USER, 0);
	cr_expect_eq(map(11, USER, second_fd, 2), MODULE_REFUSED);
	cr_expect_eq(map(12, NEIGHBOUR, other_fd, 3), MODULE_UNKNOWN);
}

Test(left_alone, the_subject_of_work_is_the_file_and_its_user)
{
	struct stat file;
	const int fd = new_file(&file);

	map(10, USER, fd, 1);
	const struct work_subject subject =
	    module_subject(modules_find(&manager.modules, last.cookie));
	cr_expect_eq(subject.device, file.st_dev);
	cr_expect_eq(subject.inode, file.st_ino);
	cr_expect_eq(subject.tgid, 10);
	cr_expect_eq(subject.uid, USER);
	cr_expect_eq(page.subject.inode, file.st_ino, "it was recorded");
	cr_expect_eq(page.working, 0, "the work has ended");
}

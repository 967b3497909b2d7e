/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/messages.h"
#include "role/work_page.h"

static int fd;

static void setup(void)
{
	fd = memfd_create("work", MFD_CLOEXEC);
	cr_assert(fd >= 0 && ftruncate(fd, WORK_PAGE_BYTES) == 0);
}

static void teardown(void)
{
	close(fd);
}

TestSuite(work_page, .init = setup, .fini = teardown);

/* The page as the next process of the role finds it. */
static struct work_page *open_page(void)
{
	struct work_page *page = NULL;

	cr_assert_eq(work_page_map(fd, &page), 0);
	cr_assert(page);
	work_page_take_over(page);
	return page;
}

/* Lets a process of the role end while it works on this. */
static void die_on(const struct work_subject *subject)
{
	struct work_page *page = open_page();

	work_begin(page, subject);
	munmap(page, sizeof(*page));
}

static bool is_left_alone(const struct work_subject *subject)
{
	struct work_page *page = open_page();
	const bool left_alone = work_is_quarantined(page, subject);

	munmap(page, sizeof(*page));
	return left_alone;
}

static const struct work_subject
    process = {.tgid = 42, .tenant = {.uid = 1000}},
    other_process = {.tgid = 43, .tenant = {.uid = 1000}},
    file = {.device = 7, .inode = 99, .tgid = 42, .tenant = {.uid = 1000}},
    other_file = {.device = 7, .inode = 98, .tgid = 43, .tenant = {.uid = 1000}},
    of_another_user = {.tgid = 44, .tenant = {.uid = 1001}},
    in_container = {.tgid = 45, .tenant = {.uid = 1000, .container = 7}};

Test(work_page, nothing_is_left_alone_at_first)
{
	cr_expect_not(is_left_alone(&process));
	cr_expect_not(is_left_alone(&file));
}

Test(work_page, the_process_is_left_alone)
{
	die_on(&process);
	cr_expect(is_left_alone(&process));
	cr_expect_not(is_left_alone(&other_process));
	cr_expect_not(is_left_alone(&file));
}

/* The file is to blame, not the process that was the first to map it. */
Test(work_page, the_file_is_left_alone)
{
	die_on(&file);
	cr_expect(is_left_alone(&file));
	cr_expect_not(is_left_alone(&other_file));
	cr_expect_not(is_left_alone(&process));
}

Test(work_page, the_second_time_it_is_the_user)
{
	die_on(&file);
	die_on(&other_process);
	cr_expect(is_left_alone(&process));
	cr_expect(is_left_alone(&other_file));
	cr_expect_not(is_left_alone(&of_another_user));
	cr_expect_not(is_left_alone(&in_container));
}

Test(work_page, work_that_has_ended_is_not_left_alone)
{
	struct work_page *page = open_page();

	work_begin(page, &process);
	work_end(page);
	munmap(page, sizeof(*page));
	cr_expect_not(is_left_alone(&process));
}

/* A role that ends again without having worked on anything does not blame the subject twice. */
Test(work_page, one_end_counts_once)
{
	die_on(&process);
	munmap(open_page(), sizeof(struct work_page));
	munmap(open_page(), sizeof(struct work_page));
	cr_expect_not(is_left_alone(&other_process));
}

Test(work_page, forged_contents_are_repaired)
{
	struct work_page *page = open_page();

	memset(page, 0xff, sizeof(*page));
	page->quarantine.entries[0].key =
	    (struct quarantine_key){QUARANTINE_PROCESS, {process.tgid}};
	munmap(page, sizeof(*page));
	page = open_page();
	cr_expect_eq(page->working, 0);
	cr_expect(work_is_quarantined(page, &process));
	cr_expect_neq(page->quarantine.entries[0].until_ns, UINT64_MAX, "it ends some day");
	cr_expect_not(work_is_quarantined(page, &other_process));
	munmap(page, sizeof(*page));
}

Test(work_page, parts_of_a_role_work_without_one)
{
	work_begin(NULL, &process);
	work_end(NULL);
	cr_expect_not(work_is_quarantined(NULL, &process));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that reads what a process may make its readers wait for. Here that is a file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "role/process_reader.h"

enum {
	FILE_BYTES = 100000 /* several requests */
};

static struct loop loop;
static struct process_reader reader;
static struct work_page page;
static uint8_t content[FILE_BYTES], found[FILE_BYTES + 1000];
static int file;

static void setup(void)
{
	const struct work_subject subject = {.tgid = 42, .tenant = tenant_of(1000, 0)};

	cr_assert_eq(loop_init(&loop), 0);
	process_reader_init(&reader, &loop, "unit", &page);
	work_begin(&page, &subject);
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 / 5);
	file = memfd_create("content", MFD_CLOEXEC);
	cr_assert(file >= 0 && write(file, content, sizeof(content)) == FILE_BYTES);
}

static void stop(void)
{
	process_reader_stop(&reader);
	loop_fini(&loop);
}

TestSuite(process_reader, .init = setup, .fini = stop, .timeout = 60);

Test(process_reader, a_file_is_read_in_pieces_to_its_end)
{
	cr_expect_eq(process_reader_read(&reader, file, 0, found, sizeof(found)), FILE_BYTES);
	cr_expect_arr_eq(found, content, FILE_BYTES);
	cr_expect_neq(reader.helper.pid, 0);
	cr_expect_eq(process_reader_read(&reader, file, 99, found, 1000), 1000);
	cr_expect_arr_eq(found, content + 99, 1000);
	cr_expect_eq(process_reader_read(&reader, file, FILE_BYTES, found, 1000), 0);
}

Test(process_reader, without_one_the_caller_reads)
{
	cr_expect_eq(process_reader_read(NULL, file, 99, found, sizeof(found)), FILE_BYTES - 99);
	cr_expect_arr_eq(found, content + 99, FILE_BYTES - 99);
}

Test(process_reader, a_failure_is_that_of_the_read)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_expect_eq(process_reader_read(&reader, ends[0], 0, found, 1000), -ESPIPE);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(process_reader_read(&reader, file, 0, found, 1000), 1000, "it goes on");
}

Test(process_reader, who_makes_it_wait_is_left_alone)
{
	cr_assert_eq(process_reader_read(&reader, file, 0, found, 1000), 1000);
	const pid_t first = reader.helper.pid;

	kill(first, SIGSTOP);
	cr_expect_eq(process_reader_read(&reader, file, 0, found, 1000), -ETIMEDOUT);
	cr_expect(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(process_reader_read(&reader, file, 0, found, 1000), 1000, "there is another");
	cr_expect_neq(reader.helper.pid, first);
}

Test(process_reader, one_that_was_killed_is_replaced)
{
	cr_assert_eq(process_reader_read(&reader, file, 0, found, 1000), 1000);
	kill(reader.helper.pid, SIGKILL);
	for (int i = 0; i < 2; i++) {
		if (process_reader_read(&reader, file, 0, found, 1000) == 1000)
			return;
	}
	cr_expect_fail("nobody reads any more");
}

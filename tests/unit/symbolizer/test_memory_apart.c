/* SPDX-License-Identifier: Apache-2.0 */
/* What of a process's memory is read by a helper. Here it is the memory of this process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "role/process_reader.h"
#include "symbolizer/runtime/memory.h"

enum {
	PAGE = MEMORY_PAGE_BYTES,
	PAGES = 300
};

static struct loop loop;
static struct process_reader reader;
static struct memory_presence presence;
static struct memory memory;
static struct work_page page;
static uint8_t *bytes;
static unsigned int asked;  /* how often the helper was, for pages */
static unsigned int probed; /* the same for the record of those that are present */

static ssize_t count_and_read(void *context, int fd, uint64_t offset, void *buffer, size_t size)
{
	if (fd == presence.fd) {
		probed++;
	} else {
		asked++;
		cr_expect_leq(offset % PAGE + size, PAGE, "one page at a time");
	}
	return process_reader_read_apart(context, fd, offset, buffer, size);
}

static void setup(void)
{
	const struct work_subject subject = {.tgid = 42, .tenant = tenant_of(1000, 0)};

	cr_assert_eq(loop_init(&loop), 0);
	process_reader_init(&reader, &loop, "unit", &page);
	presence = (struct memory_presence){.fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
					    .read_apart = count_and_read,
					    .context = &reader};
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
				 .presence = &presence};
	cr_assert(presence.fd >= 0 && memory.fd >= 0);
	bytes =
	    mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(bytes, MAP_FAILED);
	madvise(bytes, PAGES * PAGE, MADV_NOHUGEPAGE);
	memory_allow(&memory, 1000, 1000 * PAGE);
	work_begin(&page, &subject);
}

static void stop(void)
{
	process_reader_stop(&reader);
	loop_fini(&loop);
}

TestSuite(memory_apart, .init = setup, .fini = stop, .timeout = 60);

static int read_at(size_t offset, uint8_t *found, size_t length)
{
	return memory_read(&memory, (uint64_t)(uintptr_t)bytes + offset, found, length);
}

/* Lets the lock of the address space no longer count as free. */
static void let_time_pass(void)
{
	presence.free_until_ns = 0;
	memory_allow(&memory, 1000, 1000 * PAGE);
}

Test(memory_apart, pages_that_are_present_are_read_at_once)
{
	uint8_t found[3 * PAGE];

	presence.free_until_ns = UINT64_MAX;
	memset(bytes, 7, PAGES * PAGE);
	for (size_t i = 0; i + 3 < PAGES; i++) {
		cr_assert_eq(read_at(i * PAGE + 9, found, sizeof(found)), 0);
		cr_expect_eq(found[3 * PAGE - 1], 7);
	}
	cr_expect_eq(asked, 0);
	cr_expect_eq(probed, 0);
	cr_expect_eq(reader.helper.pid, 0);
}

Test(memory_apart, the_helper_tries_the_lock_first)
{
	uint8_t found[8];

	memset(bytes, 7, PAGES * PAGE);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(probed, 1);
	cr_expect_eq(asked, 0);
	cr_expect_eq(found[7], 7);
	let_time_pass();
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(probed, 2);
}

Test(memory_apart, nobody_else_waits_for_the_lock)
{
	uint8_t found[8] = {0};

	memset(bytes, 7, PAGES * PAGE);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	kill(reader.helper.pid, SIGSTOP);
	let_time_pass();
	cr_expect_eq(read_at(0, found, sizeof(found)), -ETIMEDOUT);
	cr_expect(work_is_quarantined(&page, &page.subject));
	cr_expect_eq(read_at(0, found, sizeof(found)), -ETIMEDOUT, "the operation has ended");
	cr_expect_eq(probed, 2);
	let_time_pass();
	cr_expect_eq(read_at(0, found, sizeof(found)), 0, "there is another helper");
}

static ssize_t refuse(void *context, int fd, uint64_t offset, void *buffer, size_t size)
{
	(void)context, (void)fd, (void)offset, (void)buffer, (void)size;
	return -EAGAIN;
}

Test(memory_apart, without_a_helper_only_absent_pages_are_lost)
{
	uint8_t found[8];

	presence.read_apart = refuse;
	memset(bytes, 7, PAGE);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(found[7], 7);
	cr_expect_eq(read_at(PAGE, found, sizeof(found)), -EFAULT);
	cr_expect_not(work_is_quarantined(&page, &page.subject));
}

Test(memory_apart, the_helper_reads_only_what_is_not_present)
{
	static uint8_t found[4 * PAGE];
	const uint8_t zero[PAGE] = {0};

	memset(bytes, 7, PAGE);
	memset(bytes + 2 * PAGE, 8, 2 * PAGE);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(asked, 1);
	cr_expect_eq(found[PAGE - 1], 7);
	cr_expect_arr_eq(found + PAGE, zero, PAGE);
	cr_expect_eq(found[2 * PAGE], 8);
	cr_expect_eq(found[4 * PAGE - 1], 8);
	cr_expect_eq(work_is_quarantined(&page, &page.subject), false);
}

Test(memory_apart, what_is_present_is_found_out_again_by_the_next_operation)
{
	uint8_t found[8];

	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(asked, 1);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(asked, 2, "within one operation nothing changes");
	memory_allow(&memory, 1000, 1000 * PAGE);
	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	cr_expect_eq(asked, 2, "it has been read, so it is present");
}

Test(memory_apart, what_is_not_mapped_cannot_be_read)
{
	uint8_t found[8];

	munmap(bytes + PAGE, PAGE);
	cr_expect_eq(read_at(PAGE, found, sizeof(found)), -EFAULT);
	cr_expect_eq(read_at(PAGE - 4, found, sizeof(found)), -EFAULT);
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), 0, "the helper goes on");
}

Test(memory_apart, a_helper_that_does_not_answer_costs_the_process_its_names)
{
	uint8_t found[8];

	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	const pid_t first = reader.helper.pid;
	kill(first, SIGSTOP);
	cr_expect_eq(read_at(PAGE, found, sizeof(found)), -ETIMEDOUT);
	cr_expect(work_is_quarantined(&page, &page.subject));
	asked = 0;
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), -ETIMEDOUT,
		     "the operation has ended");
	cr_expect_eq(asked, 0);
	memory_allow(&memory, 1000, 1000 * PAGE);
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), 0, "there is another helper");
	cr_expect_neq(reader.helper.pid, first);
}

Test(memory_apart, a_helper_that_was_killed_is_replaced)
{
	uint8_t found[8];

	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	kill(reader.helper.pid, SIGKILL);
	for (int i = 0; i < 2; i++) {
		memory_allow(&memory, 1000, 1000 * PAGE);
		if (read_at((size_t)(i + 1) * PAGE, found, sizeof(found)) == 0)
			return;
	}
	cr_expect_fail("no helper reads any more");
}

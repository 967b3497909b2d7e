/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that reads pages which are not present. Here they are of this process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/worker/absent_memory.h"

enum {
	PAGE = MEMORY_PAGE_BYTES,
	PAGES = 300
};

static struct loop loop;
static struct absent_memory absent;
static struct memory_presence presence;
static struct memory memory;
static struct work_page page;
static uint8_t *bytes;
static unsigned int asked; /* how often the helper was */

static ssize_t count_and_read(void *context, const struct memory *of, uint64_t address,
			      void *buffer, size_t length)
{
	asked++;
	cr_expect_leq(address % PAGE + length, PAGE, "one page at a time");
	return absent_memory_read(context, of, address, buffer, length);
}

static void setup(void)
{
	const struct work_subject subject = {.tgid = 42, .tenant = tenant_of(1000, 0)};

	cr_assert_eq(loop_init(&loop), 0);
	absent_memory_init(&absent, &loop, &page);
	presence = (struct memory_presence){.fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
					    .read_absent = count_and_read,
					    .context = &absent};
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
	helper_stop(&absent.helper);
	loop_fini(&loop);
}

TestSuite(absent_memory, .init = setup, .fini = stop, .timeout = 60);

static int read_at(size_t offset, uint8_t *found, size_t length)
{
	return memory_read(&memory, (uint64_t)(uintptr_t)bytes + offset, found, length);
}

Test(absent_memory, pages_that_are_present_need_no_helper)
{
	uint8_t found[3 * PAGE];

	memset(bytes, 7, PAGES * PAGE);
	for (size_t i = 0; i + 3 < PAGES; i++) {
		cr_assert_eq(read_at(i * PAGE + 9, found, sizeof(found)), 0);
		cr_expect_eq(found[3 * PAGE - 1], 7);
	}
	cr_expect_eq(asked, 0);
	cr_expect_eq(absent.helper.pid, 0);
}

Test(absent_memory, the_helper_reads_only_what_is_not_present)
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

Test(absent_memory, what_is_present_is_found_out_again_by_the_next_operation)
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

Test(absent_memory, what_is_not_mapped_cannot_be_read)
{
	uint8_t found[8];

	munmap(bytes + PAGE, PAGE);
	cr_expect_eq(read_at(PAGE, found, sizeof(found)), -EFAULT);
	cr_expect_eq(read_at(PAGE - 4, found, sizeof(found)), -EFAULT);
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), 0, "the helper goes on");
}

Test(absent_memory, a_helper_that_does_not_answer_costs_the_process_its_names)
{
	uint8_t found[8];

	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	const pid_t first = absent.helper.pid;
	kill(first, SIGSTOP);
	cr_expect_eq(read_at(PAGE, found, sizeof(found)), -ETIMEDOUT);
	cr_expect(work_is_quarantined(&page, &page.subject));
	asked = 0;
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), -ETIMEDOUT,
		     "the operation has ended");
	cr_expect_eq(asked, 0);
	memory_allow(&memory, 1000, 1000 * PAGE);
	cr_expect_eq(read_at(2 * PAGE, found, sizeof(found)), 0, "there is another helper");
	cr_expect_neq(absent.helper.pid, first);
}

Test(absent_memory, a_helper_that_was_killed_is_replaced)
{
	uint8_t found[8];

	cr_assert_eq(read_at(0, found, sizeof(found)), 0);
	kill(absent.helper.pid, SIGKILL);
	for (int i = 0; i < 2; i++) {
		memory_allow(&memory, 1000, 1000 * PAGE);
		if (read_at((size_t)(i + 1) * PAGE, found, sizeof(found)) == 0)
			return;
	}
	cr_expect_fail("no helper reads any more");
}

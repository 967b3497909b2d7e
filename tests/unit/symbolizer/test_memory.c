/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of a process's memory; here it is this process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/runtime/memory.h"

enum {
	PAGE = MEMORY_PAGE_BYTES,
	PAGES = 2 * MEMORY_CACHE_PAGES, /* the page after them is not mapped */
	READS = 1000
};

static struct memory memory;
static struct memory_cache cache;
static uint8_t *bytes;

static uint64_t address(size_t offset)
{
	return (uint64_t)(uintptr_t)bytes + offset;
}

static void setup(void)
{
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	memory_allow(&memory, READS, READS * PAGE);
	bytes = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	cr_assert(memory.fd >= 0 && bytes != MAP_FAILED);
	munmap(bytes + PAGES * PAGE, PAGE);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / PAGE);
}

TestSuite(memory, .init = setup);

/* Reads this many bytes and compares them. */
static int check(size_t offset, size_t length)
{
	uint8_t found[3 * PAGE];
	const int r = memory_read(&memory, address(offset), found, length);

	if (r == 0)
		cr_expect_arr_eq(found, bytes + offset, length, "%zu bytes at %zu", length, offset);
	return r;
}

static void check_everywhere(void)
{
	for (size_t offset = 0; offset + 3 * PAGE <= PAGES * PAGE; offset += 3 * PAGE / 2 + 1) {
		cr_expect_eq(check(offset, 1), 0);
		cr_expect_eq(check(offset, PAGE), 0);
		cr_expect_eq(check(offset, 2 * PAGE + 7), 0);
	}
	cr_expect_eq(check(PAGES * PAGE - 9, 9), 0);
	cr_expect_eq(check(PAGES * PAGE - 9, 10), -EFAULT);
	cr_expect_eq(check(PAGES * PAGE, 1), -EFAULT);
}

Test(memory, is_read_exactly)
{
	check_everywhere();
}

Test(memory, is_read_exactly_through_the_cache)
{
	memory.cache = &cache;
	check_everywhere();
	check_everywhere();
}

Test(memory, a_cached_page_is_read_once)
{
	const uint8_t before = bytes[100];
	uint8_t value = 0;

	memory.cache = &cache;
	cr_expect_eq(memory_read_u8(&memory, address(50), &value), 0);
	bytes[100]++;
	cr_expect_eq(memory_read_u8(&memory, address(100), &value), 0);
	cr_expect_eq(value, before);
	memory.cache = NULL;
	cr_expect_eq(memory_read_u8(&memory, address(100), &value), 0);
	cr_expect_eq(value, (uint8_t)(before + 1));
}

/* Other pages take the place of those that were read before. */
Test(memory, the_cache_replaces_pages)
{
	uint8_t value = 0;

	memory.cache = &cache;
	cr_expect_eq(memory_read_u8(&memory, address(0), &value), 0);
	cr_expect_eq(check(MEMORY_CACHE_PAGES * PAGE, 8), 0);
	bytes[0]++;
	cr_expect_eq(memory_read_u8(&memory, address(0), &value), 0);
	cr_expect_eq(value, bytes[0]);
}

Test(memory, strings_end_at_unmapped_memory)
{
	char text[100];

	memory.cache = &cache;
	memset(bytes + PAGES * PAGE - 10, 'x', 10);
	cr_expect_eq(memory_read_string(&memory, address(PAGES * PAGE - 10), text, sizeof(text)),
		     -EFAULT);
	bytes[PAGES * PAGE - 1] = 0;
	memory.cache = NULL;
	cr_expect_eq(memory_read_string(&memory, address(PAGES * PAGE - 10), text, sizeof(text)),
		     9);
	cr_expect_str_eq(text, "xxxxxxxxx");
}

Test(memory, reads_have_a_budget)
{
	uint8_t value;

	memory_allow(&memory, 2, 100);
	cr_expect_eq(check(0, 60), 0);
	cr_expect_eq(check(0, 60), -EDQUOT);
	cr_expect_eq(check(0, 10), 0);
	cr_expect_eq(check(0, 10), -EDQUOT);
	/* A page that does not fit into the budget is not read, but what is wanted is. */
	memory_allow(&memory, 2, 100);
	memory.cache = &cache;
	cr_expect_eq(memory_read_u8(&memory, address(0), &value), 0);
	cr_expect_not(cache.pages[address(0) / PAGE % MEMORY_CACHE_PAGES].filled);
	/* A page that does counts as a whole. */
	memory_allow(&memory, 3, PAGE + 2);
	cr_expect_eq(memory_read_u8(&memory, address(0), &value), 0);
	cr_expect_eq(memory_read_u8(&memory, address(1), &value), 0);
	cr_expect_eq(memory_read_u8(&memory, address(PAGE), &value), -EDQUOT);
}

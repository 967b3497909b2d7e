/* SPDX-License-Identifier: Apache-2.0 */
/* The opener's table of processes whose memory it may hand out, and of requests that came too early. */
#include <criterion/criterion.h>

#include "symbolizer/opener/memory_permits.h"

static struct memory_permits permits;

static void teardown(void)
{
	memory_permits_fini(&permits);
	cr_expect_eq(permits.count, 0);
}

TestSuite(memory_permits, .fini = teardown);

static void allow(uint32_t tgid, uint32_t exec_generation)
{
	const struct msg_allow_memory allowed = {.tgid = tgid, .exec_generation = exec_generation};

	cr_assert_eq(memory_permits_allow(&permits, &allowed), 0);
}

static void forbid(uint32_t tgid, uint32_t exec_generation)
{
	memory_permits_forbid(&permits, &(struct msg_open_memory){tgid, exec_generation});
}

static struct memory_permit *find(uint32_t tgid, uint32_t exec_generation)
{
	return memory_permits_find(&permits, &(struct msg_open_memory){tgid, exec_generation});
}

static bool was_waiting(uint32_t tgid, uint32_t exec_generation)
{
	const struct msg_allow_memory allowed = {.tgid = tgid, .exec_generation = exec_generation};

	return memory_permits_take_waiting(&permits, &allowed);
}

Test(memory_permits, only_the_program_that_was_allowed_is_found)
{
	cr_expect_null(find(42, 7));
	allow(42, 7);
	cr_expect_not_null(find(42, 7));
	cr_expect_null(find(42, 6));
	cr_expect_null(find(42, 8));
	/* The same bucket. */
	cr_expect_null(find(42 + MEMORY_PERMIT_BUCKETS, 7));
}

Test(memory_permits, a_new_program_replaces_the_previous_one)
{
	allow(42, 7);
	find(42, 7)->opens = 5;
	allow(42, 7);
	cr_expect_eq(find(42, 7)->opens, 5);
	allow(42, 8);
	cr_expect_null(find(42, 7));
	cr_assert_not_null(find(42, 8));
	cr_expect_eq(find(42, 8)->opens, 0);
	cr_expect_eq(permits.count, 1);
}

Test(memory_permits, what_is_forbidden_is_not_found)
{
	allow(42, 8);
	allow(42 + MEMORY_PERMIT_BUCKETS, 9);
	/* A message about the previous program. */
	forbid(42, 7);
	cr_expect_not_null(find(42, 8));
	forbid(42, 8);
	cr_expect_null(find(42, 8));
	cr_expect_not_null(find(42 + MEMORY_PERMIT_BUCKETS, 9));
	forbid(42, 8);
	cr_expect_eq(permits.count, 1);
}

Test(memory_permits, the_oldest_one_gives_way)
{
	for (uint32_t i = 1; i <= LIMIT_MEMORY_PERMITS; i++)
		allow(i, i);
	/* It is given again, so it is no longer the oldest. */
	allow(1, 1);
	cr_expect_eq(permits.evicted, 0);
	allow(100000, 1);
	cr_expect_eq(permits.evicted, 1);
	cr_expect_eq(permits.count, LIMIT_MEMORY_PERMITS);
	cr_expect_not_null(find(1, 1));
	cr_expect_null(find(2, 2));
	cr_expect_not_null(find(3, 3));
	cr_expect_not_null(find(100000, 1));
}

/* The bucket of the new permission is that of the one which gives way, and which is the last of it. */
Test(memory_permits, the_oldest_one_may_be_in_the_same_bucket)
{
	const uint32_t last = LIMIT_MEMORY_PERMITS - 1, added = last + MEMORY_PERMIT_BUCKETS;

	for (uint32_t i = 1; i <= LIMIT_MEMORY_PERMITS; i++)
		allow(i, i);
	/* All the others are given again. */
	for (uint32_t i = 1; i <= LIMIT_MEMORY_PERMITS; i++)
		if (i != last)
			allow(i, i);
	allow(added, 1);
	cr_expect_null(find(last, last));
	cr_expect_not_null(find(added, 1));
	for (uint32_t i = 1; i <= LIMIT_MEMORY_PERMITS; i++)
		cr_assert(i == last || find(i, i));
}

Test(memory_permits, a_request_waits_for_its_permission)
{
	struct msg_open_memory refused;

	cr_expect_not(memory_permits_wait(&permits, &(struct msg_open_memory){42, 7}, &refused));
	cr_expect_not(memory_permits_wait(&permits, &(struct msg_open_memory){43, 1}, &refused));
	cr_expect_not(was_waiting(42, 8));
	cr_expect(was_waiting(42, 7));
	cr_expect_not(was_waiting(42, 7));
	cr_expect(was_waiting(43, 1));
}

Test(memory_permits, a_flood_of_requests_displaces_the_oldest_ones)
{
	struct msg_open_memory refused = {0};

	for (uint32_t i = 0; i < LIMIT_MEMORY_REQUESTS; i++)
		cr_assert_not(
		    memory_permits_wait(&permits, &(struct msg_open_memory){1000 + i, 1}, &refused));
	cr_expect(memory_permits_wait(&permits, &(struct msg_open_memory){42, 7}, &refused));
	cr_expect_eq(refused.tgid, 1000);
	cr_expect_eq(permits.waiting_count, LIMIT_MEMORY_REQUESTS);
	cr_expect_not(was_waiting(1000, 1));
	cr_expect(was_waiting(1001, 1));
	cr_expect(was_waiting(42, 7));
}

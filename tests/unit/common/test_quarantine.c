/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/quarantine.h"
#include "common/time_units.h"

#define AT(seconds) ((seconds)*NS_PER_S)

static struct quarantine quarantine;

static struct quarantine_key process(uint32_t tgid)
{
	return (struct quarantine_key){QUARANTINE_PROCESS, {tgid}};
}

static unsigned int add(uint32_t tgid, uint64_t seconds)
{
	const struct quarantine_key key = process(tgid);

	return quarantine_add(&quarantine, &key, AT(seconds));
}

static bool has(uint32_t tgid, unsigned int times, uint64_t seconds)
{
	const struct quarantine_key key = process(tgid);

	return quarantine_has(&quarantine, &key, times, AT(seconds));
}

Test(quarantine, lasts_ten_seconds)
{
	cr_expect_not(has(42, 1, 100));
	cr_expect_eq(add(42, 100), 10);
	cr_expect(has(42, 1, 109));
	cr_expect_not(has(43, 1, 109));
	cr_expect_not(has(42, 1, 110));
}

Test(quarantine, lasts_longer_each_time_up_to_an_hour)
{
	const unsigned int expected[] = {10, 40, 160, 640, 2560, 3600, 3600};
	uint64_t seconds = 100;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		cr_expect_eq(add(42, seconds), expected[i]);
		seconds += expected[i] + 10;
	}
}

Test(quarantine, is_forgotten_after_an_hour)
{
	add(42, 100);
	cr_expect_eq(add(42, 110 + 3600), 40);
	cr_expect_eq(add(42, 3750 + 3601), 10);
	cr_expect_not(has(42, 2, 7352));
}

Test(quarantine, is_shorter_for_what_was_only_slow)
{
	const struct quarantine_key key = process(42), other = process(43);

	add(42, 100);
	quarantine_shorten(&quarantine, &key, AT(103));
	quarantine_shorten(&quarantine, &other, AT(103));
	cr_expect(has(42, 1, 103));
	cr_expect_not(has(42, 1, 104));
	cr_expect_not(has(43, 1, 103));
	add(42, 110); /* until 150 */
	quarantine_shorten(&quarantine, &key, AT(149));
	cr_expect_not(has(42, 1, 150));
	cr_expect_eq(add(42, 160), 160, "it was slow twice");
}

Test(quarantine, counts_the_times)
{
	add(42, 100);
	cr_expect_not(has(42, 2, 101));
	add(42, 101);
	cr_expect(has(42, 2, 102));
	cr_expect_not(has(42, 3, 102));
}

Test(quarantine, distinguishes_what_and_both_numbers)
{
	const struct quarantine_key file = {QUARANTINE_FILE, {7, 42}},
				    other_file = {QUARANTINE_FILE, {7, 43}},
				    device = {QUARANTINE_DEVICE, {7, 42}};

	quarantine_add(&quarantine, &file, AT(100));
	cr_expect(quarantine_has(&quarantine, &file, 1, AT(101)));
	cr_expect_not(quarantine_has(&quarantine, &other_file, 1, AT(101)));
	cr_expect_not(quarantine_has(&quarantine, &device, 1, AT(101)));
	cr_expect_not(has(7, 1, 101));
}

Test(quarantine, root_of_the_host_and_unknown_users_are_no_tenants)
{
	const struct quarantine_key root = {QUARANTINE_TENANT, {0}},
				    unknown = {QUARANTINE_TENANT, {UINT32_MAX}},
				    user = {QUARANTINE_TENANT, {1000}},
				    of_container = {QUARANTINE_TENANT, {0, 7}},
				    of_another = {QUARANTINE_TENANT, {0, 8}};

	quarantine_add_tenant(&quarantine, tenant_of(0, 0), AT(100));
	quarantine_add_tenant(&quarantine, tenant_of(UINT32_MAX, 0), AT(100));
	quarantine_add_tenant(&quarantine, tenant_of(1000, 0), AT(100));
	cr_expect_not(quarantine_has(&quarantine, &root, 1, AT(101)));
	cr_expect_not(quarantine_has(&quarantine, &unknown, 1, AT(101)));
	quarantine_add_tenant(&quarantine, tenant_of(0, 7), AT(100));
	cr_expect(quarantine_has(&quarantine, &user, 1, AT(101)));
	cr_expect(quarantine_has(&quarantine, &of_container, 1, AT(101)));
	cr_expect_not(quarantine_has(&quarantine, &of_another, 1, AT(101)));
}

Test(quarantine, the_one_that_ends_first_gives_way)
{
	add(1, 100);
	add(1, 100); /* until 140 */
	add(2, 100); /* until 110 */
	for (uint32_t i = 0; i < QUARANTINE_ENTRIES - 1; i++)
		add(1000 + i, 101);
	cr_expect(has(1, 1, 105));
	cr_expect_not(has(2, 1, 105));
}

/* The memory may come from a process that was taken over. */
Test(quarantine, forged_entries_last_an_hour_at_most)
{
	add(42, 100);
	quarantine.entries[0].until_ns = quarantine.latest_ns = UINT64_MAX;
	quarantine.entries[1] =
	    (struct quarantine_entry){{QUARANTINE_WHAT_COUNT, {1}}, 1, UINT64_MAX};
	quarantine_repair(&quarantine, AT(200));
	cr_expect(has(42, 1, 200 + QUARANTINE_LONGEST_S - 1));
	cr_expect_not(has(42, 1, 200 + QUARANTINE_LONGEST_S));
	cr_expect_eq(quarantine.entries[1].key.what, QUARANTINE_NOTHING);
}

Test(quarantine, forged_counts_end)
{
	add(42, 100);
	quarantine.entries[0].times = UINT64_MAX - 1;
	cr_expect_eq(add(42, 100), QUARANTINE_LONGEST_S);
}

/* An entry whose end the process that wrote it has hidden is active all the same. */
Test(quarantine, repaired_entries_are_found)
{
	add(42, 100);
	quarantine.latest_ns = 0;
	cr_expect_not(has(42, 1, 105));
	quarantine_repair(&quarantine, AT(101));
	cr_expect(has(42, 1, 105));
}

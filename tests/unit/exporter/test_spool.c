/* SPDX-License-Identifier: Apache-2.0 */
/* The spool without faults: order, marks, groups, limits, and outages of minutes and days. Time is an argument, so no test waits. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/exporter/spool_harness.h"

/* Order, stats, marks. */

Test(spool, records_keep_order_and_marks_in_memory)
{
	struct harness harness;

	harness_start(&harness, false);
	cr_expect_eq(harness.mark, 0);
	expect_empty(&harness);
	put_all(&harness, 1, 5, 1000);
	cr_expect_eq(harness_stats(&harness).records, 5);
	cr_expect_eq(harness_stats(&harness).samples, 15);
	cr_expect_eq(harness_stats(&harness).oldest_unix_ns, start_ns);
	expect_all(&harness, 1, 2);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 5);
	cr_expect_eq(harness_stats(&harness).samples, 12);
	expect_all(&harness, 3, 5);
	expect_empty(&harness);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 5, "the mark outlives the records");
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

Test(spool, numbers_are_never_used_twice)
{
	struct harness harness;
	struct spool_record record = {0};
	uint64_t last = 0;

	harness_start(&harness, true);
	for (uint64_t id = 1; id <= 40; id++) {
		cr_assert_eq(put(&harness, id, 100, true), 0);
		if (id % 7 == 0)
			cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		if (id % 5 == 0)
			harness_reopen(&harness);
		if (id % 16 == 0) { /* a new agent */
			harness_new_memory(&harness);
			harness.now += second;
			harness_reopen(&harness);
		}
		while (first(&harness, &record)) {
			cr_expect_gt(record.number, last);
			last = record.number;
			spool_done(harness.spool, record.number);
		}
	}
	harness_end(&harness);
}

Test(spool, only_the_oldest_record_can_be_done)
{
	struct harness harness;
	struct spool_record record;

	harness_start(&harness, true);
	put_all(&harness, 1, 3, 100);
	cr_expect_eq(first(&harness, &record), 1);
	spool_done(harness.spool, record.number + 1);
	spool_done(harness.spool, record.number - 1);
	cr_expect_eq(first(&harness, &record), 1);
	/* Between the two it was moved. */
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	spool_done(harness.spool, record.number);
	spool_done(harness.spool, record.number);
	expect_all(&harness, 2, 3);
	expect_empty(&harness);
	harness_end(&harness);
}

Test(spool, records_on_disk_come_before_those_in_memory)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 3, 5000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	cr_expect_eq(harness_stats(&harness).memory_bytes, 0);
	cr_expect_gt(harness_stats(&harness).disk_bytes, 0);
	put_all(&harness, 4, 5, 5000);
	cr_expect_eq(take(&harness), 1);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 6, 7, 5000);
	cr_expect_eq(segments_of(&harness).count, 1, "one process fills one segment");
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 7);
	cr_expect_eq(harness_stats(&harness).records, 6);
	cr_expect_eq(harness_stats(&harness).samples, 27);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	expect_all(&harness, 2, 7);
	expect_empty(&harness);
	cr_expect_eq(segments_of(&harness).count, 0);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 7);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

/* The agent ends, and with it the memory. */
Test(spool, records_on_disk_survive_the_memory)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 10, 3000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	expect_all(&harness, 1, 4);
	harness_new_memory(&harness);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 0);
	put_all(&harness, 11, 12, 3000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	expect_all(&harness, 5, 12);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

Test(spool, groups_are_visible_as_a_whole_or_not_at_all)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 1, 1000);
	cr_assert_eq(put(&harness, 2, 1000, false), 0);
	cr_assert_eq(put(&harness, 3, 1000, false), 0);
	cr_expect_eq(harness_stats(&harness).records, 1);
	cr_expect_eq(take(&harness), 1);
	cr_expect_eq(take(&harness), 0, "the group is not ended");
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	cr_expect_eq(harness_stats(&harness).disk_bytes, 0);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 1);
	expect_empty(&harness);
	cr_assert_eq(put(&harness, 2, 1000, false), 0);
	cr_assert_eq(put(&harness, 3, 1000, true), 0);
	cr_assert_eq(put(&harness, 4, 1000, false), 0);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	cr_expect_eq(harness_stats(&harness).records, 2);
	cr_assert_eq(put(&harness, 5, 1000, true), 0);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 5);
	expect_all(&harness, 2, 5);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

/* Memory may run out before the last record of a group. */
Test(spool, a_group_can_end_without_its_last_record)
{
	struct harness harness;

	harness_start(&harness, false);
	cr_assert_eq(spool_end_group(harness.spool, 9), 0);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 0, "no group was open");
	cr_assert_eq(put(&harness, 1, 100, false), 0);
	cr_assert_eq(put(&harness, 2, 100, false), 0);
	cr_expect_eq(take(&harness), 0, "the group is not ended");
	cr_assert_eq(spool_end_group(harness.spool, 9), 0);
	cr_expect_eq(harness_stats(&harness).records, 2);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 9);
	expect_all(&harness, 1, 2);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

Test(spool, sizes_at_their_limits_are_accepted)
{
	struct harness harness;
	struct spool_record record;
	uint8_t *data = NULL;

	harness_start(&harness, true);
	cr_expect_eq(put(&harness, 1, RECORD_BYTES_MAX + 1, true), -EFBIG);
	cr_expect_eq(put(&harness, 1, RECORD_BYTES_MAX, true), 0);
	cr_expect_eq(spool_put(harness.spool, NULL, 0, 3, 3, true, harness_now(&harness)), 0);
	cr_expect_eq(take(&harness), 1);
	cr_assert_eq(spool_first(harness.spool, harness_now(&harness), &record, &data), 1);
	cr_expect_eq(record.bytes, 0);
	cr_expect_eq(record.samples, 3);
	free(data);
	harness_end(&harness);
}

/* Caps. */

static uint64_t memory_blocks(const struct harness *harness)
{
	struct stat st;

	cr_assert_eq(fstat(harness->memory_fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

Test(spool, memory_of_delivered_records_is_given_back)
{
	struct harness harness;

	harness_start(&harness, false);
	for (uint64_t id = 1; id <= 400; id++) {
		cr_assert_eq(put(&harness, id, 40000, true), 0);
		if (id > 10) /* never empty */
			cr_expect_eq(take(&harness), id - 10);
		cr_assert_leq(memory_blocks(&harness), 12 * 40000);
	}
	expect_all(&harness, 391, 400);
	expect_empty(&harness);
	cr_expect_leq(memory_blocks(&harness), 4096);
	harness_end(&harness);
}

Test(spool, full_memory_goes_to_the_disk)
{
	struct harness harness;

	harness_start(&harness, true);
	harness.config.memory_bytes_max = 100000;
	harness_reopen(&harness);
	for (uint64_t id = 1; id <= 100; id++) {
		cr_assert_eq(put(&harness, id, 10000, true), 0);
		cr_assert_leq(harness_stats(&harness).memory_bytes, 100000);
	}
	cr_expect_gt(harness_stats(&harness).disk_bytes, 500000);
	expect_all(&harness, 1, 100);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

Test(spool, full_memory_without_a_disk_drops_the_oldest)
{
	struct harness harness;
	uint64_t got = 0, last = 0;

	harness_start(&harness, false);
	harness.config.memory_bytes_max = 100000;
	harness_reopen(&harness);
	put_all(&harness, 1, 100, 10000);
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	cr_expect_leq(harness_stats(&harness).memory_bytes, 100000);
	for (uint64_t id; (id = take(&harness)); last = id) {
		cr_expect(!last || id == last + 1);
		got += id;
	}
	cr_expect_eq(last, 100);
	cr_expect_gt(harness_stats(&harness).dropped_full_samples, 0);
	cr_expect_eq(got + harness_stats(&harness).dropped_full_samples, 5050);
	expect_empty(&harness);
	harness_end(&harness);
}

Test(spool, a_group_larger_than_the_memory_is_refused)
{
	struct harness harness;

	harness_start(&harness, true);
	harness.config.memory_bytes_max = 50000;
	harness_reopen(&harness);
	put_all(&harness, 1, 1, 10000);
	cr_expect_eq(put(&harness, 2, 100000, true), -ENOSPC);
	cr_expect_eq(harness_stats(&harness).disk_bytes, 0, "nothing is moved for what cannot be put");
	cr_expect_eq(put(&harness, 2, 30000, false), 0);
	cr_expect_eq(put(&harness, 3, 30000, false), 0);
	cr_expect_eq(put(&harness, 4, 30000, true), -ENOSPC);
	cr_expect_eq(put(&harness, 5, 100, true), 0);
	expect_all(&harness, 1, 3);
	cr_expect_eq(take(&harness), 5);
	expect_empty(&harness);
	harness_end(&harness);
}

Test(spool, full_directory_drops_the_oldest_segments)
{
	struct harness harness;
	uint64_t got = 0, last = 0;

	harness_start(&harness, true);
	harness.config.disk_bytes_max = 4 << 20; /* four segments of 1 MiB */
	harness_reopen(&harness);
	for (uint64_t id = 1; id <= 300; id++) {
		cr_assert_eq(put(&harness, id, 50000, true), 0);
		if (id % 3 == 0)
			cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		cr_assert_leq(harness_stats(&harness).disk_bytes, 4 << 20);
	}
	cr_expect_gt(harness_stats(&harness).disk_bytes, 2 << 20);
	uint64_t dropped = harness_stats(&harness).dropped_full_samples;
	cr_expect_gt(dropped, 0);
	cr_expect_eq(harness_stats(&harness).samples + dropped, 45150);
	/* A smaller cap by the next start. */
	harness.config.disk_bytes_max = 2 << 20;
	harness_reopen(&harness);
	cr_expect_leq(harness_stats(&harness).disk_bytes, 2 << 20);
	cr_expect_gt(harness_stats(&harness).dropped_full_samples, 0);
	dropped += harness_stats(&harness).dropped_full_samples;
	for (uint64_t id; (id = take(&harness)); last = id) {
		cr_expect(!last || id == last + 1);
		got += id;
	}
	cr_expect_eq(last, 300);
	cr_expect_eq(got + dropped, 45150);
	expect_empty(&harness);
	harness_end(&harness);
}

Test(spool, a_directory_without_room_is_reported)
{
	const uint64_t caps[] = {0, 1, 100, 5000};

	for (size_t i = 0; i < 4; i++) {
		struct harness harness;
		harness_start(&harness, true);
		harness.config.disk_bytes_max = caps[i];
		harness_reopen(&harness);
		put_all(&harness, 1, 3, 20000);
		cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), -ENOSPC);
		cr_expect_eq(harness_stats(&harness).disk_error, ENOSPC);
		cr_expect_eq(segments_of(&harness).count, 0);
		expect_all(&harness, 1, 3);
		harness_end(&harness);
	}
}

/* An outage of ten minutes, with a request every 5 seconds and restarts: nothing is lost. */
Test(spool, an_outage_of_ten_minutes_loses_nothing)
{
	struct harness harness;
	uint64_t id = 0;

	harness_start(&harness, true);
	for (int i = 0; i < 120; i++) {
		harness.now += 5 * second;
		cr_assert_eq(put(&harness, ++id, 30000, true), 0);
		if (i % 6 == 0)
			cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		if (i % 25 == 0)
			harness_reopen(&harness);
		spool_expire(harness.spool, harness_now(&harness));
		cr_expect_eq(first(&harness, &(struct spool_record){0}), 1);
	}
	expect_all(&harness, 1, 120);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

/* An outage of two days: exactly the records older than one day are dropped. */
Test(spool, an_outage_of_two_days_loses_only_expired_records)
{
	struct harness harness;
	uint64_t last = 0;

	harness_start(&harness, true);
	for (uint64_t id = 1; id <= 192; id++) { /* each 15 minutes */
		harness.now = start_ns + id * 900 * second;
		cr_assert_eq(put(&harness, id, 60000, true), 0);
		if (id % 4 == 0)
			cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		spool_expire(harness.spool, harness_now(&harness));
		struct spool_stats f = harness_stats(&harness);
		uint64_t oldest = id > 96 ? id - 96 : 1;
		cr_assert_eq(f.oldest_unix_ns, start_ns + oldest * 900 * second);
		cr_assert_eq(f.dropped_age_samples, oldest * (oldest - 1) / 2);
		cr_assert_eq(f.records, id - oldest + 1);
	}
	harness_reopen(&harness);
	for (uint64_t id = 96; id <= 192; id++, last++)
		cr_expect_eq(take(&harness), id);
	expect_empty(&harness);
	harness_end(&harness);
}

Test(spool, expired_records_are_dropped_when_they_are_read)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 2, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 3, 3, 1000);
	harness.now += 86400 * second;
	put_all(&harness, 4, 4, 1000);
	cr_expect_eq(first(&harness, &(struct spool_record){0}), 1, "at the very limit");
	harness.now++;
	cr_expect_eq(take(&harness), 4);
	cr_expect_eq(harness_stats(&harness).dropped_age_samples, 6);
	expect_empty(&harness);
	harness_end(&harness);
}

/* Sets the clock by this much and lets 24 hours pass, by another exporter if `reopen`. Records expire after 24 hours, and neither earlier nor
 * later. */
static void expire_after_clock_change(int64_t seconds, bool reopen)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 2, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 3, 3, 1000);
	harness.set_by_ns = (uint64_t)seconds * second;
	if (reopen)
		harness_reopen(&harness);
	put_all(&harness, 4, 4, 1000);
	harness.now += 86400 * second;
	spool_expire(harness.spool, harness_now(&harness));
	cr_expect_eq(first(&harness, &(struct spool_record){0}), 1, "set by %ld s", seconds);
	expect_nothing_lost(&harness);
	harness.now++;
	spool_expire(harness.spool, harness_now(&harness));
	expect_empty(&harness);
	cr_expect_eq(harness_stats(&harness).dropped_age_samples, 10, "set by %ld s", seconds);
	/* The spool is empty, so its clock is right again with the next record. */
	put_all(&harness, 5, 5, 1000);
	cr_expect_eq(harness_stats(&harness).oldest_unix_ns, harness_now(&harness).unix_ns);
	harness_end(&harness);
}

Test(spool, a_clock_that_is_set_expires_nothing_and_delays_nothing)
{
	const int64_t day = 86400;

	for (int reopen = 0; reopen < 2; reopen++) {
		expire_after_clock_change(3600, reopen);
		expire_after_clock_change(-3600, reopen);
		expire_after_clock_change(20 * 365 * day, reopen); /* a clock that was not set yet when the agent started */
		expire_after_clock_change(-20 * 365 * day, reopen);
	}
}

/* A clock that is moved all the time, by 0.1 % too fast: 24 hours are still 24 hours. */
Test(spool, a_clock_that_is_adjusted_does_not_change_ages)
{
	struct harness harness;

	harness_start(&harness, false);
	put_all(&harness, 1, 1, 1000);
	for (int minute = 0; minute < 24 * 60; minute++) {
		harness.now += 60 * second;
		harness.set_by_ns += 60 * second / 1000;
		spool_expire(harness.spool, harness_now(&harness));
	}
	cr_expect_eq(take(&harness), 1);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

/* Two threads. */

enum {
	THREAD_RECORDS = 600
};

static void *thread_put(void *context)
{
	struct harness *harness = context;
	static uint8_t data[RECORD_BYTES_MAX];

	for (uint64_t id = 1; id <= THREAD_RECORDS; id++) {
		if (spool_put(harness->spool, data, contents(id, 5000, data), id, id, id % 3 == 0,
			      harness_now(harness)))
			return NULL;
		if (id % 50 == 0)
			spool_keep(harness->spool, harness_now(harness));
		if (id % 20 == 0)
			spool_expire(harness->spool, harness_now(harness));
	}
	return harness;
}

Test(spool, two_threads_can_use_it)
{
	struct harness harness;
	pthread_t thread;
	void *fine;
	uint64_t expected = 1;

	harness_start(&harness, true);
	harness.config.memory_bytes_max = 200000;
	harness_reopen(&harness);
	cr_assert_eq(pthread_create(&thread, NULL, thread_put, &harness), 0);
	while (expected <= THREAD_RECORDS) {
		uint64_t id = take(&harness);
		if (!id) {
			sched_yield();
			continue;
		}
		cr_assert_eq(id, expected);
		expected++;
		harness_stats(&harness);
	}
	cr_assert_eq(pthread_join(thread, &fine), 0);
	cr_expect(fine);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

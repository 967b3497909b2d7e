/* SPDX-License-Identifier: Apache-2.0 */
/* The spool in good health: order, marks, groups, caps, an outage of minutes and one of days. Time
 * is an argument, so nothing here waits for it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/exporter/spool_rig.h"

/* Order, figures, marks. */

Test(spool, order_and_marks_in_memory)
{
	struct rig rig;

	rig_start(&rig, false);
	cr_expect_eq(rig.mark, 0);
	expect_empty(&rig);
	put_all(&rig, 1, 5, 1000);
	cr_expect_eq(figures(&rig).records, 5);
	cr_expect_eq(figures(&rig).samples, 15);
	cr_expect_eq(figures(&rig).oldest_unix_ns, start_ns);
	expect_all(&rig, 1, 2);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 5);
	cr_expect_eq(figures(&rig).samples, 12);
	expect_all(&rig, 3, 5);
	expect_empty(&rig);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 5, "the mark outlives the records");
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

Test(spool, numbers_are_never_used_twice)
{
	struct rig rig;
	struct spool_record record = {0};
	uint64_t last = 0;

	rig_start(&rig, true);
	for (uint64_t id = 1; id <= 40; id++) {
		cr_assert_eq(put(&rig, id, 100, true), 0);
		if (id % 7 == 0)
			cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
		if (id % 5 == 0)
			rig_reopen(&rig);
		if (id % 16 == 0) { /* a new agent */
			rig_new_memory(&rig);
			rig.now += second;
			rig_reopen(&rig);
		}
		while (first(&rig, &record)) {
			cr_expect_gt(record.number, last);
			last = record.number;
			spool_done(rig.spool, record.number);
		}
	}
	rig_end(&rig);
}

Test(spool, done_is_for_the_first_only)
{
	struct rig rig;
	struct spool_record record;

	rig_start(&rig, true);
	put_all(&rig, 1, 3, 100);
	cr_expect_eq(first(&rig, &record), 1);
	spool_done(rig.spool, record.number + 1);
	spool_done(rig.spool, record.number - 1);
	cr_expect_eq(first(&rig, &record), 1);
	/* Between the two it was moved. */
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	spool_done(rig.spool, record.number);
	spool_done(rig.spool, record.number);
	expect_all(&rig, 2, 3);
	expect_empty(&rig);
	rig_end(&rig);
}

Test(spool, disk_first_then_memory)
{
	struct rig rig;

	rig_start(&rig, true);
	put_all(&rig, 1, 3, 5000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	cr_expect_eq(figures(&rig).memory_bytes, 0);
	cr_expect_gt(figures(&rig).disk_bytes, 0);
	put_all(&rig, 4, 5, 5000);
	cr_expect_eq(take(&rig), 1);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	put_all(&rig, 6, 7, 5000);
	cr_expect_eq(segments_of(&rig).count, 1, "one process fills one segment");
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 7);
	cr_expect_eq(figures(&rig).records, 6);
	cr_expect_eq(figures(&rig).samples, 27);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	expect_all(&rig, 2, 7);
	expect_empty(&rig);
	cr_expect_eq(segments_of(&rig).count, 0);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 7);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

/* The agent ends, its memory with it. */
Test(spool, the_disk_outlives_the_memory)
{
	struct rig rig;

	rig_start(&rig, true);
	put_all(&rig, 1, 10, 3000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	expect_all(&rig, 1, 4);
	rig_new_memory(&rig);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 0);
	put_all(&rig, 11, 12, 3000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	expect_all(&rig, 5, 12);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

Test(spool, groups_are_seen_whole_or_not)
{
	struct rig rig;

	rig_start(&rig, true);
	put_all(&rig, 1, 1, 1000);
	cr_assert_eq(put(&rig, 2, 1000, false), 0);
	cr_assert_eq(put(&rig, 3, 1000, false), 0);
	cr_expect_eq(figures(&rig).records, 1);
	cr_expect_eq(take(&rig), 1);
	cr_expect_eq(take(&rig), 0, "the group is not ended");
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	cr_expect_eq(figures(&rig).disk_bytes, 0);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 1);
	expect_empty(&rig);
	cr_assert_eq(put(&rig, 2, 1000, false), 0);
	cr_assert_eq(put(&rig, 3, 1000, true), 0);
	cr_assert_eq(put(&rig, 4, 1000, false), 0);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	cr_expect_eq(figures(&rig).records, 2);
	cr_assert_eq(put(&rig, 5, 1000, true), 0);
	rig_reopen(&rig);
	cr_expect_eq(rig.mark, 5);
	expect_all(&rig, 2, 5);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

Test(spool, sizes_at_their_limits)
{
	struct rig rig;
	struct spool_record record;
	uint8_t *data = NULL;

	rig_start(&rig, true);
	cr_expect_eq(put(&rig, 1, RECORD_BYTES_MAX + 1, true), -EFBIG);
	cr_expect_eq(put(&rig, 1, RECORD_BYTES_MAX, true), 0);
	cr_expect_eq(spool_put(rig.spool, NULL, 0, 3, 3, true, rig.now), 0);
	cr_expect_eq(take(&rig), 1);
	cr_assert_eq(spool_first(rig.spool, rig.now, &record, &data), 1);
	cr_expect_eq(record.bytes, 0);
	cr_expect_eq(record.samples, 3);
	free(data);
	rig_end(&rig);
}

/* Caps. */

static uint64_t memory_blocks(const struct rig *rig)
{
	struct stat st;

	cr_assert_eq(fstat(rig->memory_fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

Test(spool, memory_is_given_back)
{
	struct rig rig;

	rig_start(&rig, false);
	for (uint64_t id = 1; id <= 400; id++) {
		cr_assert_eq(put(&rig, id, 40000, true), 0);
		if (id > 10) /* never empty */
			cr_expect_eq(take(&rig), id - 10);
		cr_assert_leq(memory_blocks(&rig), 12 * 40000);
	}
	expect_all(&rig, 391, 400);
	expect_empty(&rig);
	cr_expect_leq(memory_blocks(&rig), 4096);
	rig_end(&rig);
}

Test(spool, full_memory_goes_to_the_disk)
{
	struct rig rig;

	rig_start(&rig, true);
	rig.config.memory_bytes_max = 100000;
	rig_reopen(&rig);
	for (uint64_t id = 1; id <= 100; id++) {
		cr_assert_eq(put(&rig, id, 10000, true), 0);
		cr_assert_leq(figures(&rig).memory_bytes, 100000);
	}
	cr_expect_gt(figures(&rig).disk_bytes, 500000);
	expect_all(&rig, 1, 100);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

Test(spool, full_memory_without_a_disk_drops_the_oldest)
{
	struct rig rig;
	uint64_t got = 0, last = 0;

	rig_start(&rig, false);
	rig.config.memory_bytes_max = 100000;
	rig_reopen(&rig);
	put_all(&rig, 1, 100, 10000);
	cr_expect_eq(spool_keep(rig.spool, rig.now), 0);
	cr_expect_leq(figures(&rig).memory_bytes, 100000);
	for (uint64_t id; (id = take(&rig)); last = id) {
		cr_expect(!last || id == last + 1);
		got += id;
	}
	cr_expect_eq(last, 100);
	cr_expect_gt(figures(&rig).dropped_full_samples, 0);
	cr_expect_eq(got + figures(&rig).dropped_full_samples, 5050);
	expect_empty(&rig);
	rig_end(&rig);
}

Test(spool, a_group_larger_than_the_memory)
{
	struct rig rig;

	rig_start(&rig, true);
	rig.config.memory_bytes_max = 50000;
	rig_reopen(&rig);
	put_all(&rig, 1, 1, 10000);
	cr_expect_eq(put(&rig, 2, 100000, true), -ENOSPC);
	cr_expect_eq(figures(&rig).disk_bytes, 0, "nothing is moved for what cannot be put");
	cr_expect_eq(put(&rig, 2, 30000, false), 0);
	cr_expect_eq(put(&rig, 3, 30000, false), 0);
	cr_expect_eq(put(&rig, 4, 30000, true), -ENOSPC);
	cr_expect_eq(put(&rig, 5, 100, true), 0);
	expect_all(&rig, 1, 3);
	cr_expect_eq(take(&rig), 5);
	expect_empty(&rig);
	rig_end(&rig);
}

Test(spool, full_directory_drops_the_oldest_segments)
{
	struct rig rig;
	uint64_t got = 0, last = 0;

	rig_start(&rig, true);
	rig.config.disk_bytes_max = 4 << 20; /* four segments of 1 MiB */
	rig_reopen(&rig);
	for (uint64_t id = 1; id <= 300; id++) {
		cr_assert_eq(put(&rig, id, 50000, true), 0);
		if (id % 3 == 0)
			cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
		cr_assert_leq(figures(&rig).disk_bytes, 4 << 20);
	}
	cr_expect_gt(figures(&rig).disk_bytes, 2 << 20);
	uint64_t dropped = figures(&rig).dropped_full_samples;
	cr_expect_gt(dropped, 0);
	cr_expect_eq(figures(&rig).samples + dropped, 45150);
	/* A smaller cap by the next start. */
	rig.config.disk_bytes_max = 2 << 20;
	rig_reopen(&rig);
	cr_expect_leq(figures(&rig).disk_bytes, 2 << 20);
	cr_expect_gt(figures(&rig).dropped_full_samples, 0);
	dropped += figures(&rig).dropped_full_samples;
	for (uint64_t id; (id = take(&rig)); last = id) {
		cr_expect(!last || id == last + 1);
		got += id;
	}
	cr_expect_eq(last, 300);
	cr_expect_eq(got + dropped, 45150);
	expect_empty(&rig);
	rig_end(&rig);
}

Test(spool, directories_without_any_room)
{
	const uint64_t caps[] = {0, 1, 100, 5000};

	for (size_t i = 0; i < 4; i++) {
		struct rig rig;
		rig_start(&rig, true);
		rig.config.disk_bytes_max = caps[i];
		rig_reopen(&rig);
		put_all(&rig, 1, 3, 20000);
		cr_expect_eq(spool_keep(rig.spool, rig.now), -ENOSPC);
		cr_expect_eq(figures(&rig).disk_error, ENOSPC);
		cr_expect_eq(segments_of(&rig).count, 0);
		expect_all(&rig, 1, 3);
		rig_end(&rig);
	}
}

/* Ten minutes without a backend, a request each 5 seconds, restarts in between: all of it comes. */
Test(spool, an_outage_of_ten_minutes)
{
	struct rig rig;
	uint64_t id = 0;

	rig_start(&rig, true);
	for (int i = 0; i < 120; i++) {
		rig.now += 5 * second;
		cr_assert_eq(put(&rig, ++id, 30000, true), 0);
		if (i % 6 == 0)
			cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
		if (i % 25 == 0)
			rig_reopen(&rig);
		spool_expire(rig.spool, rig.now);
		cr_expect_eq(first(&rig, &(struct spool_record){0}), 1);
	}
	expect_all(&rig, 1, 120);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

/* Two days of it: what is older than one day goes, no more and no less. */
Test(spool, an_outage_of_two_days)
{
	struct rig rig;
	uint64_t last = 0;

	rig_start(&rig, true);
	for (uint64_t id = 1; id <= 192; id++) { /* each 15 minutes */
		rig.now = start_ns + id * 900 * second;
		cr_assert_eq(put(&rig, id, 60000, true), 0);
		if (id % 4 == 0)
			cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
		spool_expire(rig.spool, rig.now);
		struct spool_figures f = figures(&rig);
		uint64_t oldest = id > 96 ? id - 96 : 1;
		cr_assert_eq(f.oldest_unix_ns, start_ns + oldest * 900 * second);
		cr_assert_eq(f.dropped_age_samples, oldest * (oldest - 1) / 2);
		cr_assert_eq(f.records, id - oldest + 1);
	}
	rig_reopen(&rig);
	for (uint64_t id = 96; id <= 192; id++, last++)
		cr_expect_eq(take(&rig), id);
	expect_empty(&rig);
	rig_end(&rig);
}

Test(spool, old_records_are_dropped_when_met)
{
	struct rig rig;

	rig_start(&rig, true);
	put_all(&rig, 1, 2, 1000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	put_all(&rig, 3, 3, 1000);
	rig.now += 86400 * second;
	put_all(&rig, 4, 4, 1000);
	cr_expect_eq(first(&rig, &(struct spool_record){0}), 1, "at the very limit");
	rig.now++;
	cr_expect_eq(take(&rig), 4);
	cr_expect_eq(figures(&rig).dropped_age_samples, 6);
	expect_empty(&rig);
	/* A clock that is put back makes nothing old. */
	put_all(&rig, 5, 5, 1000);
	rig.now = start_ns - 3600 * second;
	cr_expect_eq(take(&rig), 5);
	rig_end(&rig);
}

/* Two threads. */

enum {
	THREAD_RECORDS = 600
};

static void *thread_put(void *context)
{
	struct rig *rig = context;
	static uint8_t data[RECORD_BYTES_MAX];

	for (uint64_t id = 1; id <= THREAD_RECORDS; id++) {
		if (spool_put(rig->spool, data, contents(id, 5000, data), id, id, id % 3 == 0,
			      rig->now))
			return NULL;
		if (id % 50 == 0)
			spool_keep(rig->spool, rig->now);
		if (id % 20 == 0)
			spool_expire(rig->spool, rig->now);
	}
	return rig;
}

Test(spool, two_threads)
{
	struct rig rig;
	pthread_t thread;
	void *fine;
	uint64_t expected = 1;

	rig_start(&rig, true);
	rig.config.memory_bytes_max = 200000;
	rig_reopen(&rig);
	cr_assert_eq(pthread_create(&thread, NULL, thread_put, &rig), 0);
	while (expected <= THREAD_RECORDS) {
		uint64_t id = take(&rig);
		if (!id) {
			sched_yield();
			continue;
		}
		cr_assert_eq(id, expected);
		expected++;
		figures(&rig);
	}
	cr_assert_eq(pthread_join(thread, &fine), 0);
	cr_expect(fine);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

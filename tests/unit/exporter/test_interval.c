/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of an exporter that is killed: its journal, statistics and spool survive, and
 * everything else is lost. The spool is a list, the sender does nothing, and peer_send() records
 * the messages to the worker.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/otlp/otlp_read.h"
#include "records/records.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fake_peer.h"
#include "tests/support/set_clock.h"

enum {
	PUT_MAX = 64
};

static struct {
	uint64_t samples[PUT_MAX], marks[PUT_MAX];
	unsigned int count;
	unsigned int reset_requests;
	int result, send_result;
	bool last_refused; /* with -ENOMEM */
	bool group_open;
	uint64_t resumed; /* after which batch */
	/* Of the last request. */
	uint64_t start_ns, duration_ns, oldest_ns, newest_ns;
} seen;

/* Records the times in a request. */
static void look_at_times(const uint8_t *data, size_t length)
{
	struct profile profile;

	cr_assert_eq(profile_init(&profile, LIMIT_INTERVAL_BYTES), 0);
	cr_assert_eq(otlp_read(data, length, &profile), 0);
	seen.start_ns = profile.start_unix_ns;
	seen.duration_ns = profile.duration_ns;
	seen.oldest_ns = UINT64_MAX;
	seen.newest_ns = 0;
	for (uint32_t i = 0; i < profile.times_count; i++) {
		const uint64_t ns = profile.times[i].time_ns;

		seen.oldest_ns = ns < seen.oldest_ns ? ns : seen.oldest_ns;
		seen.newest_ns = ns > seen.newest_ns ? ns : seen.newest_ns;
	}
	profile_fini(&profile);
}

int spool_put(struct spool *spool, const uint8_t *data, size_t length, uint64_t samples,
	      uint64_t mark, bool ends_group, struct spool_now now)
{
	(void)spool;
	cr_expect(length > 0 && now.unix_ns > 0);
	if (seen.last_refused && ends_group)
		return -ENOMEM;
	if (seen.result < 0)
		return seen.result;
	cr_assert_lt(seen.count, (unsigned int)PUT_MAX);
	look_at_times(data, length);
	seen.samples[seen.count] = samples;
	seen.marks[seen.count++] = mark;
	seen.group_open = !ends_group;
	return 0;
}

int spool_end_group(struct spool *spool, uint64_t mark)
{
	(void)spool;
	cr_expect(mark > 0);
	seen.group_open = false;
	return 0;
}

void spool_stats(struct spool *spool, struct spool_stats *stats)
{
	(void)spool;
	*stats = (struct spool_stats){0};
}

void sender_wake(struct sender *sender)
{
	(void)sender;
}

static int on_send(enum message_type type, const void *payload, size_t length)
{
	struct msg_resume resume;

	if (seen.send_result < 0)
		return seen.send_result;
	if (type == MESSAGE_RESUME) {
		cr_assert_eq(length, sizeof(resume));
		memcpy(&resume, payload, sizeof(resume));
		seen.resumed = resume.sequence;
		return 0;
	}
	cr_expect(type == MESSAGE_RESET_REQUEST && length == 0);
	seen.reset_requests++;
	return 0;
}

FAKE_PEER(on_send);
FAILING_MEMORY;
SET_CLOCK;

static uint64_t put_samples(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < seen.count; i++)
		sum += seen.samples[i];
	return sum;
}

/* The files and memory that survive an exporter. */
struct kept {
	struct export_stats stats;
	int journal;
};

static struct otlp_exporter *exporter_new(struct kept *kept, uint64_t mark)
{
	struct otlp_exporter *e = calloc(1, sizeof(*e));

	e->stats = &kept->stats;
	e->journal = (struct journal){.fd = kept->journal, .bytes = &kept->stats.journal_bytes};
	e->config.report_interval_ns = 5000000000u;
	e->config.request_bytes_max = 1 << 20;
	e->base = kept->stats;
	cr_assert_eq(aggregate_init(&e->aggregate, LIMIT_INTERVAL_BYTES), 0);
	e->aggregate.detailed = true;
	e->aggregate.profile.period_ns = 50000000;
	cr_assert_eq(interval_recover(e, mark), 0);
	return e;
}

/* Kills the exporter. */
static void exporter_kill(struct otlp_exporter *e)
{
	aggregate_fini(&e->aggregate);
	free(e);
}

#define RUN(n) ((uint64_t)(n) << 32)

/* Sends a batch with this many samples, one per ns. The first batch of a worker contains all
 * definitions. */
static void send_batch(struct otlp_exporter *e, const struct record_head *head,
		       unsigned int samples, uint64_t time_ns)
{
	struct records *records = records_new();
	const uint32_t frame = 1;
	size_t length;

	if (head->reset) {
		records_add_function(records,
				     &(struct record_function){1, "work", "", 0, false, ""});
		records_add_frame(records, &(struct record_frame){.id = 1, .function = 1});
		records_add_stack(records, &(struct record_stack){1, 0, &frame, 1, 0});
		records_add_process(records, &(struct record_process){.id = 1,
								      .tgid = 42,
								      .comm = "c",
								      .path = "/c",
								      .container_id = "",
								      .service_name = ""});
		records_add_thread(records, &(struct record_thread){1, 1, 42, "c"});
	}
	for (unsigned int i = 0; i < samples; i++)
		records_add_sample(records, &(struct record_sample){time_ns + i, 1, 1, i % 2, 0});
	const uint8_t *data = records_finish(records, head, &length);
	cr_assert_eq(interval_on_batch(e, data, length), 0);
	records_free(records);
}

static void batch_after(struct otlp_exporter *e, uint64_t sequence, uint64_t position, bool first,
			unsigned int samples)
{
	const struct record_head head = {
	    .sequence = sequence, .position = position, .reset = first};

	send_batch(e, &head, samples, 1000000000);
}

/* In the following, none is missing before the batch. */
static void batch_at(struct otlp_exporter *e, uint64_t sequence, bool first, unsigned int samples,
		     uint64_t time_ns)
{
	const struct record_head head = {
	    .sequence = sequence, .position = e->stats->position, .reset = first};

	send_batch(e, &head, samples, time_ns);
}

static void batch(struct otlp_exporter *e, uint64_t sequence, bool first, unsigned int samples)
{
	batch_at(e, sequence, first, samples, 1000000000);
}

static struct kept kept_new(void)
{
	memset(&seen, 0, sizeof(seen));
	return (struct kept){.journal = memfd_create("journal", MFD_CLOEXEC)};
}

static void expect_balance(const struct kept *kept)
{
	const struct export_stats *l = &kept->stats;

	cr_expect_eq(l->received, l->committed_samples + l->interval_samples);
	cr_expect_eq(l->put, l->committed_samples);
	cr_expect_eq(l->lost.lost[LOSS_PROFILE_FULL], 0);
}

Test(interval, commit_moves_samples_to_the_spool)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	batch(e, RUN(7) + 2, false, 5);
	cr_expect_eq(kept.stats.interval_samples, 15);
	interval_commit(e);
	cr_expect_eq(put_samples(), 15);
	cr_expect_eq(seen.marks[0], RUN(7) + 2);
	/* An interval without samples gives no request. */
	interval_commit(e);
	cr_expect_eq(seen.count, 1);
	batch(e, RUN(7) + 3, false, 1);
	interval_commit(e);
	cr_expect_eq(put_samples(), 16);
	expect_balance(&kept);
	exporter_kill(e);
}

Test(interval, request_without_memory_for_the_spool_is_lost_with_that_reason)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	seen.result = -ENOMEM;
	interval_commit(e);
	cr_expect_eq(kept.stats.lost.lost[LOSS_EXPORTER_MEMORY], 10);
	cr_expect_eq(e->unspooled, 0);
	cr_expect_eq(kept.stats.put, 0, "it never was in the spool");
	batch(e, RUN(7) + 2, false, 4);
	seen.result = -ENOSPC;
	interval_commit(e);
	cr_expect_eq(kept.stats.lost.lost[LOSS_EXPORTER_MEMORY], 10);
	cr_expect_eq(e->unspooled, 4);
	cr_expect_eq(kept.stats.put, 4);
	exporter_kill(e);
}

/* The requests before it would otherwise be lost without a count if the exporter is killed then. */
Test(interval, requests_before_one_without_memory_are_in_the_spool)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	e->config.request_bytes_max = 1000;
	batch(e, RUN(7) + 1, true, 90);
	seen.last_refused = true;
	interval_commit(e);
	cr_expect_gt(seen.count, 0);
	cr_expect_gt(kept.stats.lost.lost[LOSS_EXPORTER_MEMORY], 0);
	cr_expect_eq(put_samples() + kept.stats.lost.lost[LOSS_EXPORTER_MEMORY], 90);
	cr_expect_not(seen.group_open);
	exporter_kill(e);
}

Test(interval, interval_without_memory_to_encode_it_is_lost_with_that_reason)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	failing_memory.calloc = true;
	interval_commit(e);
	failing_memory.calloc = false;
	cr_expect_eq(kept.stats.lost.lost[LOSS_EXPORTER_MEMORY], 10);
	cr_expect_eq(kept.stats.lost.lost[LOSS_TOO_LARGE], 0);
	batch(e, RUN(7) + 2, false, 4);
	interval_commit(e);
	cr_expect_eq(put_samples(), 4);
	exporter_kill(e);
}

Test(interval, a_killed_exporter_loses_nothing)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	interval_commit(e);
	batch(e, RUN(7) + 2, false, 5);
	exporter_kill(e);
	e = exporter_new(&kept, seen.marks[0]);
	cr_expect_eq(kept.stats.interval_samples, 5);
	cr_expect_eq(kept.stats.received_sequence, RUN(7) + 2);
	/* A batch that the worker sends again has no effect, and later batches may refer to old
	 * definitions. */
	batch(e, RUN(7) + 2, false, 5);
	batch(e, RUN(7) + 3, false, 3);
	interval_commit(e);
	cr_expect_eq(put_samples(), 18);
	expect_balance(&kept);
	exporter_kill(e);
}

/* The last exporter was killed while the first batch of another worker, before which 7 are missing,
 * made it commit the interval. */
Test(interval, what_is_missing_is_counted_once)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch_after(e, RUN(7) + 1, 0, true, 10);
	kept.stats.position = 17;
	kept.stats.lost.lost[LOSS_ROLE_ENDED] = 7;
	exporter_kill(e);
	e = exporter_new(&kept, 0);
	batch_after(e, RUN(8) + 1, 17, true, 4);
	cr_expect_eq(kept.stats.lost.lost[LOSS_ROLE_ENDED], 7);
	exporter_kill(e);
}

/* The last exporter was short of memory, and has counted as lost what this one finds in the
 * journal. */
Test(interval, what_is_taken_again_is_not_lost)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	interval_commit(e);
	const struct msg_losses committed = kept.stats.lost;
	batch(e, RUN(7) + 2, false, 5);
	/* As if 3 of the 5 had been lost. */
	kept.stats.lost.lost[LOSS_EXPORTER_MEMORY] += 3;
	kept.stats.interval_lost.lost[LOSS_EXPORTER_MEMORY] += 3;
	exporter_kill(e);
	e = exporter_new(&kept, seen.marks[0]);
	cr_expect_eq(kept.stats.interval_samples, 5);
	cr_expect_arr_eq(&kept.stats.lost, &committed, sizeof(committed));
	interval_commit(e);
	cr_expect_eq(put_samples(), 15);
	expect_balance(&kept);
	exporter_kill(e);
}

/* The spool has the interval, but the statistics do not say so yet. */
Test(interval, killed_between_the_spool_and_the_statistics)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	const struct export_stats before = kept.stats;
	interval_commit(e);
	const uint64_t mark = seen.marks[0];
	kept.stats = before;
	exporter_kill(e);
	e = exporter_new(&kept, mark);
	cr_expect_eq(kept.stats.interval_samples, 0);
	cr_expect_eq(kept.stats.put, 10);
	interval_commit(e);
	cr_expect_eq(put_samples(), 10);
	expect_balance(&kept);
	exporter_kill(e);
}

Test(interval, another_worker_starts_with_empty_definitions)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	batch(e, RUN(7) + 9, false, 10);
	exporter_kill(e);
	e = exporter_new(&kept, 0);
	/* The other worker's sequence number may be smaller or larger. */
	batch(e, RUN(3) + 1, true, 4);
	cr_expect_eq(put_samples(), 20, "what was there is committed first");
	exporter_kill(e);
	e = exporter_new(&kept, seen.marks[0]);
	cr_expect_eq(kept.stats.interval_samples, 4);
	batch(e, RUN(9) + 1, true, 2);
	cr_expect_eq(put_samples(), 24);
	interval_commit(e);
	cr_expect_eq(put_samples(), 26);
	expect_balance(&kept);
	exporter_kill(e);
}

Test(interval, asks_for_a_reset_when_definitions_take_too_much)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);
	unsigned int sequence = 1;

	batch(e, RUN(7) + sequence++, true, 1);
	while (!seen.reset_requests) {
		batch(e, RUN(7) + sequence++, false, 1000);
		cr_assert_lt(sequence, 10000u);
	}
	cr_expect_leq(e->aggregate.profile.bytes, 2u * LIMIT_DICTIONARY_BYTES);
	batch(e, RUN(7) + sequence++, false, 1000);
	cr_expect_eq(seen.reset_requests, 1, "once");
	batch(e, RUN(7) + sequence++, true, 1);
	cr_expect_leq(kept.stats.journal_bytes, 1000u);
	interval_commit(e);
	cr_expect_eq(put_samples(), kept.stats.received);
	expect_balance(&kept);
	exporter_kill(e);
}

/* A spool that refuses everything: the loss is counted, and the next interval starts. */
Test(interval, samples_are_lost_if_the_spool_is_full)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	seen.result = -ENOSPC;
	interval_commit(e);
	cr_expect_eq(e->unspooled, 10);
	seen.result = 0;
	batch(e, RUN(7) + 2, false, 3);
	interval_commit(e);
	cr_expect_eq(put_samples(), 3);
	expect_balance(&kept);
	exporter_kill(e);
}

Test(interval, a_damaged_journal_is_discarded)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	batch(e, RUN(7) + 1, true, 10);
	exporter_kill(e);
	cr_assert_eq(pwrite(kept.journal, "forged forged forged forged", 27, 40), 27);
	e = exporter_new(&kept, 0);
	cr_expect_eq(kept.stats.journal_bytes, 0);
	batch(e, RUN(7) + 2, true, 3);
	interval_commit(e);
	cr_expect_eq(put_samples(), 3);
	exporter_kill(e);
}

Test(interval, a_worker_continues_after_the_last_batch)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	cr_expect_eq(interval_resume(e), 0);
	cr_expect_eq(seen.resumed, 0);
	batch(e, RUN(1) + 1, true, 10);
	batch(e, RUN(1) + 2, false, 10);
	cr_expect_eq(interval_resume(e), 0);
	cr_expect_eq(seen.resumed, RUN(1) + 2);
	cr_expect_eq(seen.reset_requests, 0);
	exporter_kill(e);
}

Test(interval, an_empty_journal_after_batches_requests_all_definitions)
{
	struct kept kept = kept_new();

	kept.stats.received_sequence = RUN(1) + 7;
	struct otlp_exporter *e = exporter_new(&kept, 0);
	cr_expect_eq(interval_resume(e), 0);
	cr_expect_eq(seen.resumed, RUN(1) + 7);
	cr_expect_eq(seen.reset_requests, 1);
	exporter_kill(e);
}

Test(interval, a_worker_that_cannot_be_asked_is_reported)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	seen.send_result = -ENOBUFS;
	cr_expect_eq(interval_resume(e), -ENOBUFS);
	exporter_kill(e);
}

Test(interval, samples_of_a_worker_that_has_ended_are_counted)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	kept.stats.taken_before = 100;
	batch_after(e, RUN(1) + 1, 0, true, 10);
	batch_after(e, RUN(1) + 2, 10, false, 10);
	cr_expect_eq(kept.stats.lost.lost[LOSS_ROLE_ENDED], 0);
	/* The next worker. Five were in the batch that the last one was collecting. Sent again. */
	batch_after(e, RUN(2) + 1, 25, true, 10);
	batch_after(e, RUN(2) + 1, 25, true, 10);
	batch_after(e, RUN(2) + 2, 35, false, 10);
	cr_expect_eq(kept.stats.lost.lost[LOSS_ROLE_ENDED], 5);
	cr_expect_eq(kept.stats.received, 40);
	exporter_kill(e);
	/* The next exporter replays the journal. Its worker has dropped what was sent meanwhile. */
	e = exporter_new(&kept, 0);
	batch_after(e, RUN(2) + 4, 52, true, 10);
	cr_expect_eq(kept.stats.lost.lost[LOSS_ROLE_ENDED], 12);
	/* Another loader: nothing is known about what is missing. */
	batch_after(e, RUN(3) + 1, 0, true, 10);
	batch_after(e, RUN(3) + 2, 101, true, 10); /* more than there are */
	cr_expect_eq(kept.stats.lost.lost[LOSS_ROLE_ENDED], 12);
	exporter_kill(e);
}

/* Sends an interval of four samples, a microsecond apart, and sets the clock `steps` times
 * after each. Returns when the first one was taken. */
static uint64_t interval_with_clock_changes(struct otlp_exporter *e, bool first, int steps,
					    int64_t step_ns)
{
	static uint64_t sequence = RUN(7);
	const uint64_t taken_ns = clock_monotonic_ns() - 4000;

	for (unsigned int i = 0; i < 4; i++) {
		batch_at(e, ++sequence, first && !i, 1, taken_ns + 1000 * i);
		for (int step = 0; step < steps; step++)
			set_clock_by_ns += step_ns;
	}
	interval_commit(e);
	return taken_ns;
}

/* The times of an interval are what the clock showed at its end, also of samples that were
 * received before it was set. So nothing is stretched, and all times are right from the
 * next interval on. */
static void expect_times(uint64_t taken_ns)
{
	const uint64_t offset_ns = clock_read_ns(CLOCK_REALTIME) - clock_monotonic_ns();

	/* Between the two clocks this test may have waited for a CPU; so may the exporter. */
	cr_expect_eq(seen.newest_ns - seen.oldest_ns, 3000);
	cr_expect_leq(llabs((int64_t)(seen.oldest_ns - taken_ns - offset_ns)),
		      (int64_t)(10 * NS_PER_S));
	cr_expect_leq(seen.start_ns, seen.oldest_ns);
	cr_expect_gt(seen.start_ns + seen.duration_ns, seen.newest_ns);
	cr_expect_lt(seen.duration_ns, 60 * NS_PER_S, "%lu ns", (unsigned long)seen.duration_ns);
}

Test(interval, a_clock_that_is_set_does_not_change_durations)
{
	const struct {
		int steps;
		int64_t step_ns;
	} changes[] = {
	    {0, 0},
	    {1, 3600 * (int64_t)NS_PER_S},	       /* forward */
	    {1, -3600 * (int64_t)NS_PER_S},	       /* back, again and again */
	    {1, 20 * 86400 * 365 * (int64_t)NS_PER_S}, /* a clock that was not set yet */
	    {1000, -2 * (int64_t)NS_PER_MS},	       /* many small steps */
	    {1000, 500},			       /* slewed, at adjtime's 500 us per second */
	};
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		expect_times(
		    interval_with_clock_changes(e, !i, changes[i].steps, changes[i].step_ns));
	expect_balance(&kept);
	exporter_kill(e);
}

/* The journal holds times of CLOCK_MONOTONIC, so a successor gives them the time that its
 * own clock shows. */
Test(interval, a_successor_after_a_clock_change_has_right_times)
{
	struct kept kept = kept_new();
	struct otlp_exporter *e = exporter_new(&kept, 0);
	const uint64_t taken_ns = clock_monotonic_ns() - 4000;

	for (unsigned int i = 0; i < 4; i++)
		batch_at(e, RUN(7) + 1 + i, !i, 1, taken_ns + 1000 * i);
	exporter_kill(e);
	set_clock_by_ns = -3600 * (int64_t)NS_PER_S;
	e = exporter_new(&kept, 0);
	interval_commit(e);
	cr_expect_eq(put_samples(), 4);
	expect_times(taken_ns);
	exporter_kill(e);
}

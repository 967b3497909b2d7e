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

#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "records/records.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fake_peer.h"

enum {
	PUT_MAX = 64
};

static struct {
	uint64_t samples[PUT_MAX], marks[PUT_MAX];
	unsigned int count;
	unsigned int reset_requests;
	int result;
} seen;

int spool_put(struct spool *spool, const uint8_t *data, size_t length, uint64_t samples,
	      uint64_t mark, bool ends_group, uint64_t now_unix_ns)
{
	(void)spool;
	(void)data;
	(void)ends_group;
	cr_expect(length > 0 && now_unix_ns > 0);
	if (seen.result < 0)
		return seen.result;
	cr_assert_lt(seen.count, (unsigned int)PUT_MAX);
	seen.samples[seen.count] = samples;
	seen.marks[seen.count++] = mark;
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
	(void)payload;
	cr_expect(type == MESSAGE_RESET_REQUEST && length == 0);
	seen.reset_requests++;
	return 0;
}

FAKE_PEER(on_send);
FAILING_MEMORY;

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

/* Sends a batch with this many samples. The first batch of a worker contains all definitions. */
static void batch(struct otlp_exporter *e, uint64_t sequence, bool first, unsigned int samples)
{
	struct records *records = records_new();
	const uint32_t frame = 1;
	size_t length;

	if (first) {
		records_add_function(records, &(struct record_function){1, "work", "", 0, false});
		records_add_frame(records, &(struct record_frame){.id = 1, .function = 1});
		records_add_stack(records, &(struct record_stack){1, 0, &frame, 1});
		records_add_process(records, &(struct record_process){.id = 1,
								      .tgid = 42,
								      .comm = "c",
								      .path = "/c",
								      .container_id = "",
								      .service_name = ""});
		records_add_thread(records, &(struct record_thread){1, 1, 42, "c"});
	}
	for (unsigned int i = 0; i < samples; i++)
		records_add_sample(records,
				   &(struct record_sample){1000000000ull + i, 1, 1, i % 2});
	const uint8_t *data = records_finish(records, sequence, first, &length);
	cr_assert_eq(interval_on_batch(e, data, length), 0);
	records_free(records);
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

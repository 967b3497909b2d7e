/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. Batches of the worker are aggregated into one profile until the report interval
 * is over. Then the interval is committed: the samples are encoded into requests, the requests are
 * put into the spool as one group, and the sequence number of the last batch is stored. Definitions
 * stay, since the next interval refers to most of them.
 *
 * A killed exporter loses nothing, because each batch is first appended to the journal. Its
 * successor replays the journal: definitions of all batches, samples only of those that were not
 * committed.
 *
 * Example: the worker sends the batches 7, 8 and 9 with 10 samples each. After 8 the interval is
 * committed: 20 samples are in the spool, and committed_sequence is 8. The exporter is killed
 * after 9. The next one reads committed_sequence = 8, replays 7 and 8 for their definitions and 9
 * with its samples, and asks the worker to continue after 9. If the exporter was killed between the
 * spool's write and that of committed_sequence, the group's mark in the spool says 8, and the mark
 * counts.
 *
 * Sequence numbers: the upper half identifies the worker, the lower half counts its batches.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/incomplete_reasons.h"
#include "common/log.h"
#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "ipc/losses.h"
#include "records/records.h"

enum {
	/* Percent of the report interval by which it is shortened or extended at random, so that
	 * the hosts of a fleet do not report at the same time. */
	INTERVAL_JITTER_PERCENT = 20,
};

/* Returns whether two batches are of the same worker. Only these have an order. */
static bool is_same_worker(uint64_t a, uint64_t b)
{
	return a >> 32 == b >> 32;
}

static bool is_up_to(uint64_t sequence, uint64_t last)
{
	return is_same_worker(sequence, last) && sequence <= last;
}

/* Returns a random number from 0 to `range` - 1. */
static uint64_t chance_of(uint64_t range)
{
	return range ? (uint64_t)random() % range : 0;
}

static void interval_start(struct otlp_exporter *e)
{
	const uint64_t length = e->config.report_interval_ns;
	const uint64_t jitter = length / 100 * INTERVAL_JITTER_PERCENT;

	e->interval_start_ns = clock_monotonic_ns();
	e->report_due_ns = e->interval_start_ns + length - jitter + chance_of(2 * jitter);
}

static int put_request(void *context, const struct otlp_request *request)
{
	struct otlp_exporter *e = context;
	int r = spool_put(e->spool, request->data, request->length, request->samples,
			  e->stats->received_sequence, request->last, spool_now());

	if (r < 0)
		log_warning("the spool has no room for a request, its samples are lost: "
			    "samples=%llu error=%s",
			    (unsigned long long)request->samples, strerror(-r));
	if (r == -ENOMEM) {
		e->stats->lost.lost[LOSS_EXPORTER_MEMORY] += request->samples;
		return 0;
	}
	if (r < 0)
		e->unspooled += request->samples;
	e->stats->put += request->samples;
	return 0;
}

/* Returns how many samples put_request() was given, including those that were lost there. */
static uint64_t encoded_samples(const struct otlp_exporter *e)
{
	return e->stats->put + e->stats->lost.lost[LOSS_EXPORTER_MEMORY];
}

static void interval_encode(struct otlp_exporter *e)
{
	struct profile *profile = &e->aggregate.profile;
	const struct otlp_encode_options options = {
	    .attributes = e->resource,
	    .attribute_count = e->resource_count,
	    .request_bytes_max = e->config.request_bytes_max,
	};
	const uint64_t before = encoded_samples(e);
	uint64_t too_large = 0;

	aggregate_set_real_time(&e->aggregate, e->interval_start_ns,
				clock_monotonic_ns() - e->interval_start_ns);
	int r = otlp_encode(profile, &options, put_request, e, &too_large);
	/* The last request may be missing. */
	spool_end_group(e->spool, e->stats->received_sequence);
	if (r < 0) {
		const uint64_t lost = profile->sample_count - (encoded_samples(e) - before);

		log_error("cannot encode a report interval, its samples are lost: "
			  "samples=%llu error=%s",
			  (unsigned long long)lost, strerror(-r));
		e->stats->lost.lost[r == -ENOMEM ? LOSS_EXPORTER_MEMORY : LOSS_TOO_LARGE] += lost;
		return;
	}
	e->stats->lost.lost[LOSS_TOO_LARGE] += too_large;
}

void interval_commit(struct otlp_exporter *e)
{
	if (e->aggregate.profile.sample_count) {
		interval_encode(e);
		profile_clear_samples(&e->aggregate.profile);
		stats_update_spool(e);
		sender_wake(e->sender);
	}
	e->stats->committed_sequence = e->stats->received_sequence;
	e->stats->committed_samples = e->stats->received;
	e->stats->interval_samples = 0;
	e->stats->interval_lost = (struct msg_losses){0};
	interval_start(e);
}

/* Commits the interval and asks the worker for a reset if the profile or the journal takes too much
 * memory. With the reset both become empty, and the worker sends all definitions again. */
static void interval_bound(struct otlp_exporter *e)
{
	if (e->aggregate.profile.bytes <= LIMIT_DICTIONARY_BYTES &&
	    e->stats->journal_bytes <= LIMIT_JOURNAL_BYTES)
		return;
	interval_commit(e);
	if (!e->reset_requested)
		peer_send(&e->role.peers[ROLE_WORKER], MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0);
	e->reset_requested = true;
}

/* Adds what the aggregate has lost since `before`. */
static void add_lost_since(const struct aggregate *a, const struct msg_losses *before,
			   struct msg_losses *lost)
{
	for (int i = 0; i < LOSS_COUNT; i++)
		lost->lost[i] += a->losses.lost[i] - before->lost[i];
}

/* Aggregates a batch and updates the statistics. */
static int interval_take(struct otlp_exporter *e, const uint8_t *data, size_t length)
{
	struct aggregate *a = &e->aggregate;
	const uint64_t seen = aggregate_samples(a);
	const struct msg_losses before = a->losses;

	int r = aggregate_batch(a, data, length);
	e->stats->received += aggregate_samples(a) - seen;
	e->stats->interval_samples = a->profile.sample_count;
	add_lost_since(a, &before, &e->stats->lost);
	add_lost_since(a, &before, &e->stats->interval_lost);
	for (int i = 0; i < INCOMPLETE_COUNT; i++)
		e->stats->incomplete[i] = e->base.incomplete[i] + a->incomplete[i];
	return r;
}

/* Counts the samples in batches that are missing before this one: those of a worker that has ended,
 * or that it has dropped because an exporter was missing; and goes on at the position of this one.
 * After a restart of the loader the workers count from 0 again. If this exporter is killed before
 * it has taken the batch, the next one gets the batch again, and must not count them again. A
 * worker that was taken over may leave a position to the next one that cannot be right. Then what
 * is missing is only counted at the end. */
static void interval_count_missing(struct otlp_exporter *e, const struct record_head *head)
{
	const uint64_t expected = e->stats->position;

	e->stats->position = head->position;
	if (head->position <= expected)
		return;
	stats_update_kernel(e);
	if (head->position <= e->stats->taken_before + e->stats->taken)
		e->stats->lost.lost[LOSS_ROLE_ENDED] += head->position - expected;
}

int interval_on_batch(struct otlp_exporter *e, const uint8_t *data, size_t length)
{
	struct record_head head;

	int r = records_head(data, length, &head);
	if (r < 0)
		return r;
	if (is_up_to(head.sequence, e->stats->received_sequence))
		return 0; /* it was sent again: the worker did not know that it had arrived */
	interval_count_missing(e, &head);
	if (head.reset) {
		interval_commit(e);
		journal_clear(&e->journal);
		e->reset_requested = false;
		r = aggregate_reset(&e->aggregate);
		if (r < 0)
			return r;
	}
	r = journal_append(&e->journal, data, length);
	if (r < 0)
		log_warning("cannot write the journal, so the samples of this interval are lost if "
			    "the exporter is killed: error=%s",
			    strerror(-r));
	const uint64_t before = e->stats->received;
	e->stats->received_sequence = head.sequence;
	r = interval_take(e, data, length);
	e->stats->position += e->stats->received - before;
	interval_bound(e);
	return r;
}

int interval_resume(struct otlp_exporter *e)
{
	const struct msg_resume resume = {.sequence = e->stats->received_sequence};
	struct peer *worker = &e->role.peers[ROLE_WORKER];

	e->reset_requested = false;
	int r = peer_send(worker, MESSAGE_RESUME, &resume, sizeof(resume), NULL, 0);
	if (!r && resume.sequence && !e->stats->journal_bytes)
		r = peer_send(worker, MESSAGE_RESET_REQUEST, NULL, 0, NULL, 0);
	return r;
}

struct recovery {
	struct otlp_exporter *exporter;
	uint64_t committed; /* samples up to this batch are in the spool or delivered */
	uint64_t samples;   /* of batches after the stored committed_sequence */
	uint64_t uncommitted;
	struct msg_losses lost; /* of the uncommitted ones */
};

static int recover_batch(void *context, const uint8_t *data, size_t length)
{
	struct recovery *recovery = context;
	struct otlp_exporter *e = recovery->exporter;
	struct aggregate *a = &e->aggregate;
	struct record_head head;

	int r = records_head(data, length, &head);
	if (r < 0)
		return r;
	const uint64_t sequence = head.sequence, before = aggregate_samples(a);
	const struct msg_losses lost_before = a->losses;
	a->definitions_only = is_up_to(sequence, recovery->committed);
	r = aggregate_batch(a, data, length);
	a->definitions_only = false;
	const uint64_t samples = aggregate_samples(a) - before;
	e->stats->received_sequence = sequence;
	/* What was missing before the next batch may have been counted already. */
	if (e->stats->position < head.position + samples)
		e->stats->position = head.position + samples;
	if (!is_up_to(sequence, e->stats->committed_sequence))
		recovery->samples += samples;
	if (!is_up_to(sequence, recovery->committed)) {
		recovery->uncommitted += samples;
		add_lost_since(a, &lost_before, &recovery->lost);
	}
	return r;
}

/* Replaces what the last exporter has lost of the interval by what is lost now that it is taken
 * again. If the spool had the interval, its losses stay. */
static void recover_losses(struct export_stats *stats, const struct recovery *recovery)
{
	const bool again = recovery->committed == stats->committed_sequence;

	for (int i = 0; i < LOSS_COUNT && again; i++)
		stats->lost.lost[i] -= stats->interval_lost.lost[i];
	losses_add(&stats->lost, &recovery->lost);
	stats->interval_lost = recovery->lost;
}

int interval_recover(struct otlp_exporter *e, uint64_t mark)
{
	struct export_stats *stats = e->stats;
	struct recovery recovery = {.exporter = e, .committed = stats->committed_sequence};

	/* The last exporter may have been killed after it put the interval into the spool and
	 * before it stored the sequence number. */
	if (is_same_worker(mark, stats->received_sequence) && !is_up_to(mark, recovery.committed))
		recovery.committed = mark;
	interval_start(e);
	int r = journal_replay(&e->journal, recover_batch, &recovery);
	if (r < 0) {
		log_error("cannot read the journal of the previous exporter; its samples that are "
			  "not in the spool yet are lost: error=%s",
			  strerror(-r));
		journal_clear(&e->journal);
		return aggregate_reset(&e->aggregate);
	}
	recover_losses(stats, &recovery);
	stats->received = stats->committed_samples + recovery.samples;
	stats->put += recovery.samples - recovery.uncommitted;
	stats->committed_samples += recovery.samples - recovery.uncommitted;
	stats->committed_sequence = recovery.committed;
	stats->interval_samples = recovery.uncommitted;
	if (stats->journal_bytes)
		log_info("recovered the samples of the previous exporter that were not in the "
			 "spool yet: samples=%llu",
			 (unsigned long long)recovery.uncommitted);
	return 0;
}

void interval_tick(struct otlp_exporter *e, uint64_t now_ns)
{
	if (now_ns >= e->report_due_ns)
		interval_commit(e);
}

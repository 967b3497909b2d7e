/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what the kernel side, the spool and the sender report into the shared statistics. */
#include <string.h>

#include "exporter/delivery/agent.h"

void stats_update_kernel(struct otlp_exporter *e)
{
	e->stats->taken = counters_sum(&e->counters, MSG_COUNTER_TAKEN);
	e->stats->lost_kernel.lost[LOSS_RING_FULL] =
	    counters_sum(&e->counters, MSG_COUNTER_LOST_RING_FULL);
}

void stats_update_spool(struct otlp_exporter *e)
{
	struct export_stats *stats = e->stats;
	const uint64_t *before = e->base.lost.lost;
	struct spool_stats f;

	spool_stats(e->spool, &f);
	stats->waiting = f.samples;
	stats->waiting_in_memory = f.memory_samples;
	stats->waiting_records = f.records;
	stats->spool_memory_bytes = f.memory_bytes;
	stats->spool_disk_bytes = f.disk_bytes;
	stats->oldest_unix_ns = f.oldest_unix_ns;
	stats->damaged_records = e->base.damaged_records + f.damaged_records;
	stats->spool_error = (uint64_t)f.disk_error;
	stats->lost.lost[LOSS_SPOOL_FULL] =
	    before[LOSS_SPOOL_FULL] + f.dropped_full_samples + e->unspooled;
	stats->lost.lost[LOSS_SPOOL_AGE] = before[LOSS_SPOOL_AGE] + f.dropped_age_samples;
	stats->lost.lost[LOSS_SPOOL_DAMAGED] = before[LOSS_SPOOL_DAMAGED] + f.damaged_samples;
}

void stats_on_sender(void *context, const struct sender_stats *f)
{
	struct otlp_exporter *e = context;
	struct export_stats *stats = e->stats;
	const struct export_stats *before = &e->base;

	stats->delivered = before->delivered + f->delivered_samples;
	stats->delivered_requests = before->delivered_requests + f->delivered_requests;
	stats->delivered_bytes = before->delivered_bytes + f->delivered_bytes;
	stats->lost.lost[LOSS_REFUSED] = before->lost.lost[LOSS_REFUSED] + f->refused_samples;
	stats->refused_requests = before->refused_requests + f->refused_requests;
	stats->partial_requests = before->partial_requests + f->partial_requests;
	stats->rejected_profiles = before->rejected_profiles + f->rejected_profiles;
	stats->attempts = before->attempts + f->attempts;
	stats->failures = before->failures + f->failures;
	if (f->last_success_boot_ns)
		stats->last_success_boot_ns = f->last_success_boot_ns;
	stats->next_attempt_boot_ns = f->next_attempt_boot_ns;
	if (f->last_failure_boot_ns) {
		stats->last_failure_boot_ns = f->last_failure_boot_ns;
		stats->last_code = (uint64_t)f->last_code;
		memcpy(stats->last_message, f->last_message, sizeof(stats->last_message));
	}
	stats_update_spool(e);
}

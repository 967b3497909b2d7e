/* SPDX-License-Identifier: Apache-2.0 */
/* Into the ledger: what kernel side, spool and sender tell. */
#include <string.h>

#include "exporter/delivery/agent.h"

void figures_kernel(struct otlp_exporter *e)
{
	e->ledger->taken = counters_sum(&e->counters, MSG_COUNTER_TAKEN);
	e->ledger->lost_kernel.lost[LOSS_RING_FULL] =
	    counters_sum(&e->counters, MSG_COUNTER_LOST_RING_FULL);
}

void figures_spool(struct otlp_exporter *e)
{
	struct export_stats *ledger = e->ledger;
	const uint64_t *before = e->base.lost.lost;
	struct spool_figures f;

	spool_figures(e->spool, &f);
	ledger->waiting = f.samples;
	ledger->waiting_in_memory = f.memory_samples;
	ledger->waiting_records = f.records;
	ledger->spool_memory_bytes = f.memory_bytes;
	ledger->spool_disk_bytes = f.disk_bytes;
	ledger->oldest_unix_ns = f.oldest_unix_ns;
	ledger->damaged_records = e->base.damaged_records + f.damaged_records;
	ledger->spool_error = (uint64_t)f.disk_error;
	ledger->lost.lost[LOSS_SPOOL_FULL] =
	    before[LOSS_SPOOL_FULL] + f.dropped_full_samples + e->unspooled;
	ledger->lost.lost[LOSS_SPOOL_AGE] = before[LOSS_SPOOL_AGE] + f.dropped_age_samples;
	ledger->lost.lost[LOSS_SPOOL_DAMAGED] = before[LOSS_SPOOL_DAMAGED] + f.damaged_samples;
}

void figures_on_sender(void *context, const struct sender_figures *f)
{
	struct otlp_exporter *e = context;
	struct export_stats *ledger = e->ledger;
	const struct export_stats *before = &e->base;

	ledger->delivered = before->delivered + f->delivered_samples;
	ledger->delivered_requests = before->delivered_requests + f->delivered_requests;
	ledger->delivered_bytes = before->delivered_bytes + f->delivered_bytes;
	ledger->lost.lost[LOSS_REFUSED] = before->lost.lost[LOSS_REFUSED] + f->refused_samples;
	ledger->refused_requests = before->refused_requests + f->refused_requests;
	ledger->partial_requests = before->partial_requests + f->partial_requests;
	ledger->rejected_profiles = before->rejected_profiles + f->rejected_profiles;
	ledger->attempts = before->attempts + f->attempts;
	ledger->failures = before->failures + f->failures;
	if (f->last_success_unix_ns)
		ledger->last_success_unix_ns = f->last_success_unix_ns;
	ledger->next_attempt_unix_ns = f->next_attempt_unix_ns;
	if (f->last_failure_unix_ns) {
		ledger->last_failure_unix_ns = f->last_failure_unix_ns;
		ledger->last_code = (uint64_t)f->last_code;
		memcpy(ledger->last_message, f->last_message, sizeof(ledger->last_message));
	}
	figures_spool(e);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of an agent's exporter. They are one page of shared memory that the agent makes and
 * keeps, so that they outlive an exporter that is killed; `bulkhead status` is answered from them.
 *
 * The header is in role/ because two roles, the exporter and the CLI, share this memory, and
 * because it contains types of the protocol (struct msg_losses), which common/ must not include.
 *
 * Only the exporter writes. Readers may see counters of different updates, and must not assume that
 * strings are NUL-terminated.
 *
 * Accounting: at any time, each sample that the kernel side took is delivered, or lost for a
 * reason, or waits in the spool, or is in flight (in the ring, in the worker or in the interval).
 * When none is in flight any more: taken + spooled_at_start = delivered + sum(lost) + waiting.
 */
#ifndef ROLE_EXPORT_STATS_H
#define ROLE_EXPORT_STATS_H

#include <stdint.h>

#include "ipc/messages.h"

struct export_stats {
	/* Samples that the present loader's kernel side took, and those of the loaders before it.
	 * The same for samples that the kernel side lost. */
	uint64_t taken_before, taken;
	struct msg_losses lost_before, lost_kernel;
	/* Samples received in batches, and those of them whose interval is in the spool; then the
	 * sequence numbers of the last batch received and of the last batch in the spool. */
	uint64_t received, committed_samples;
	uint64_t received_sequence, committed_sequence;
	uint64_t position; /* that the next batch has if none is missing (schemas/records.fbs) */
	uint64_t journal_bytes;
	uint64_t interval_samples; /* received, but not committed yet */
	/* Samples put into the spool by this agent; samples that were in the spool when it
	 * started. */
	uint64_t put, spooled_at_start;
	uint64_t delivered, delivered_requests, delivered_bytes;
	uint64_t refused_requests, partial_requests, rejected_profiles;
	uint64_t attempts, failures;
	struct msg_losses lost;	 /* all losses except those of the kernel side */
	uint64_t incomplete[16]; /* samples with a cut stack, by enum incomplete_reason */
	/* The spool: samples and requests that wait, and what they occupy. */
	uint64_t waiting, waiting_in_memory, waiting_records, spool_memory_bytes, spool_disk_bytes,
	    oldest_unix_ns;
	uint64_t damaged_records;
	uint64_t spool_clock_ns; /* struct spool_config */
	uint64_t spool_error;	 /* errno that keeps the spool in memory; 0 if there is none */
	/* The backend: times of attempts (CLOCK_BOOTTIME), and its last answer. */
	uint64_t last_success_boot_ns, last_failure_boot_ns, next_attempt_boot_ns;
	uint64_t last_code;
	char last_message[256];
	uint64_t ended;	 /* 1: the worker has reported its losses, after its last batch */
	uint64_t starts; /* exporters that have used this memory, this one included */
	/* Of `lost`, what was lost of batches that are not committed. The next exporter takes these
	 * batches again, and perhaps loses nothing of them. */
	struct msg_losses interval_lost;
};

_Static_assert(sizeof(struct export_stats) % 8 == 0 && sizeof(struct export_stats) <= 4096,
	       "the statistics fit one shared page");

#endif

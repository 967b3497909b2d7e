/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent's exporter has done so far, in memory that the CLI made and holds: it outlives an
 * exporter that is killed, and `bulkhead status` is read from it. One writer, the exporter; whoever
 * reads may see a figure of this moment beside one of the last, and must not trust the texts to
 * end.
 *
 * Samples: those that the kernel took are, at any time, delivered, lost for a reason, or waiting
 * (in the ring, the worker, the interval, the spool). When all has come to rest, taken + carried =
 * delivered + sum(lost) + waiting in the spool.
 */
#ifndef IPC_LEDGER_H
#define IPC_LEDGER_H

#include <stdint.h>

#include "ipc/messages.h"

struct export_ledger {
	/* Of the loaders before this one, and of this one. */
	uint64_t taken_before, taken;
	struct msg_losses lost_before, lost_kernel;
	/* Samples and batches in the journal, and those whose interval has been put into the spool.
	 */
	uint64_t received, settled_samples;
	uint64_t received_sequence, settled_sequence;
	uint64_t journal_bytes;
	uint64_t interval_samples; /* not settled */
	/* Of settled samples: what the spool got, with what an earlier agent had left (carried). */
	uint64_t put, carried;
	uint64_t delivered, delivered_requests, delivered_bytes;
	uint64_t refused_requests, partial_requests, rejected_profiles;
	uint64_t attempts, failures;
	struct msg_losses lost; /* but for the kernel's */
	uint64_t incomplete[16];
	/* The spool. */
	uint64_t waiting, waiting_in_memory, waiting_records, spool_memory_bytes, spool_disk_bytes,
	    oldest_unix_ns;
	uint64_t damaged_records;
	uint64_t spool_error; /* errno that keeps it in memory, 0 if none */
	/* The backend. */
	uint64_t last_success_unix_ns, last_failure_unix_ns, next_attempt_unix_ns;
	uint64_t last_code;
	char last_message[256];
	/* The exporter; `ended`: the worker has said what it lost. */
	uint64_t ended, starts;
};

_Static_assert(sizeof(struct export_ledger) % 8 == 0 && sizeof(struct export_ledger) <= 4096,
	       "one page, shared");

#endif

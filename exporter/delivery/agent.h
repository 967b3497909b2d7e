/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the agent's exporter, and how its parts depend on each other.
 *
 * The worker's batches arrive in interval.c, which records them in the journal and aggregates their
 * samples. Every few seconds the interval is committed: encoded into requests that go to the spool.
 * The sender's thread takes them from there to the backend. The process may be killed at any
 * moment: what it holds is also in the journal and in the spool's memory, which the CLI keeps, and
 * its statistics are in shared memory (role/export_stats.h).
 */
#ifndef EXPORTER_DELIVERY_AGENT_H
#define EXPORTER_DELIVERY_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/model/aggregate.h"
#include "exporter/model/counters.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/delivery/journal.h"
#include "exporter/delivery/sender.h"
#include "exporter/delivery/spool.h"
#include "exporter/delivery/transport.h"
#include "exporter/otlp/otlp_encode.h"
#include "role/export_stats.h"
#include "role/role.h"

struct otlp_exporter {
	struct role role;
	struct msg_configure_otlp config;
	int fds[MSG_OTLP_FD_COUNT]; /* -1: the CLI sent none, or another part has taken it over */
	char *pem[MSG_OTLP_FD_COUNT];
	struct transport_header headers[DELIVERY_PAIRS_MAX];
	size_t header_count;
	struct otlp_resource_attribute resource[DELIVERY_PAIRS_MAX];
	size_t resource_count;

	struct export_stats *stats; /* shared with the CLI */
	struct counters counters;

	struct journal journal;
	struct aggregate aggregate;
	uint64_t interval_start_unix_ns;
	uint64_t report_due_ns; /* CLOCK_MONOTONIC */
	bool reset_requested;	/* the worker has been asked to send all definitions again */

	struct spool *spool;
	uint64_t unspooled; /* samples that the spool had no room for */
	struct transport *transport;
	struct sender *sender;
	struct export_stats
	    base; /* the statistics when this process started: counters are added to them */
	uint64_t started_unix_ns;
	uint64_t drain_deadline_ns;
};

/* configure.c: the handler of CONFIGURE_OTLP. */
int configure_on_message(void *context, const struct msg_configure_otlp *config,
			 struct message *message);
/* Takes the configuration from the CLI before the sandbox is entered: reads
 * certificates and opens the files that may be needed later. Returns STATUS_DONE, or
 * another exit status after a message. */
int configure_receive(struct otlp_exporter *exporter);
/* Inside the sandbox: opens the spool, the transport and the sender. Returns the same. */
int configure_start(struct otlp_exporter *exporter);

/* interval.c */
/* Takes over what an earlier exporter has left in the journal. `mark` is the last batch whose
 * samples are in the spool. Returns 0 or a negative errno. */
int interval_recover(struct otlp_exporter *exporter, uint64_t mark);
/* Takes one batch of the worker. Returns 0 or a negative errno, which ends the role. */
int interval_on_batch(struct otlp_exporter *exporter, const uint8_t *data, size_t length);
/* Commits the interval: encodes its samples and puts the requests into the spool. */
void interval_commit(struct otlp_exporter *exporter);
/* Commits the interval if its time is over. */
void interval_tick(struct otlp_exporter *exporter, uint64_t now_ns);

/* stats.c. These bring the shared statistics up to date: from the kernel side's counters, */
void stats_update_kernel(struct otlp_exporter *exporter);
/* from the spool, */
void stats_update_spool(struct otlp_exporter *exporter);
/* and from the sender, whose thread calls this. */
void stats_on_sender(void *exporter, const struct sender_stats *stats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the agent's exporter, and how its parts depend on each other.
 *
 * The worker's batches arrive in interval.c, which appends them to the journal and aggregates their
 * samples. Every few seconds the interval is committed: its samples are encoded into requests,
 * which go to the spool. The sender's thread takes them from there to the backend. The process may
 * be killed at any moment. What it holds is therefore also in the journal and in the spool's
 * memory, which the agent keeps, and its statistics are in shared memory (role/export_stats.h).
 */
#ifndef EXPORTER_DELIVERY_AGENT_H
#define EXPORTER_DELIVERY_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/memory_shortage.h"
#include "exporter/model/aggregate.h"
#include "exporter/model/counters.h"
#include "exporter/delivery/connector.h"
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
	int fds[MSG_OTLP_FD_COUNT]; /* -1: the CLI sent none, or it was read and closed */
	char *pem[MSG_OTLP_FD_COUNT];
	struct transport_header headers[DELIVERY_PAIRS_MAX];
	size_t header_count;
	struct otlp_resource_attribute resource[DELIVERY_PAIRS_MAX];
	size_t resource_count;

	struct export_stats *stats; /* shared with the agent */
	struct counters counters;

	struct journal journal;
	struct aggregate aggregate;
	uint64_t interval_start_ns, report_due_ns; /* CLOCK_MONOTONIC */
	bool reset_requested; /* the worker has been asked to send all definitions again */

	struct spool *spool;
	struct memory_shortage shortage;
	uint64_t unspooled;	    /* samples that the spool had no room for */
	struct connector connector; /* if the backend listens on a Unix socket */
	struct transport *transport;
	struct sender *sender;
	/* The statistics when this process started. Its own counters are added to them. */
	struct export_stats base;
	uint64_t started_boot_ns;
	uint64_t drain_deadline_ns;
};

/* configure.c */
/* Handles CONFIGURE_OTLP. Returns 0, or a negative errno if the message is malformed. */
int configure_on_message(void *context, const struct msg_configure_otlp *config,
			 struct message *message);
/* A service reads the configuration file, and opens the files that the exporter needs, before it
 * connects to others. Returns STATUS_DONE, or another exit status after a message. */
int configure_open_files(struct otlp_exporter *exporter);
/* Takes the configuration from CONTROL before the sandbox is entered: reads certificates and opens
 * the files that may be needed later. Returns STATUS_DONE; after a failure logs it and returns
 * another exit status. */
int configure_receive(struct otlp_exporter *exporter);
/* Inside the sandbox, opens the spool and the transport and starts the sender. Returns the same. */
int configure_start(struct otlp_exporter *exporter);

/* interval.c */
/* Takes over what an earlier exporter has left in the journal. `mark` is the last batch whose
 * samples are in the spool, according to the spool. Returns 0 or a negative errno. */
int interval_recover(struct otlp_exporter *exporter, uint64_t mark);
/* Informs a worker that has connected after which batch to continue. If the journal is empty
 * although there were batches, later batches would refer to unknown definitions, so the worker is
 * asked to send all of them again. Returns 0 or the negative errno of peer_send(). */
int interval_resume(struct otlp_exporter *exporter);
/* Takes one batch of the worker. Returns 0 or a negative errno, which ends the role. */
int interval_on_batch(struct otlp_exporter *exporter, const uint8_t *data, size_t length);
/* Commits the interval: encodes its samples and puts the requests into the spool. */
void interval_commit(struct otlp_exporter *exporter);
/* Commits the interval if its time is over. */
void interval_tick(struct otlp_exporter *exporter, uint64_t now_ns);

/* stats.c */
/* Copies the counters of the kernel side to the shared statistics. */
void stats_update_kernel(struct otlp_exporter *exporter);
/* Copies the statistics of the spool. */
void stats_update_spool(struct otlp_exporter *exporter);
/* Copies the statistics of the sender, whose thread calls this, and those of the spool. */
void stats_on_sender(void *exporter, const struct sender_stats *stats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's exporter: batches in, an interval's samples encoded every few seconds, requests into
 * the spool, from where the sender's thread takes them to the backend. It may be killed at any
 * moment: what it holds is also in the journal and the spool's memory, which are the CLI's, and its
 * stats are in the stats.
 */
#ifndef EXPORTER_DELIVERY_AGENT_H
#define EXPORTER_DELIVERY_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/model/aggregate.h"
#include "exporter/model/counters.h"
#include "exporter/delivery/journal.h"
#include "exporter/delivery/sender.h"
#include "exporter/delivery/spool.h"
#include "exporter/delivery/transport.h"
#include "exporter/otlp/otlp_encode.h"
#include "role/export_stats.h"
#include "role/role.h"

enum {
	AGENT_PAIRS_MAX = 64
};

struct otlp_exporter {
	struct role role;
	struct msg_configure_otlp config;
	int fds[MSG_OTLP_FD_COUNT]; /* -1: not there, or given away */
	char *pem[MSG_OTLP_FD_COUNT];
	struct transport_header headers[AGENT_PAIRS_MAX];
	size_t header_count;
	struct otlp_resource_attribute resource[AGENT_PAIRS_MAX];
	size_t resource_count;

	struct export_stats *stats; /* shared */
	struct counters counters;

	struct journal journal;
	struct aggregate aggregate;
	uint64_t interval_start_unix_ns;
	uint64_t report_due_ns; /* CLOCK_MONOTONIC */
	bool reset_requested;	/* the worker was asked to describe everything anew */

	struct spool *spool;
	uint64_t unspooled; /* samples that found no room in it */
	struct transport *transport;
	struct sender *sender;
	struct export_stats base; /* the stats as it was when this process began */
	uint64_t started_unix_ns;
	bool draining;
	uint64_t drain_deadline_ns;
};

/* configure.c: take the configuration from the CLI, before the sandbox: read certificates, open
 * what may be reached later. 0, or an exit status after a message. */
int configure_receive(struct otlp_exporter *exporter);
/* Inside the sandbox: spool, transport, sender. Likewise. */
int configure_start(struct otlp_exporter *exporter);

/* interval.c */
/* What an exporter that ended before has left in the journal. 0 or a negative errno. */
int interval_recover(struct otlp_exporter *exporter, uint64_t mark);
int interval_on_batch(struct otlp_exporter *exporter, const uint8_t *data, size_t length);
/* Encode what there is and put it into the spool. */
void interval_commit(struct otlp_exporter *exporter);
/* Settle if it is time to. */
void interval_tick(struct otlp_exporter *exporter, uint64_t now_ns);

/* stats.c: bring the stats up to date. */
void stats_update_kernel(struct otlp_exporter *exporter);
void stats_update_spool(struct otlp_exporter *exporter);
/* Of the sender's thread. */
void stats_on_sender(void *exporter, const struct sender_stats *stats);

#endif

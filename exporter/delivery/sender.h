/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread between spool and transport: takes the oldest record, sends it, and either forgets it
 * or tries again later. One record at a time is in flight. After each call that failed, from the
 * first on, all that waits is moved to the disk (spool_keep): it will stay for a while, and what
 * was put in since the last failure is in memory still.
 *
 * The waiting between attempts grows with the failures in a row, whichever record they were of: it
 * is the backend that is spared. A new record does not cut it short.
 */
#ifndef EXPORTER_DELIVERY_SENDER_H
#define EXPORTER_DELIVERY_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "exporter/delivery/spool.h"
#include "exporter/delivery/transport.h"

struct sender;

struct sender_stats {
	/* Samples and requests, each of them once. */
	uint64_t delivered_samples, delivered_requests, delivered_bytes;
	uint64_t refused_samples, refused_requests;   /* RETRY_REFUSED: dropped */
	uint64_t partial_requests, rejected_profiles; /* within delivered ones */
	uint64_t attempts, failures; /* calls, and those of them that were to be retried */
	uint64_t last_success_unix_ns;
	uint64_t next_attempt_unix_ns; /* 0: nothing waits for its time */
	/* The last call that was no plain success: failed, refused, or delivered with something to
	 * say about it. Empty before there is one. */
	int last_code;
	uint64_t last_failure_unix_ns;
	char last_message[TRANSPORT_MESSAGE_BYTES];
};

struct sender_config {
	struct spool *spool;	     /* must outlive the sender */
	struct transport *transport; /* likewise */
	uint64_t timeout_ns;	     /* of one call */
	/* Called by the sender's thread after each call, with the stats as they are then and no
	 * lock held. By then the spool has forgotten the record, if it was delivered or refused.
	 * To be short: the next call waits for it. The first time may be before sender_start
	 * has returned. NULL: nobody wants to know. */
	void (*changed)(void *context, const struct sender_stats *stats);
	void *context;
};

/* Start the thread. 0 or a negative errno. */
int sender_start(const struct sender_config *config, struct sender **sender);

/* Something was put into the spool. */
void sender_wake(struct sender *sender);

void sender_stats(struct sender *sender, struct sender_stats *stats);

/* Nothing is in flight and the spool is empty. */
bool sender_idle(struct sender *sender);

/* Stop: a call under way may come to its end for so long, and is then cancelled; its record stays
 * in the spool, and is sent again by whoever comes next, though the backend may have taken it.
 * Joins the thread. */
void sender_stop(struct sender *sender, uint64_t grace_ns);

#endif

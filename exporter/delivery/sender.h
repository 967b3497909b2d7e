/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A thread takes the oldest record from the spool, sends it, and then either
 * removes it from the spool or waits and tries again. One record at a time is in flight. After each
 * failed call everything that waits in memory is moved to the disk (spool_keep), because it will
 * stay for a while.
 *
 * The delay between attempts grows with the number of failures in a row, no matter which records
 * they concerned: its purpose is to spare the backend. A new record does not shorten the delay.
 *
 * Example: records 1 and 2 are in the spool and the backend is down. Record 1 is sent and fails;
 * both records go to the disk; the thread waits 1 to 2 s. Record 3 arrives and stays in memory.
 * Record 1 is sent again and succeeds, so it is removed; record 2 follows without a delay, then
 * record 3.
 */
#ifndef EXPORTER_DELIVERY_SENDER_H
#define EXPORTER_DELIVERY_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "exporter/delivery/spool.h"
#include "exporter/delivery/transport.h"

struct sender;

struct sender_stats {
	/* Samples and requests are counted once, however many attempts they took. */
	uint64_t delivered_samples, delivered_requests, delivered_bytes;
	uint64_t refused_samples, refused_requests;   /* dropped because of RETRY_REFUSED */
	uint64_t partial_requests, rejected_profiles; /* among the delivered requests */
	uint64_t attempts, failures; /* all calls, and those after which a retry follows */
	/* Times are those of CLOCK_BOOTTIME, because the clock may be set; 0: there is none. */
	uint64_t last_success_boot_ns;
	uint64_t next_attempt_boot_ns; /* 0: no attempt is scheduled */
	/* The last call that failed, was refused, or was delivered with a message. Empty before
	 * there is one. */
	int last_code;
	uint64_t last_failure_boot_ns;
	char last_message[TRANSPORT_MESSAGE_BYTES];
};

struct sender_config {
	struct spool *spool;	     /* it must outlive the sender */
	struct transport *transport; /* it must outlive the sender, too */
	uint64_t timeout_ns;	     /* for one call */
	/* Called by the sender's thread after each call, with the current statistics and without a
	 * lock. A record that was delivered or refused is no longer in the spool by then. The
	 * function must return quickly, since the next call waits for it. It may be called before
	 * sender_start() has returned. NULL: none. */
	void (*changed)(void *context, const struct sender_stats *stats);
	void *context;
};

/* Starts the thread. Returns 0 or a negative errno. */
int sender_start(const struct sender_config *config, struct sender **sender);

/* Tells the sender that a record was put into the spool. */
void sender_wake(struct sender *sender);

/* Copies the current statistics. */
void sender_stats(struct sender *sender, struct sender_stats *stats);

/* Returns whether nothing is in flight and the spool is empty. */
bool sender_idle(struct sender *sender);

/* Stops and joins the thread, and frees the sender. A call in progress may take up to `grace_ns` to
 * finish and is then cancelled. Its record stays in the spool, so the next sender sends it again,
 * although the backend may have accepted it. */
void sender_stop(struct sender *sender, uint64_t grace_ns);

#endif

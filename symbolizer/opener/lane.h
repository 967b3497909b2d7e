/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: requests that are done by one helper, in their order, with a deadline for each.
 *
 * How this works. A request waits in a queue until the helper has few enough to do. Then it is
 * sent, and keeps its place in the queue until its answer comes, which is given to the owner
 * (done()). So answers have the order of the requests. The first request that was sent is the one
 * that the helper is working on. If that takes too long, or the helper dies, this request fails
 * with -ETIMEDOUT, and its process and device are quarantined (opening_quarantine.h). The other
 * requests that were sent are sent once more, to another helper. A request for what is quarantined
 * fails when its turn comes.
 *
 * A helper that does not end when it is killed is counted. With too many of them none is started,
 * and all requests of the lane fail until one has ended.
 *
 * The opener has two lanes. Files on file systems without a disk, where a server may let the helper
 * wait, are in one, with debug files, whose directories may be anywhere; all others and what is in
 * /proc are in the other, which they cannot delay.
 *
 * Example: requests A, B and C were sent, D waits. The helper hangs on A.
 *
 *	queue: A sent, B sent, C sent, D	1.5 s pass
 *	done(A, -ETIMEDOUT)			A's process is quarantined, the helper is dropped
 *	queue: B sent, C sent, D sent		to a new helper
 */
#ifndef SYMBOLIZER_OPENER_LANE_H
#define SYMBOLIZER_OPENER_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/loop.h"
#include "symbolizer/opener/opening.h"
#include "symbolizer/opener/opening_quarantine.h"

enum {
	LANE_SENT_MAX = 16,	  /* requests that a helper has at a time */
	LANE_REQUESTS_MAX = 8192, /* more than the manager has processes. Full: refused */
	LANE_DEADLINE_MS = 1500,  /* for one request; opening takes microseconds */
	LANE_TICK_MS = 1000,	  /* how often lane_tick() is needed while there are any of these */
};

/* What a lane's owner decides. */
struct lane_owner {
	opening_fn perform; /* in the helper */
	/* A request is done. The descriptors in `opened` are closed afterwards. */
	void (*done)(void *context, const struct opening *opening, const struct opened *opened);
	/* Whether done() must not be called now, because its messages would find no room. The owner
	 * calls lane_tick() some milliseconds later. May be NULL. */
	bool (*is_stalled)(void *context);
	void *context;
	struct directories directories; /* for debug files */
};

struct lane {
	const struct lane_owner *owner;
	struct quarantine *quarantine; /* shared with the other lane */
	struct loop *loop;
	struct helper helper;
	struct opening *queue; /* a ring of `capacity` */
	size_t capacity, first, count;
	size_t sent;	   /* of the first ones */
	uint64_t since_ns; /* since when the helper has been working on the first one */
	bool paused;	   /* the owner is stalled, so nobody waits for the helper */
	uint64_t logged_ns;
};

/* Sets up an empty lane and starts its helper. Returns 0 or a negative errno. */
int lane_start(struct lane *lane, const struct lane_owner *owner, struct quarantine *quarantine,
	       struct loop *loop);

/* Adds a request. Returns 0, -ENOBUFS if there are too many, or -ENOMEM. */
int lane_add(struct lane *lane, const struct opening *opening);

/* Looks after deadlines, helpers that ended, and what was stalled. To be called at each tick of the
 * loop: the lane asks for ticks while there are requests, or helpers that have not ended. */
void lane_tick(struct lane *lane);

/* Drops the requests and the helper, and waits a moment for its end. */
void lane_stop(struct lane *lane);

#endif

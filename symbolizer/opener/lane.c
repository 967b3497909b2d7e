/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see lane.h. */
#include "symbolizer/opener/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"

enum {
	LOG_EVERY_S = 60,
	FIRST_CAPACITY = 64,
};

static struct opening *request_at(struct lane *lane, size_t place)
{
	return &lane->queue[(lane->first + place) % lane->capacity];
}

/* Removes the first request and reports it as done. */
static void finish_first(struct lane *lane, struct opened *opened)
{
	const struct opening done = *request_at(lane, 0);

	lane->first = (lane->first + 1) % lane->capacity;
	lane->count--;
	if (lane->sent)
		lane->sent--;
	lane->since_ns = clock_monotonic_ns();
	lane->owner->done(lane->owner->context, &done, opened);
	opened_close(opened);
}

static void fail_first(struct lane *lane, int error)
{
	finish_first(lane, &(struct opened){.error = error});
}

/* --- the helper --- */

static void drop_helper(struct lane *lane)
{
	helper_drop(&lane->helper);
	if (lane->helper.left_count)
		loop_tick_within(lane->loop, LANE_TICK_MS);
	lane->sent = 0;
	lane->paused = false;
}

static void log_hang(struct lane *lane, const struct opening *opening, unsigned int seconds)
{
	const uint64_t now = clock_monotonic_ns();

	if (lane->logged_ns && now - lane->logged_ns < LOG_EVERY_S * NS_PER_S)
		return;
	lane->logged_ns = now;
	if (opening->kind == OPENING_DEBUG) {
		log_warning("a debug file could not be opened in time, because its file system did "
			    "not answer; no debug files are opened for a time: seconds=%u",
			    seconds);
		return;
	}
	log_warning("a file or process could not be opened in time, because its file system or "
		    "another process did not answer; it is left alone for a time: pid=%u uid=%u "
		    "device=%u:%u seconds=%u",
		    opening->tgid, opening->uid,
		    opening->kind == OPENING_FILE ? opening->file.device_major : 0,
		    opening->kind == OPENING_FILE ? opening->file.device_minor : 0, seconds);
}

/* Gives up the helper and the request on which it hangs, or on which it died. */
static void give_up_first(struct lane *lane)
{
	if (lane->sent) {
		const struct opening *first = request_at(lane, 0);

		log_hang(lane, first,
			 opening_quarantine(lane->quarantine, first, clock_monotonic_ns()));
		fail_first(lane, -ETIMEDOUT);
	}
	drop_helper(lane);
}

/* --- the queue --- */

/* Fails the requests that need no helper, as long as one of them is the first. Returns whether the
 * first one is for the helper. */
static bool fail_quarantined(struct lane *lane)
{
	while (lane->count && !lane->sent) {
		const struct opening *first = request_at(lane, 0);

		if (lane->owner->is_stalled && lane->owner->is_stalled(lane->owner->context))
			return false;
		if (first->kind == OPENING_NOTHING)
			fail_first(lane, 0);
		else if (opening_is_quarantined(lane->quarantine, first, clock_monotonic_ns()))
			fail_first(lane, -ETIMEDOUT);
		else
			return true;
	}
	return false;
}

/* Sends what the helper may have, up to the next request that is not for it. */
static void send_requests(struct lane *lane)
{
	const uint64_t now = clock_monotonic_ns();

	if (!fail_quarantined(lane) && !lane->sent)
		return;
	if (lane->helper.fd < 0 && opening_start(&lane->helper, lane->owner->perform) < 0)
		return;
	while (lane->sent < lane->count && lane->sent < LANE_SENT_MAX) {
		const struct opening *next = request_at(lane, lane->sent);

		if (next->kind == OPENING_NOTHING ||
		    opening_is_quarantined(lane->quarantine, next, now))
			break;
		/* If the helper is gone, that is noticed when its answer is received. */
		if (opening_send(&lane->helper, next, &lane->owner->directories) < 0)
			break;
		if (!lane->sent++)
			lane->since_ns = now;
	}
}

/* Whether the loop reports that the helper has answered. */
static void set_paused(struct lane *lane, bool paused)
{
	if (lane->paused != paused && lane->helper.fd >= 0)
		loop_modify(lane->loop, lane->helper.fd, paused ? 0 : EPOLLIN);
	lane->paused = paused;
}

/* Does what can be done now. */
static void run(struct lane *lane)
{
	const struct lane_owner *owner = lane->owner;

	while (lane->sent) {
		struct opened opened;

		if (owner->is_stalled && owner->is_stalled(owner->context)) {
			/* Its time does not count while nobody takes its answer. */
			lane->since_ns = clock_monotonic_ns();
			set_paused(lane, true);
			return;
		}
		const int r = opening_receive(&lane->helper, &opened);
		if (r == 0)
			break;
		if (r < 0)
			give_up_first(lane);
		else
			finish_first(lane, &opened);
	}
	set_paused(lane, false);
	send_requests(lane);
}

static void on_helper(void *context, uint32_t events)
{
	struct lane *lane = context;

	/* One that ends while it has nothing to do is replaced when it is needed. */
	if (!lane->sent && events & (EPOLLHUP | EPOLLERR))
		drop_helper(lane);
	run(lane);
}

/* Makes room for one more request. */
static int reserve(struct lane *lane)
{
	if (lane->count < lane->capacity)
		return 0;
	const size_t capacity = lane->capacity ? 2 * lane->capacity : FIRST_CAPACITY;
	if (capacity > LANE_REQUESTS_MAX)
		return -ENOBUFS;
	struct opening *queue = calloc(capacity, sizeof(*queue));
	if (!queue)
		return -ENOMEM;
	for (size_t i = 0; i < lane->count; i++)
		queue[i] = *request_at(lane, i);
	free(lane->queue);
	lane->queue = queue;
	lane->capacity = capacity;
	lane->first = 0;
	return 0;
}

int lane_add(struct lane *lane, const struct opening *opening)
{
	int r = reserve(lane);

	if (r < 0)
		return r;
	lane->count++;
	*request_at(lane, lane->count - 1) = *opening;
	send_requests(lane);
	loop_tick_within(lane->loop, LANE_TICK_MS);
	return 0;
}

void lane_tick(struct lane *lane)
{
	helper_collect(&lane->helper);
	run(lane);
	if (lane->sent && clock_monotonic_ns() - lane->since_ns >= LANE_DEADLINE_MS * NS_PER_MS) {
		give_up_first(lane);
		run(lane);
	}
	/* Without a helper nobody works on them. */
	while (lane->count && lane->helper.fd < 0)
		fail_first(lane, -EAGAIN);
	if (lane->count || lane->helper.left_count)
		loop_tick_within(lane->loop, LANE_TICK_MS);
}

int lane_start(struct lane *lane, const struct lane_owner *owner, struct quarantine *quarantine,
	       struct loop *loop)
{
	*lane = (struct lane){.owner = owner, .quarantine = quarantine, .loop = loop};
	helper_init(&lane->helper, loop, on_helper, lane);
	return opening_start(&lane->helper, owner->perform);
}

void lane_stop(struct lane *lane)
{
	helper_stop(&lane->helper);
	lane->count = lane->sent = 0;
	free(lane->queue);
	lane->queue = NULL;
}

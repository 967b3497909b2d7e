/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/sender.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/hash.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/delivery/retry.h"

struct sender {
	struct sender_config config;
	pthread_t thread;

	/* Used by the sender's thread only. */
	uint64_t random;
	unsigned int failures_in_row;
	uint64_t expire_at_ns; /* monotonic */

	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t woken_or_stopped;
	bool woken, stopped;
	bool busy; /* a record is being looked up, is in flight, or is not in the statistics yet */
	struct sender_stats stats;
};

/* Returns a random number in [0, 1), from splitmix64 (Steele, Lea, Flood: Fast Splittable
 * Pseudorandom Number Generators). */
static double draw(struct sender *s)
{
	uint64_t z = s->random += HASH_GOLDEN_RATIO;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

/* --- waiting --- */

static void expire(struct sender *s)
{
	const uint64_t now_ns = clock_monotonic_ns();

	if (now_ns < s->expire_at_ns)
		return;
	spool_expire(s->config.spool, spool_now());
	s->expire_at_ns = now_ns + (SENDER_EXPIRE_EVERY_MS * NS_PER_MS);
}

/* Waits until `until_ns` or until it is woken. The lock is held. */
static void wait_until(struct sender *s, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	pthread_cond_timedwait(&s->woken_or_stopped, &s->lock, &until);
}

/* Waits until a record is put into the spool. A record that was put there since the thread last
 * looked also counts. */
static void wait_for_record(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->busy = false;
	while (!s->woken && !s->stopped) {
		if (clock_monotonic_ns() >= s->expire_at_ns) {
			pthread_mutex_unlock(&s->lock);
			expire(s);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		wait_until(s, s->expire_at_ns);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Waits for the whole delay, even if a record is put into the spool meanwhile. */
static void wait_for_time(struct sender *s, uint64_t delay_ns)
{
	const uint64_t until_ns = clock_monotonic_ns() + delay_ns;
	uint64_t now_ns;

	pthread_mutex_lock(&s->lock);
	s->busy = false;
	while (!s->stopped && (now_ns = clock_monotonic_ns()) < until_ns) {
		if (now_ns >= s->expire_at_ns) {
			pthread_mutex_unlock(&s->lock);
			expire(s);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		wait_until(s, until_ns < s->expire_at_ns ? until_ns : s->expire_at_ns);
	}
	s->stats.next_attempt_boot_ns = 0;
	pthread_mutex_unlock(&s->lock);
}

/* --- a record --- */

static void count(struct sender_stats *f, const struct spool_record *record,
		  const struct transport_result *result, enum retry_verdict verdict,
		  uint64_t delay_ns)
{
	const uint64_t now_ns = clock_boot_ns();

	f->attempts++;
	switch (verdict) {
	case RETRY_DELIVERED:
		f->delivered_samples += record->samples;
		f->delivered_requests++;
		f->delivered_bytes += record->bytes;
		f->partial_requests += result->partial;
		if (__builtin_add_overflow(f->rejected_profiles, result->rejected_profiles,
					   &f->rejected_profiles))
			f->rejected_profiles = UINT64_MAX;
		f->last_success_boot_ns = now_ns;
		break;
	case RETRY_REFUSED:
		f->refused_samples += record->samples;
		f->refused_requests++;
		break;
	case RETRY_LATER:
		f->failures++;
		f->next_attempt_boot_ns = now_ns + delay_ns;
		break;
	}
	if (verdict != RETRY_DELIVERED || result->partial || result->message[0]) {
		f->last_code = result->code;
		f->last_failure_boot_ns = now_ns;
		memcpy(f->last_message, result->message, sizeof(f->last_message));
	}
}

static bool is_stopped(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	const bool stopped = s->stopped;
	pthread_mutex_unlock(&s->lock);
	return stopped;
}

/* Acts on the result of a call: removes the record or keeps it for a retry, and counts. Returns how
 * long to wait before the next call. */
static uint64_t finish_call(struct sender *s, const struct spool_record *record,
			    const struct transport_result *result)
{
	const enum retry_verdict verdict = retry_judge(result);
	struct sender_stats stats;
	uint64_t delay_ns = 0;

	if (verdict == RETRY_LATER) {
		/* A call that was cancelled because we stop says nothing about the backend. */
		if (is_stopped(s))
			return 0;
		delay_ns = retry_delay_ns(result, ++s->failures_in_row, draw(s));
		spool_keep(s->config.spool, spool_now());
	} else {
		s->failures_in_row = 0;
		spool_done(s->config.spool, record->number);
	}
	pthread_mutex_lock(&s->lock);
	count(&s->stats, record, result, verdict, delay_ns);
	stats = s->stats;
	pthread_mutex_unlock(&s->lock);
	if (s->config.changed)
		s->config.changed(s->config.context, &stats);
	return delay_ns;
}

/* Sends the oldest record. The spool is asked for it before each attempt, because a record that
 * waited may have expired or may have been dropped for lack of room. */
static void send_first(struct sender *s)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct spool_record record;
	struct transport_result result;
	uint64_t delay_ns;

	int got = spool_first(s->config.spool, spool_now(), &record, &data);
	if (!got) {
		wait_for_record(s);
		return;
	}
	if (got > 0) {
		transport_send(s->config.transport, data, record.bytes, s->config.timeout_ns,
			       &result);
		/* The request is not kept in memory during the delay. */
		free(TAKE_PTR(data));
		delay_ns = finish_call(s, &record, &result);
	} else {
		delay_ns = SENDER_NO_MEMORY_WAIT_MS * NS_PER_MS;
	}
	if (delay_ns)
		wait_for_time(s, delay_ns);
}

static void *run(void *context)
{
	struct sender *s = context;

	pthread_setname_np(pthread_self(), "sender");
	for (;;) {
		pthread_mutex_lock(&s->lock);
		const bool stopped = s->stopped;
		s->woken = false;
		s->busy = !stopped;
		pthread_mutex_unlock(&s->lock);
		if (stopped)
			return NULL;
		expire(s);
		send_first(s);
	}
}

/* --- functions for other threads --- */

static void free_sender(struct sender **sender)
{
	if (!*sender)
		return;
	pthread_cond_destroy(&(*sender)->woken_or_stopped);
	pthread_mutex_destroy(&(*sender)->lock);
	free(*sender);
}

/* Blocks all signals in the thread: they are for the role's own thread. */
static int start_thread(struct sender *s)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int sender_start(const struct sender_config *config, struct sender **sender)
{
	_cleanup_(free_sender) struct sender *s = calloc(1, sizeof(*s));
	pthread_condattr_t attributes;

	if (!s)
		return -ENOMEM;
	s->config = *config;
	s->busy = true;
	s->expire_at_ns = clock_monotonic_ns() + (SENDER_EXPIRE_EVERY_MS * NS_PER_MS);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&s->woken_or_stopped, &attributes);
	pthread_condattr_destroy(&attributes);
	if (getrandom(&s->random, sizeof(s->random), 0) != sizeof(s->random))
		return -EIO;
	int r = start_thread(s);
	if (r)
		return r;
	*sender = TAKE_PTR(s);
	return 0;
}

void sender_wake(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->woken_or_stopped);
	pthread_mutex_unlock(&s->lock);
}

void sender_stats(struct sender *s, struct sender_stats *stats)
{
	pthread_mutex_lock(&s->lock);
	*stats = s->stats;
	pthread_mutex_unlock(&s->lock);
}

bool sender_idle(struct sender *s)
{
	struct spool_stats waiting;

	/* The order matters: a record leaves the spool before its call is counted. */
	spool_stats(s->config.spool, &waiting);
	pthread_mutex_lock(&s->lock);
	const bool busy = s->busy;
	pthread_mutex_unlock(&s->lock);
	return !busy && !waiting.records;
}

void sender_stop(struct sender *s, uint64_t grace_ns)
{
	const uint64_t until_ns = clock_monotonic_ns() + grace_ns;
	const struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	pthread_mutex_lock(&s->lock);
	s->stopped = true;
	pthread_cond_signal(&s->woken_or_stopped);
	pthread_mutex_unlock(&s->lock);
	if (pthread_clockjoin_np(s->thread, NULL, CLOCK_MONOTONIC, &until)) {
		transport_cancel(s->config.transport);
		pthread_join(s->thread, NULL);
	}
	free_sender(&s);
}

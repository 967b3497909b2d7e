/* SPDX-License-Identifier: Apache-2.0 */
/* The sender, with a spool that is a list and a transport that follows a script. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "exporter/delivery/sender.h"

#define MS 1000000ull
#define S (1000 * MS)

enum {
	MOST = 64
};

/* --- time --- */

static _Atomic int64_t monotonic_offset_ns;

/* Replaces the C library's function, so that tests can change the monotonic clock. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (syscall(SYS_clock_gettime, clock, t))
		return -1;
	if (clock == CLOCK_MONOTONIC) {
		int64_t ns = t->tv_sec * (int64_t)S + t->tv_nsec + monotonic_offset_ns;

		t->tv_sec = ns / (int64_t)S;
		t->tv_nsec = ns % (int64_t)S;
	}
	return 0;
}

static void sleep_ms(long ms)
{
	const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&wait, NULL);
}

/* --- the spool --- */

struct spool {
	pthread_mutex_t lock;
	struct spool_record records[MOST];
	unsigned int first, end;
	unsigned int keeps, expires, looks;
	bool no_memory;
};

static void put(struct spool *s, uint64_t samples)
{
	pthread_mutex_lock(&s->lock);
	cr_assert_lt(s->end, MOST);
	s->records[s->end] =
	    (struct spool_record){.number = 100 + s->end, .samples = samples, .bytes = 10};
	s->end++;
	pthread_mutex_unlock(&s->lock);
}

int spool_first(struct spool *s, struct spool_now now, struct spool_record *record, uint8_t **data)
{
	int r = 0;

	cr_assert_gt(now.unix_ns, 1600000000 * S);
	pthread_mutex_lock(&s->lock);
	s->looks++;
	if (s->no_memory) {
		s->no_memory = false;
		r = -ENOMEM;
	} else if (s->first < s->end) {
		*record = s->records[s->first];
		*data = malloc(record->bytes);
		memset(*data, (int)record->number, record->bytes);
		r = 1;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

void spool_done(struct spool *s, uint64_t number)
{
	pthread_mutex_lock(&s->lock);
	if (s->first < s->end && s->records[s->first].number == number)
		s->first++;
	pthread_mutex_unlock(&s->lock);
}

int spool_keep(struct spool *s, struct spool_now now)
{
	(void)now;
	pthread_mutex_lock(&s->lock);
	s->keeps++;
	pthread_mutex_unlock(&s->lock);
	return -EIO;
}

void spool_expire(struct spool *s, struct spool_now now)
{
	(void)now;
	pthread_mutex_lock(&s->lock);
	s->expires++;
	pthread_mutex_unlock(&s->lock);
}

void spool_stats(struct spool *s, struct spool_stats *stats)
{
	pthread_mutex_lock(&s->lock);
	*stats = (struct spool_stats){.records = s->end - s->first};
	pthread_mutex_unlock(&s->lock);
}

/* --- the transport --- */

struct transport {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct transport_result script[MOST]; /* then successes */
	bool hang;			      /* until cancelled */
	bool hanging, cancelled;
	unsigned int calls;
	uint64_t at_ns[MOST];
	uint8_t first_byte[MOST];
};

void transport_send(struct transport *t, const uint8_t *request, size_t length,
		    uint64_t deadline_ns, struct transport_result *result)
{
	cr_assert_eq(length, 10);
	cr_assert_eq(deadline_ns, 7 * S);
	pthread_mutex_lock(&t->lock);
	t->at_ns[t->calls] = clock_monotonic_ns();
	t->first_byte[t->calls] = request[0];
	*result = t->script[t->calls++];
	pthread_cond_broadcast(&t->changed);
	while (t->hang && !t->cancelled) {
		t->hanging = true;
		pthread_cond_wait(&t->changed, &t->lock);
	}
	if (t->cancelled)
		*result = (struct transport_result){.code = 1, .retry_delay_ns = -1};
	pthread_mutex_unlock(&t->lock);
}

void transport_cancel(struct transport *t)
{
	pthread_mutex_lock(&t->lock);
	t->cancelled = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

/* --- a sender with this spool and this transport --- */

struct fixture {
	struct spool spool;
	struct transport transport;
	struct sender *sender;
	pthread_mutex_t lock;
	unsigned int changes;
	uint64_t delay_ns[MOST];	/* until the next attempt, as each change reports it */
	unsigned int left_when_changed; /* in the spool */
};

static void on_changed(void *context, const struct sender_stats *stats)
{
	struct fixture *fixture = context;
	struct spool_stats waiting;
	struct sender_stats same;

	pthread_mutex_lock(&fixture->lock);
	struct sender *sender = fixture->sender;
	pthread_mutex_unlock(&fixture->lock);
	/* The sender holds no lock here. sender_start() may not have returned yet. */
	if (sender) {
		sender_stats(sender, &same);
		sender_wake(sender);
	}
	spool_stats(&fixture->spool, &waiting);
	pthread_mutex_lock(&fixture->lock);
	if (stats->next_attempt_boot_ns)
		fixture->delay_ns[fixture->changes] =
		    stats->next_attempt_boot_ns - stats->last_failure_boot_ns;
	fixture->changes++;
	fixture->left_when_changed = (unsigned int)waiting.records;
	pthread_mutex_unlock(&fixture->lock);
}

static struct fixture *make(void)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	pthread_mutex_init(&fixture->lock, NULL);
	pthread_mutex_init(&fixture->spool.lock, NULL);
	pthread_mutex_init(&fixture->transport.lock, NULL);
	pthread_cond_init(&fixture->transport.changed, NULL);
	for (int i = 0; i < MOST; i++)
		fixture->transport.script[i].retry_delay_ns = -1;
	return fixture;
}

static void start(struct fixture *fixture)
{
	struct sender_config config = {
	    &fixture->spool, &fixture->transport, 7 * S, on_changed, fixture,
	};

	struct sender *sender;

	cr_assert_eq(sender_start(&config, &sender), 0);
	pthread_mutex_lock(&fixture->lock);
	fixture->sender = sender;
	pthread_mutex_unlock(&fixture->lock);
}

static void finish(struct fixture *fixture)
{
	sender_stop(fixture->sender, 0);
	free(fixture);
}

static struct transport_result *nth(struct fixture *fixture, int n, int code)
{
	fixture->transport.script[n].code = code;
	return &fixture->transport.script[n];
}

static unsigned int calls(struct fixture *fixture)
{
	pthread_mutex_lock(&fixture->transport.lock);
	unsigned int n = fixture->transport.calls;
	pthread_mutex_unlock(&fixture->transport.lock);
	return n;
}

static unsigned int locked(pthread_mutex_t *lock, const unsigned int *value)
{
	pthread_mutex_lock(lock);
	unsigned int n = *value;
	pthread_mutex_unlock(lock);
	return n;
}

/* The time limit of the test ends a hang. */
static void wait_for_calls(struct fixture *fixture, unsigned int count)
{
	while (calls(fixture) < count)
		sleep_ms(1);
}

static void wait_idle(struct fixture *fixture)
{
	while (!sender_idle(fixture->sender))
		sleep_ms(1);
}

/* --- tests --- */

Test(sender, delivers_old_and_new_records, .timeout = 60)
{
	struct fixture *fixture = make();
	struct sender_stats f;

	for (int i = 0; i < 3; i++)
		put(&fixture->spool, 10);
	start(fixture);
	wait_idle(fixture);
	cr_expect_eq(calls(fixture), 3);
	put(&fixture->spool, 5);
	cr_expect(!sender_idle(fixture->sender));
	sender_wake(fixture->sender);
	wait_idle(fixture);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.delivered_samples, 35);
	cr_expect_eq(f.delivered_requests, 4);
	cr_expect_eq(f.delivered_bytes, 40);
	cr_expect_eq(f.attempts, 4);
	cr_expect(!f.failures && !f.refused_samples && !f.partial_requests && !f.last_message[0] &&
		  !f.last_failure_boot_ns && !f.next_attempt_boot_ns);
	cr_expect(f.last_success_boot_ns > 0 && f.last_success_boot_ns <= clock_boot_ns());
	cr_expect_eq(fixture->spool.keeps, 0);
	cr_expect_eq(fixture->changes, 4);
	cr_expect_eq(fixture->left_when_changed, 0);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(fixture->transport.first_byte[i], 100 + i);
	finish(fixture);
}

Test(sender, retries_and_moves_records_to_disk, .timeout = 60)
{
	struct fixture *fixture = make();
	struct sender_stats f;

	nth(fixture, 0, 14);
	snprintf(fixture->transport.script[0].message, 10, "down");
	put(&fixture->spool, 10);
	start(fixture);
	wait_for_calls(fixture, 1);
	while (locked(&fixture->lock, &fixture->changes) < 1)
		sleep_ms(1);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.failures, 1);
	cr_expect_eq(f.last_code, 14);
	cr_expect_str_eq(f.last_message, "down");
	cr_expect_gt(f.next_attempt_boot_ns, f.last_failure_boot_ns);
	cr_expect(!sender_idle(fixture->sender));
	cr_expect_eq(locked(&fixture->spool.lock, &fixture->spool.keeps), 1);
	wait_idle(fixture);
	cr_expect_geq(fixture->transport.at_ns[1] - fixture->transport.at_ns[0], 1 * S);
	cr_expect_eq(fixture->transport.first_byte[1], 100);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.attempts, 2);
	cr_expect_eq(f.delivered_samples, 10);
	cr_expect_eq(f.next_attempt_boot_ns, 0);
	/* The last error stays visible. */
	cr_expect_str_eq(f.last_message, "down");
	cr_expect_eq(fixture->spool.keeps, 1);
	finish(fixture);
}

/* The server's delay is longer than the sender's own could be. */
Test(sender, waits_as_long_as_the_server_asks, .timeout = 60)
{
	struct fixture *fixture = make();

	nth(fixture, 0, 8)->retry_delay_ns = 2345 * (int64_t)MS;
	put(&fixture->spool, 1);
	start(fixture);
	wait_for_calls(fixture, 2);
	cr_expect_geq(fixture->transport.at_ns[1] - fixture->transport.at_ns[0], 2345 * MS);
	wait_idle(fixture);
	finish(fixture);
}

Test(sender, new_records_do_not_shorten_the_delay, .timeout = 60)
{
	struct fixture *fixture = make();

	nth(fixture, 0, 14);
	put(&fixture->spool, 1);
	start(fixture);
	wait_for_calls(fixture, 1);
	while (calls(fixture) < 2) {
		sender_wake(fixture->sender);
		sleep_ms(5);
	}
	cr_expect_geq(fixture->transport.at_ns[1] - fixture->transport.at_ns[0], 1 * S);
	wait_idle(fixture);
	finish(fixture);
}

Test(sender, the_delay_grows_and_is_reset_by_success, .timeout = 60)
{
	struct fixture *fixture = make();
	const uint64_t *at = fixture->transport.at_ns;

	nth(fixture, 0, 14);
	nth(fixture, 1, 14);
	nth(fixture, 3, 14);
	put(&fixture->spool, 1);
	put(&fixture->spool, 1);
	start(fixture);
	wait_idle(fixture);
	cr_expect_eq(calls(fixture), 5);
	cr_expect_geq(at[1] - at[0], 1 * S);
	cr_expect_geq(at[2] - at[1], 2 * S);
	cr_expect_geq(at[4] - at[3], 1 * S);
	cr_expect(fixture->delay_ns[0] >= 1 * S && fixture->delay_ns[0] <= 2 * S);
	cr_expect(fixture->delay_ns[1] >= 2 * S && fixture->delay_ns[1] <= 4 * S);
	cr_expect(fixture->delay_ns[3] >= 1 * S && fixture->delay_ns[3] <= 2 * S);
	cr_expect(!fixture->delay_ns[2] && !fixture->delay_ns[4]);
	cr_expect_eq(fixture->spool.keeps, 3);
	finish(fixture);
}

Test(sender, drops_refused_records, .timeout = 60)
{
	struct fixture *fixture = make();
	struct sender_stats f;

	nth(fixture, 0, 3);
	nth(fixture, 1, 8);
	put(&fixture->spool, 10);
	put(&fixture->spool, 20);
	put(&fixture->spool, 40);
	start(fixture);
	wait_idle(fixture);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.refused_samples, 30);
	cr_expect_eq(f.refused_requests, 2);
	cr_expect_eq(f.delivered_samples, 40);
	cr_expect_eq(f.failures, 0);
	cr_expect_eq(f.last_code, 8);
	cr_expect_eq(fixture->spool.keeps, 0);
	finish(fixture);
}

Test(sender, counts_partial_success, .timeout = 60)
{
	struct fixture *fixture = make();
	struct transport_result *result = nth(fixture, 0, 0);
	struct sender_stats f;

	result->partial = true;
	result->rejected_profiles = UINT64_MAX;
	snprintf(result->message, sizeof(result->message), "some were odd");
	*nth(fixture, 1, 0) = *result;
	put(&fixture->spool, 10);
	put(&fixture->spool, 10);
	start(fixture);
	wait_idle(fixture);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.delivered_samples, 20);
	cr_expect_eq(f.partial_requests, 2);
	cr_expect_eq(f.rejected_profiles, UINT64_MAX);
	cr_expect_eq(f.last_code, 0);
	cr_expect_str_eq(f.last_message, "some were odd");
	cr_expect_gt(f.last_failure_boot_ns, 0);
	finish(fixture);
}

/* The spool dropped the record during the delay or during the call. */
Test(sender, asks_the_spool_before_each_attempt, .timeout = 60)
{
	struct fixture *fixture = make();

	nth(fixture, 0, 14);
	put(&fixture->spool, 10);
	put(&fixture->spool, 20);
	start(fixture);
	wait_for_calls(fixture, 1);
	spool_done(&fixture->spool, 100);
	wait_idle(fixture);
	cr_expect_eq(calls(fixture), 2);
	cr_expect_eq(fixture->transport.first_byte[1], 101);
	finish(fixture);
}

Test(sender, stop_cancels_a_call_and_keeps_its_record, .timeout = 60)
{
	struct fixture *fixture = make();

	fixture->transport.hang = true;
	put(&fixture->spool, 10);
	start(fixture);
	wait_for_calls(fixture, 1);
	cr_expect(!sender_idle(fixture->sender));
	sender_stop(fixture->sender, 0);
	cr_expect_eq(fixture->spool.first, 0);
	cr_expect_eq(fixture->spool.keeps, 0);
	cr_expect_eq(fixture->changes, 0);
	free(fixture);
}

Test(sender, stop_ends_a_delay, .timeout = 60)
{
	for (int i = 0; i < 20; i++) {
		struct fixture *fixture = make();

		if (i % 2) {
			nth(fixture, 0, 14)->retry_delay_ns = 3600 * (int64_t)S;
			put(&fixture->spool, 10);
		}
		start(fixture);
		if (i > 10)
			sleep_ms(5);
		finish(fixture);
	}
}

Test(sender, continues_after_a_lack_of_memory, .timeout = 60)
{
	struct fixture *fixture = make();

	fixture->spool.no_memory = true;
	put(&fixture->spool, 10);
	start(fixture);
	wait_idle(fixture);
	cr_expect_eq(calls(fixture), 1);
	finish(fixture);
}

/* A minute passes on the clock, and nobody wakes the sender. */
static void check_expires(bool failing)
{
	struct fixture *fixture = make();

	if (failing) {
		nth(fixture, 0, 14)->retry_delay_ns = 3600 * (int64_t)S;
		put(&fixture->spool, 1);
	}
	monotonic_offset_ns = -59 * (int64_t)S;
	start(fixture);
	while (failing ? !locked(&fixture->lock, &fixture->changes) : !sender_idle(fixture->sender))
		sleep_ms(1);
	cr_expect_eq(locked(&fixture->spool.lock, &fixture->spool.expires), 0);
	monotonic_offset_ns = 0;
	while (!locked(&fixture->spool.lock, &fixture->spool.expires))
		sleep_ms(1);
	sleep_ms(20);
	cr_expect_eq(locked(&fixture->spool.lock, &fixture->spool.expires), 1);
	cr_expect_eq(calls(fixture), failing ? 1 : 0);
	finish(fixture);
}

Test(sender, expires_records_while_idle, .timeout = 60)
{
	check_expires(false);
}

Test(sender, expires_records_during_a_delay, .timeout = 60)
{
	check_expires(true);
}

/* Deliveries continue without a pause. */
Test(sender, expires_records_during_deliveries, .timeout = 60)
{
	struct fixture *fixture = make();

	start(fixture);
	wait_idle(fixture);
	monotonic_offset_ns = 61 * (int64_t)S;
	put(&fixture->spool, 1);
	sender_wake(fixture->sender);
	wait_idle(fixture);
	cr_expect_eq(locked(&fixture->spool.lock, &fixture->spool.expires), 1);
	finish(fixture);
}

Test(sender, delivers_many_records_of_another_thread, .timeout = 60)
{
	struct fixture *fixture = make();
	struct sender_stats f;

	start(fixture);
	for (int i = 0; i < MOST; i++) {
		put(&fixture->spool, 1);
		sender_wake(fixture->sender);
		if (i % 8 == 0)
			sleep_ms(1);
	}
	wait_idle(fixture);
	sender_stats(fixture->sender, &f);
	cr_expect_eq(f.delivered_samples, MOST);
	cr_expect_eq(calls(fixture), MOST);
	finish(fixture);
}

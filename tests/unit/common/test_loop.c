/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/loop.h"

struct test;

/* Something that is readable from the start. */
struct source {
	struct test *test;
	int fd;
	unsigned int calls;
	uint32_t events;
};

struct test {
	struct loop loop;
	struct source sources[64];
	unsigned int source_count;
	unsigned int ticks, ticks_max;
	uint64_t tick_times[64];
};

static struct test *test_new(unsigned int source_count, loop_fn fn)
{
	struct test *t = calloc(1, sizeof(*t));

	cr_assert(t && loop_init(&t->loop) == 0);
	t->source_count = source_count;
	for (unsigned int i = 0; i < source_count; i++) {
		t->sources[i] =
		    (struct source){.test = t, .fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
		cr_assert_eq(loop_add(&t->loop, t->sources[i].fd, EPOLLIN, fn, &t->sources[i]), 0);
	}
	return t;
}

static void test_free(struct test *t)
{
	for (unsigned int i = 0; i < t->source_count; i++)
		close(t->sources[i].fd);
	loop_fini(&t->loop);
	free(t);
}

static void stop(void *context, uint32_t events)
{
	struct source *s = context;

	s->calls++;
	s->events = events;
	loop_stop(&s->test->loop, 42);
}

Test(loop, readable_source_is_called_and_stop_ends_the_loop, .timeout = 10)
{
	struct test *t = test_new(1, stop);

	cr_assert_eq(loop_run(&t->loop), 42);
	cr_assert_eq(t->sources[0].calls, 1);
	cr_assert_eq(t->sources[0].events, EPOLLIN);
	cr_assert_eq(loop_run(&t->loop), 42, "it stays stopped");
	cr_assert_eq(t->sources[0].calls, 1);
	test_free(t);
}

Test(loop, nothing_is_called_after_stop, .timeout = 10)
{
	struct test *t = test_new(10, stop);
	unsigned int calls = 0;

	loop_run(&t->loop);
	for (unsigned int i = 0; i < t->source_count; i++)
		calls += t->sources[i].calls;
	cr_assert_eq(calls, 1);
	test_free(t);
}

/* The source that is called first removes all others, whose events were fetched already. */
static void remove_others(void *context, uint32_t events)
{
	struct source *s = context;
	struct test *t = s->test;

	(void)events;
	s->calls++;
	for (unsigned int i = 0; i < t->source_count; i++) {
		if (&t->sources[i] != s)
			loop_remove(&t->loop, t->sources[i].fd);
	}
	if (s->calls == 3)
		loop_stop(&t->loop, 0);
}

Test(loop, source_removed_in_the_same_turn_is_not_called, .timeout = 10)
{
	struct test *t = test_new(20, remove_others);
	unsigned int calls = 0;

	loop_run(&t->loop);
	for (unsigned int i = 0; i < t->source_count; i++)
		calls += t->sources[i].calls;
	cr_assert_eq(calls, 3, "one of them, three times");
	test_free(t);
}

static void tick_to_the_end(void *context, uint32_t events)
{
	struct test *t = context;

	(void)events;
	t->tick_times[t->ticks++] = clock_monotonic_ns();
	if (t->ticks == t->ticks_max)
		loop_stop(&t->loop, 7);
}

static void remove_itself(void *context, uint32_t events)
{
	struct source *s = context;

	(void)events;
	s->calls++;
	loop_remove(&s->test->loop, s->fd);
}

Test(loop, source_may_remove_itself, .timeout = 10)
{
	struct test *t = test_new(5, remove_itself);

	t->ticks_max = 4;
	loop_set_tick(&t->loop, 1, tick_to_the_end, t);
	cr_assert_eq(loop_run(&t->loop), 7);
	for (unsigned int i = 0; i < t->source_count; i++)
		cr_assert_eq(t->sources[i].calls, 1);
	test_free(t);
}

/* A descriptor is closed, and another file gets the same descriptor number, while an event of the old
 * file is pending. The source of the new file must not be called for it. */
static void replace_next(void *context, uint32_t events)
{
	struct source *s = context;
	struct test *t = s->test;
	struct source *other = s == &t->sources[0] ? &t->sources[1] : &t->sources[0];

	(void)events;
	if (s->calls++)
		return;
	loop_remove(&t->loop, other->fd);
	int quiet = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cr_assert_eq(dup2(quiet, other->fd), other->fd);
	close(quiet);
	cr_assert_eq(loop_add(&t->loop, other->fd, EPOLLIN, replace_next, other), 0);
	loop_remove(&t->loop, s->fd);
}

Test(loop, reused_descriptor_does_not_get_the_old_sources_event, .timeout = 10)
{
	struct test *t = test_new(2, replace_next);

	t->ticks_max = 3;
	loop_set_tick(&t->loop, 1, tick_to_the_end, t);
	loop_run(&t->loop);
	cr_assert_eq(t->sources[0].calls + t->sources[1].calls, 1);
	test_free(t);
}

static void add_one_more(void *context, uint32_t events)
{
	struct source *s = context;
	struct test *t = s->test;

	(void)events;
	s->calls++;
	loop_remove(&t->loop, s->fd);
	struct source *more = &t->sources[t->source_count++];
	*more = (struct source){.test = t, .fd = eventfd(1, EFD_CLOEXEC)};
	cr_assert_eq(loop_add(&t->loop, more->fd, EPOLLIN, stop, more), 0);
}

Test(loop, source_may_add_another, .timeout = 10)
{
	struct test *t = test_new(1, add_one_more);

	cr_assert_eq(loop_run(&t->loop), 42);
	cr_assert_eq(t->sources[1].calls, 1);
	test_free(t);
}

Test(loop, modified_source_gets_the_new_events, .timeout = 10)
{
	struct test *t = test_new(1, stop);

	cr_assert_eq(loop_modify(&t->loop, t->sources[0].fd, EPOLLOUT), 0);
	loop_run(&t->loop);
	cr_assert_eq(t->sources[0].events, EPOLLOUT);
	loop_remove(&t->loop, t->sources[0].fd);
	cr_assert_eq(loop_modify(&t->loop, t->sources[0].fd, EPOLLIN), -ENOENT);
	cr_assert_eq(loop_modify(&t->loop, 9999, EPOLLIN), -ENOENT);
	loop_remove(&t->loop, 9999);
	test_free(t);
}

Test(loop, descriptors_that_epoll_cannot_watch_are_refused)
{
	struct test *t = test_new(1, stop);

	cr_assert_eq(loop_add(&t->loop, t->sources[0].fd, EPOLLIN, stop, NULL), -EEXIST);
	cr_assert_eq(loop_add(&t->loop, -1, EPOLLIN, stop, NULL), -EBADF);
	int file = open("/proc/self/exe", O_RDONLY);
	cr_assert_eq(loop_add(&t->loop, file, EPOLLIN, stop, NULL), -EPERM);
	close(file);
	cr_assert_eq(t->loop.source_count, 1);
	test_free(t);
}

Test(loop, tick_is_called_at_its_interval, .timeout = 10)
{
	struct test *t = test_new(0, NULL);
	const uint64_t period_ns = 5000000;

	t->ticks_max = 10;
	loop_set_tick(&t->loop, 5, tick_to_the_end, t);
	const uint64_t begin = clock_monotonic_ns();
	cr_assert_eq(loop_run(&t->loop), 7);
	cr_assert_lt(t->tick_times[0] - begin, 1000000000u, "the first at once");
	for (unsigned int i = 1; i < t->ticks; i++)
		cr_assert_geq(t->tick_times[i] - t->tick_times[i - 1] + 500000, period_ns);
	cr_assert_lt(t->tick_times[9] - begin, 9 * period_ns + 2000000000u);
	test_free(t);
}

static void tick_early_once(void *context, uint32_t events)
{
	struct test *t = context;

	if (t->ticks == 0)
		loop_tick_within(&t->loop, 5);
	else if (t->ticks == 1)
		loop_tick_within(&t->loop, 60000000);
	tick_to_the_end(context, events);
}

/* One tick is requested early, from within a tick. Another is requested for a time after the next
 * regular tick. */
Test(loop, early_tick_comes_in_time_and_a_late_request_changes_nothing, .timeout = 10)
{
	struct test *t = test_new(0, NULL);

	t->ticks_max = 3;
	loop_set_tick(&t->loop, 1000, tick_early_once, t);
	cr_assert_eq(loop_run(&t->loop), 7);
	cr_assert_lt(t->tick_times[1] - t->tick_times[0], 900000000u);
	cr_assert_geq(t->tick_times[2] - t->tick_times[1] + 500000, 1000000000u);
	test_free(t);
}

/* A source that is always readable wakes the loop all the time. This must change neither the number
 * of ticks nor their times. */
static void count_only(void *context, uint32_t events)
{
	(void)events;
	((struct source *)context)->calls++;
}

Test(loop, tick_comes_although_a_source_is_always_readable, .timeout = 10)
{
	struct test *t = test_new(3, count_only);

	t->ticks_max = 5;
	loop_set_tick(&t->loop, 5, tick_to_the_end, t);
	loop_run(&t->loop);
	for (unsigned int i = 1; i < t->ticks; i++)
		cr_assert_geq(t->tick_times[i] - t->tick_times[i - 1] + 500000, 5000000);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_gt(t->sources[i].calls, 5);
	test_free(t);
}

static volatile sig_atomic_t signalled;

static void handle_signal(int number)
{
	signalled = number;
}

static void on_signal(void *context, uint32_t events)
{
	(void)events;
	loop_stop(context, 9);
}

static void raise_signal(void *context, uint32_t events)
{
	(void)context, (void)events;
	raise(SIGUSR1);
}

/* The signal comes while a tick is handled, so the next turn notices it. */
Test(loop, a_signal_is_handled_once, .timeout = 10)
{
	struct test *t = test_new(0, NULL);

	signal(SIGUSR1, handle_signal);
	loop_watch_signal(&t->loop, &signalled, on_signal, &t->loop);
	loop_set_tick(&t->loop, 1, raise_signal, NULL);
	cr_expect_eq(loop_run(&t->loop), 9);
	cr_expect_eq(signalled, 0);
	test_free(t);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see loop.h. */
#include "common/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/clock.h"

int loop_init(struct loop *loop)
{
	*loop = (struct loop){.tick_ms = -1};
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return loop->epoll_fd < 0 ? -errno : 0;
}

void loop_fini(struct loop *loop)
{
	for (unsigned int i = 0; i < loop->source_count; i++)
		free(loop->sources[i]);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	loop->epoll_fd = -1;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *context)
{
	if (loop->source_count == LOOP_SOURCES_MAX)
		return -ENOSPC;
	struct loop_source *source = malloc(sizeof(*source));
	if (!source)
		return -ENOMEM;
	*source = (struct loop_source){.fd = fd, .fn = fn, .context = context};
	struct epoll_event event = {.events = events, .data.ptr = source};
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		int r = -errno;

		free(source);
		return r;
	}
	loop->sources[loop->source_count++] = source;
	return 0;
}

static struct loop_source *loop_find(struct loop *loop, int fd)
{
	for (unsigned int i = 0; i < loop->source_count; i++) {
		if (loop->sources[i]->fd == fd)
			return loop->sources[i];
	}
	return NULL;
}

int loop_modify(struct loop *loop, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = loop_find(loop, fd)};

	if (!event.data.ptr)
		return -ENOENT;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

/* Keeps the source without a function until the turn ends, because an event for it may already have
 * been fetched. */
void loop_remove(struct loop *loop, int fd)
{
	struct loop_source *source = loop_find(loop, fd);

	if (!source)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	source->fn = NULL;
	source->fd = -1;
}

void loop_set_tick(struct loop *loop, int ms, loop_fn fn, void *context)
{
	loop->tick_ms = ms;
	loop->tick = fn;
	loop->tick_context = context;
	loop->next_tick_ns = clock_monotonic_ns();
}

void loop_tick_within(struct loop *loop, int ms)
{
	const uint64_t at_ns = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;

	if (loop->next_tick_ns > at_ns)
		loop->next_tick_ns = at_ns;
}

/* Frees the removed sources, at the end of a turn, when no fetched event refers to them. */
static void loop_sweep(struct loop *loop)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < loop->source_count; i++) {
		if (loop->sources[i]->fn)
			loop->sources[kept++] = loop->sources[i];
		else
			free(loop->sources[i]);
	}
	loop->source_count = kept;
}

static int loop_wait(const struct loop *loop, struct epoll_event *events, int room)
{
	int timeout = -1;

	if (loop->tick) {
		const uint64_t now = clock_monotonic_ns(), at = loop->next_tick_ns;

		timeout = at <= now ? 0 : (int)ns_to_ms_round_up(at - now);
	}
	int n = epoll_wait(loop->epoll_fd, events, room, timeout);

	return n < 0 ? -errno : n;
}

void loop_watch_signal(struct loop *loop, volatile sig_atomic_t *signalled, loop_fn fn,
		       void *context)
{
	loop->signalled = signalled;
	loop->on_signal = fn;
	loop->signal_context = context;
}

static void loop_check_signal(struct loop *loop)
{
	if (!loop->signalled || !*loop->signalled)
		return;
	*loop->signalled = 0;
	loop->on_signal(loop->signal_context, 0);
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[32];

	while (!loop->stopped) {
		int n = loop_wait(loop, events, 32);

		if (n < 0 && n != -EINTR)
			return n;
		loop_check_signal(loop);
		for (int i = 0; i < n && !loop->stopped; i++) {
			struct loop_source *source = events[i].data.ptr;

			if (source->fn)
				source->fn(source->context, events[i].events);
		}
		loop_sweep(loop);
		uint64_t now = clock_monotonic_ns();
		if (loop->tick && !loop->stopped && now >= loop->next_tick_ns) {
			/* Set before the call, which may ask for an earlier tick. */
			loop->next_tick_ns = now + (uint64_t)loop->tick_ms * NS_PER_MS;
			loop->tick(loop->tick_context, 0);
		}
	}
	return loop->status;
}

void loop_stop(struct loop *loop, int status)
{
	loop->stopped = true;
	loop->status = status;
}

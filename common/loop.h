/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of every role: file descriptors and one periodic tick, on top of epoll.
 *
 * How this works. loop_run waits for events of its sources and calls their functions; one turn
 * handles all events that were fetched together. A function may remove any source, also one whose
 * event was fetched in the same turn and is still to come. So a removed source only loses its
 * function, and is freed when the turn has ended.
 *
 * The tick is for work that no descriptor announces. A wake-up costs tens of microseconds, so a
 * role ticks slowly, and asks for an early tick when it knows that there will be work.
 *
 * Example: the tick is 1000 ms, and the last one was at t = 0. At t = 400 a message leaves a stack
 * to be retried, and its handler calls loop_tick_within(10). The next tick is at 410, and the one
 * after that at 1410.
 */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LOOP_SOURCES_MAX = 1100 /* more than any role has peers, rings and signals */
};

/* Called with the events that occurred: EPOLLIN, EPOLLOUT, EPOLLHUP, ... */
typedef void (*loop_fn)(void *context, uint32_t events);

struct loop_source {
	int fd;
	loop_fn fn;
	void *context;
};

struct loop {
	int epoll_fd;
	struct loop_source *sources[LOOP_SOURCES_MAX];
	unsigned int source_count;
	loop_fn tick;
	void *tick_context;
	int tick_ms; /* -1 if there is no tick */
	uint64_t next_tick_ns;
	volatile sig_atomic_t *signalled; /* NULL: no signal handler sets anything */
	loop_fn on_signal;
	void *signal_context;
	bool stopped;
	int status; /* what loop_run returns */
};

/* Returns 0 or a negative errno. */
int loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

/* Calls `fn` for `events` of `fd`, which is borrowed. Returns 0, -ENOSPC if there are too many
 * sources, -ENOMEM, or the negative errno of epoll_ctl. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *context);
/* Changes the events of a source. Returns 0, -ENOENT, or the negative errno of epoll_ctl. */
int loop_modify(struct loop *loop, int fd, uint32_t events);
/* Removes a source. Its function is not called any more, not even for events already fetched. */
void loop_remove(struct loop *loop, int fd);

/* Calls `fn` about every `ms` milliseconds; the first time at once. */
void loop_set_tick(struct loop *loop, int ms, loop_fn fn, void *context);

/* Lets the next tick come within `ms` milliseconds. */
void loop_tick_within(struct loop *loop, int ms);

/* Calls `fn` once when a signal handler has set `*signalled`, which is cleared. A signal that comes
 * between two turns may be noticed with the next event or tick only. */
void loop_watch_signal(struct loop *loop, volatile sig_atomic_t *signalled, loop_fn fn,
		       void *context);

/* Handles events until loop_stop. Returns the status given there, or a negative errno. */
int loop_run(struct loop *loop);

/* Ends loop_run after the function that calls this. */
void loop_stop(struct loop *loop, int status);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of every role: file descriptors and one periodic tick, over epoll. */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LOOP_SOURCES_MAX = 1100
};

/* `events` are EPOLLIN, EPOLLOUT, EPOLLHUP, ... */
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
	int tick_ms; /* -1: none */
	uint64_t next_tick_ns;
	bool stopped;
	int status; /* exit status, for whoever stopped the loop */
};

int loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

/* Watch `fd` (borrowed) for `events`. 0, -ENOSPC or what epoll_ctl gave. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *context);
int loop_modify(struct loop *loop, int fd, uint32_t events);
void loop_remove(struct loop *loop, int fd);

/* Call `fn` about every `ms` milliseconds, and after each wake-up not more often than that. */
void loop_set_tick(struct loop *loop, int ms, loop_fn fn, void *context);

/* The next tick comes in `ms` milliseconds, unless it would have come earlier. A wake-up costs tens
 * of microseconds: a role ticks slowly and asks for an early tick when there is something to do. */
void loop_tick_within(struct loop *loop, int ms);

/* Until loop_stop. Returns its status, or a negative errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop, int status);

#endif

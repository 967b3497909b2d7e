/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long nothing was sampled because the roles were started again.
 *
 * How this works. While it samples, an agent notes the time once a second, and when it is asked to
 * end. When all roles are ready and sampling begins, what lies between is a pause: a role has
 * failed without which the others cannot go on, or a package was upgraded. An agent that is a
 * service has its service manager keep the note, so that the next process finds it. A service that
 * was stopped for a time has no pause when it starts, because its service manager gives up what it
 * kept. Nor has an agent in the intervals in which it does not want to sample. A loader that is
 * started again alone leaves links that go on sampling; where there are none, it logs its pause
 * itself (loader/events.c).
 *
 * Example: an upgrade asks all services to end at 100.0 s and starts them again. At 101.7 s all are
 * ready. The pause was 1.7 s.
 */
#ifndef CONTROL_SAMPLING_PAUSE_H
#define CONTROL_SAMPLING_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct sampling_note {
	uint64_t sampled_ns; /* CLOCK_MONOTONIC, of the last note; 0: nothing was to be sampled */
	uint64_t paused_ns;  /* all pauses so far */
};

struct sampling_pause {
	struct sampling_note *note; /* NULL: there is no memory */
};

/* Takes over the note of the process before this one, or makes one. `notify_fd`: the service
 * manager that keeps it (role/service_manager.h); -1: none does. Without memory, which is logged,
 * pauses are not counted. */
void sampling_pause_open(struct sampling_pause *pause, int notify_fd);
void sampling_pause_close(struct sampling_pause *pause);

/* Notes that the roles sample now, or are not to. */
void sampling_pause_note(struct sampling_pause *pause, uint64_t now_ns, bool sampling);

/* Counts and logs the pause that ends now, if there was one: sampling begins. */
void sampling_pause_end(struct sampling_pause *pause, uint64_t now_ns);

/* Returns how long all pauses were together, in nanoseconds. */
uint64_t sampling_pause_total(const struct sampling_pause *pause);

#endif

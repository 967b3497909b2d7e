/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's main loop: taking samples from the ring, sending batches at each tick, and the end
 * of a recording. */
#ifndef SYMBOLIZER_WORKER_TURN_H
#define SYMBOLIZER_WORKER_TURN_H

#include <stdint.h>

struct worker;

enum {
	TURN_TICK_MS = 1000 /* batches are sent, and the CLI gets the counters, this often */
};

/* Event handlers for the loop; `context` is the worker. */
void turn_on_tick(void *context, uint32_t events);
void turn_on_ring(void *context, uint32_t events);

/* Send the counters to the CLI, with the state of the role. */
void turn_send_status(struct worker *worker);

/* Tell the exporter that all samples of the recording were sent. */
void turn_send_end(struct worker *worker);

#endif

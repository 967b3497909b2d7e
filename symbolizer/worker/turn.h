/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's main loop: taking samples from the ring, sending batches at each tick, and the end
 * of a recording.
 *
 * How this works. A turn takes records from the ring until it is empty, or until messages have to
 * be handled again. A record stays at the head of the ring, and the turn ends, if
 * - it refers to a module that the manager has not announced yet, and that may still come,
 * - naming its frames takes longer than a turn, and goes on in the next one,
 * - the batch is full and has to wait for the identities of new processes,
 * - too many batches wait because an agent's exporter is being restarted, or
 * - the worker takes over from another one, and was not told yet which modules there are.
 *
 * The ring is large enough for such pauses; if it is full, the kernel side counts what it drops.
 *
 * A tick goes on with files that are being read and with the language runtimes, takes what is in
 * the ring, sends the batch and then the counters. The recording has ended when STOP was received,
 * the manager has sent its last deferred stack (DRAINED), and no sample waits: then END goes to the
 * exporter.
 *
 * Example: a compiler starts, and its first sample arrives 3 ms before MODULE does. The turn leaves
 * it in the ring and requests a tick in 20 ms; by then the module is announced, and the turn
 * continues with that sample. The order of the samples is kept.
 */
#ifndef SYMBOLIZER_WORKER_TURN_H
#define SYMBOLIZER_WORKER_TURN_H

#include <stddef.h>
#include <stdint.h>

struct worker;

enum {
	TURN_TICK_MS = 1000 /* batches are sent, and the CLI gets the counters, this often */
};

/* Event handlers for the loop; `context` is the worker. */
void turn_on_tick(void *context, uint32_t events);
void turn_on_ring(void *context, uint32_t events);

/* Adds a sample of the manager, or lets it wait for its names (late_samples.h). */
void turn_on_deferred(struct worker *worker, const void *record, size_t length);

/* The worker takes over from another one, for which samples may wait. None is taken from the ring
 * until the manager has told of all modules and processes, or has not done so in time. */
void turn_take_over(struct worker *worker);

/* Reports that the role is ready, once the language runtimes that run already are attached, or it
 * has been waited for them. Called whenever that may have changed. */
void turn_check_ready(struct worker *worker);

/* Sends the counters to the CLI, with the state of the role. */
void turn_send_status(struct worker *worker);

/* Tells the exporter that all samples of the recording were sent. */
void turn_send_end(struct worker *worker);

#endif

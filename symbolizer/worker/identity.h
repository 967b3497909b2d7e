/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of processes: container, service name, and chosen environment variables.
 *
 * How this works:
 * - A process that is seen for the first time gets an id at once. The opener is asked once for its
 *   files in /proc: stat, cgroup, and environ if that is configured.
 * - The process is described to the exporter when the batch with its first sample is closed, with
 *   what was found by then. The batch is held back for the answer, for LIMIT_IDENTITY_HOLD_MS at
 *   most.
 * - An answer that comes later gives the process a new id from its next sample on, and a new
 *   description.
 * - A process that has ended before the opener could look gets the container of its cgroup, if that
 *   is recorded from other processes (containers.h).
 *
 * Example: the first sample of process 42 comes; it gets the id 7 and the opener is asked. The
 * answer comes 1 ms later: container "abc". The batch is sent at the next tick with process 7,
 * container "abc". Had the answer come after that, process 7 would have no container, and the next
 * sample of 42 would be of a process 8 with container "abc".
 *
 * Without a configuration nothing is asked for. All functions may be called nevertheless.
 */
#ifndef SYMBOLIZER_WORKER_IDENTITY_H
#define SYMBOLIZER_WORKER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "ipc/messages.h"
#include "ipc/peer.h"
#include "records/records.h"
#include "symbolizer/worker/id_key.h"

struct worker;

/* Starts asking for what the CLI configured. Returns 0; -ENOMEM; or -EPROTO if the configuration is
 * malformed or the second one. */
int identity_configure(struct worker *worker, const struct msg_configure_worker *configuration);
void identity_free(struct worker *worker);

/*
 * Finds the id of a process that has none in worker->ids.processes, where `key` is its place.
 * `record` is its description without id and identity. A later identity_describe() describes it;
 * when nothing more can be found out, the id is stored in worker->ids.processes. Returns 0;
 * -ENOMEM; or -ENOBUFS if too many processes wait for their description, which cannot happen after
 * batch_reserve().
 */
int identity_get_id(struct worker *worker, const struct bh_sample *header, XXH128_hash_t key,
		    const struct record_process *record, uint32_t *id);

/* Handles an answer to OPEN_IDENTITY, whose descriptors stay the message's. An answer without a
 * request is ignored. */
void identity_on_answer(struct worker *worker, const struct message *message);

/* Returns whether the batch has processes whose answer may still come in time. */
bool identity_must_wait(const struct worker *worker);

/* Describes the processes that have ids but no description, in the batch that is about to be
 * closed. */
void identity_describe(struct worker *worker);

/* Drops the processes, when all ids were reset. Containers stay recorded. */
void identity_reset(struct worker *worker);

#endif

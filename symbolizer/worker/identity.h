/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose samples these are: container, service, chosen environment variables. A process that is met
 * for the first time is numbered at once; the opener is asked for its files in /proc, once; and
 * when the batch goes out in which it was met, the process is described with what has come. A batch
 * is held back for that by LIMIT_IDENTITY_HOLD_MS at most. An answer that is later still gives the
 * process a new number, from its next sample on.
 *
 * Without a configuration none of this happens; all functions may be called all the same.
 */
#ifndef SYMBOLIZER_WORKER_IDENTITY_H
#define SYMBOLIZER_WORKER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#include "bpf/shared.h"
#include "ipc/messages.h"
#include "ipc/peer.h"
#include "records/records.h"

struct worker;

/* What the CLI wants to know; it says so once. 0, -ENOMEM, or -EPROTO: not well-formed, or said
 * before. */
int identity_configure(struct worker *worker, const struct msg_configure_worker *configuration);
void identity_free(struct worker *worker);

/*
 * The number of a process that has none in worker->ids.processes: `key` is its place there,
 * `record` what is known of it but number and identity. It is described by a later
 * identity_describe; then, or when there is nothing more to come, the number goes there. 0, or
 * -ENOBUFS: samples_full() was true.
 */
int identity_get_id(struct worker *worker, const struct bh_sample *header, XXH128_hash_t key,
		    const struct record_process *record, uint32_t *id);

/* An answer to OPEN_IDENTITY; the descriptors stay the message's. What was not asked is ignored. */
void identity_on_answer(struct worker *worker, const struct message *message);

/* The batch has processes whose answer is on its way and still worth the wait. */
bool identity_must_wait(const struct worker *worker);

/* Describe what was numbered, to the batch that is about to go out. */
void identity_describe(struct worker *worker);

/* All numbers were forgotten: so are the processes. Containers stay known. */
void identity_reset(struct worker *worker);

#endif

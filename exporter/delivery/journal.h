/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The journal is a memfd that the agent keeps, so it survives an exporter that is
 * killed. It contains the worker's batches since the last reset, when the worker started to
 * describe everything again. The file is a sequence of records: 8 bytes with the length of a batch,
 * the batch, and padding to a multiple of 8. `bytes`, in the shared statistics, is the length of
 * the valid part. It is written after the record, so a record that was only half written is not
 * seen.
 *
 * Example: batches of 100 and 20 bytes.
 *
 *   offset   0: the number 100    offset   8: 100 bytes, and 4 of padding
 *   offset 112: the number 20     offset 120: 20 bytes, and 4 of padding
 *   `bytes` is 144
 */
#ifndef EXPORTER_DELIVERY_JOURNAL_H
#define EXPORTER_DELIVERY_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

struct journal {
	int fd;
	uint64_t *bytes; /* in the shared statistics */
};

/* Appends a batch. Returns 0, or a negative errno and the journal is unchanged. */
int journal_append(struct journal *journal, const uint8_t *data, size_t length);

/* Makes the journal empty and gives its memory back. */
void journal_clear(struct journal *journal);

/* Calls `fn` for every batch in order. `fn` returns 0, or a negative errno that ends the replay.
 * Returns what `fn` returned, -EBADMSG if the contents are no journal, or -ENOMEM. */
int journal_replay(const struct journal *journal,
		   int (*fn)(void *context, const uint8_t *data, size_t length), void *context);

#endif

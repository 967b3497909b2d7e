/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches since everything was last described anew, in a memfd that outlives the process: what
 * an exporter that was killed knew, and had not put into the spool yet. Records of length, sequence
 * number and batch; how far it goes is in the stats, written last.
 */
#ifndef EXPORTER_DELIVERY_JOURNAL_H
#define EXPORTER_DELIVERY_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

struct journal {
	int fd;
	uint64_t *bytes; /* in the stats */
};

/* 0 or a negative errno: it is as it was. */
int journal_append(struct journal *journal, const uint8_t *data, size_t length);

/* Forget all, give back the memory. */
void journal_clear(struct journal *journal);

/* Every batch, in order; `fn` returns 0 or a negative errno, which ends it. -EBADMSG if what is
 * there is no journal (any more). */
int journal_replay(const struct journal *journal,
		   int (*fn)(void *context, const uint8_t *data, size_t length), void *context);

#endif

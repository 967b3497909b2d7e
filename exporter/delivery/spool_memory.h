/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The spool's first tier: records in a memfd, which survives the process that wrote
 * it. Private to the spool; the caller holds the lock.
 *
 * The first page of the file contains two copies of the state. The valid one with the larger
 * sequence number counts, and the next state is written over the other one. Wherever the process is
 * killed, a state is therefore published as a whole or not at all. Records are appended after the
 * tail of the published state, where no reader looks. Then a state with the new tail is published.
 * The pages before the head are given back to the system.
 *
 * Example: two groups, of the records 1 and of 2 and 3.
 *
 *   state A: head 4096, tail 4096        empty
 *   record 1 is written at 4096, then
 *   state B: head 4096, tail 4300        1 is visible
 *   2 and 3 are written at 4300 and 4500; killed here, only 1 is visible
 *   state A: head 4096, tail 4700        1, 2, 3 are visible
 *   1 is delivered
 *   state B: head 4300, tail 4700        2, 3 are visible
 */
#ifndef EXPORTER_DELIVERY_SPOOL_MEMORY_H
#define EXPORTER_DELIVERY_SPOOL_MEMORY_H

#include "exporter/delivery/spool_record.h"

enum {
	SPOOL_MEMORY_START = 4096 /* where the records start: after the page with the state */
};

struct spool_memory {
	int fd;
	unsigned int slot; /* 0 or 1: the copy of the state that is valid */
	uint64_t sequence;
	uint64_t head, tail; /* of the published records */
	uint64_t end;	     /* the tail plus the group that is being written */
	uint64_t number;    /* the last number that was assigned, that of the open group included */
	uint64_t published; /* the last number that was published */
	uint64_t mark;
	uint64_t records, samples; /* published */
	uint64_t group_records, group_samples;
	size_t record_bytes_max;
};

/* Takes over what is in the file, or makes it empty if it is not valid. Numbers above `number_max`
 * are forged. Returns 0, or a negative errno if the file cannot be used. */
int spool_memory_open(struct spool_memory *memory, int fd, size_t record_bytes_max,
		      uint64_t number_max, struct spool_losses *losses);

/* Returns the bytes in use, including those of the open group. */
static inline uint64_t spool_memory_bytes(const struct spool_memory *memory)
{
	return memory->end - memory->head;
}

/* Appends a record. `record` has room for the header before its frame. The caller has set the
 * lengths, time, samples and mark of the header; the rest is set here. Returns 0, or a negative
 * errno; then nothing has changed. */
int spool_memory_append(struct spool_memory *memory, struct spool_header *header, uint8_t *record,
			bool ends_group);

/* Ends the open group, if there is one, with what it has. Returns 0; or a negative errno, and it is
 * still open. */
int spool_memory_end_group(struct spool_memory *memory, uint64_t mark);

/* Prepares a scan whose first step will find the oldest published record. */
void spool_memory_scan(const struct spool_memory *memory, struct spool_scan *scan);

/* Finds the oldest published record, to which `scan` points afterwards. Damaged records before it
 * are dropped and counted. Returns false if there is none. */
bool spool_memory_front(struct spool_memory *memory, struct spool_scan *scan,
			struct spool_losses *losses);

/* Removes everything before `offset`: this many records, with this many samples. */
void spool_memory_remove(struct spool_memory *memory, uint64_t offset, uint64_t records,
			 uint64_t samples);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool's first tier: records in a memfd, which outlives the process that wrote it. A private
 * part of spool.h; not locked.
 *
 * The file's first page holds the state twice; the copy with the greater sequence counts, and the
 * next state is written over the other one. So a state is published at once or not at all, wherever
 * the process is killed. Records are appended behind the state's tail, where nobody looks, before a
 * state with the new tail is published. What is behind the head is given back as a hole.
 */
#ifndef EXPORTER_DELIVERY_SPOOL_MEMORY_H
#define EXPORTER_DELIVERY_SPOOL_MEMORY_H

#include "exporter/delivery/spool_record.h"

enum {
	SPOOL_MEMORY_START = 4096
};

struct spool_memory {
	int fd;
	unsigned int slot; /* of the state that counts */
	uint64_t sequence;
	uint64_t head, tail; /* of what is published */
	uint64_t end;	     /* the tail, and the group that is being put */
	uint64_t number;     /* the last that was given, the group's included */
	uint64_t published;  /* the last that was published */
	uint64_t mark;
	uint64_t records, samples; /* published */
	uint64_t group_records, group_samples;
	size_t record_bytes_max;
};

/* Take up what is there, or begin anew. Numbers above `number_max` are not believed. 0 or negative
 * errno: the file cannot be used. */
int spool_memory_open(struct spool_memory *memory, int fd, size_t record_bytes_max,
		      uint64_t number_max, struct spool_losses *losses);

/* Bytes in use, the group that is being put included. */
static inline uint64_t spool_memory_bytes(const struct spool_memory *memory)
{
	return memory->end - memory->head;
}

/* `record` has room for the header in front of its frame; of the header lengths, time, samples and
 * mark are set. 0 or negative errno: nothing has changed. */
int spool_memory_append(struct spool_memory *memory, struct spool_header *header, uint8_t *record,
			bool ends_group);

/* A scan whose next step gives the oldest published record. */
void spool_memory_scan(const struct spool_memory *memory, struct spool_scan *scan);

/* The oldest published record: `scan` is that step. What is damaged before it is dropped. */
bool spool_memory_front(struct spool_memory *memory, struct spool_scan *scan,
			struct spool_losses *losses);

/* Forget what is in front of `offset`: so many records and samples. */
void spool_memory_remove(struct spool_memory *memory, uint64_t offset, uint64_t records,
			 uint64_t samples);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool's second tier: segment files in a directory. A private part of spool.h; not locked.
 *
 * A segment is called by the number of its first record, in 16 hexadecimal digits, and ".spool";
 * its records' numbers follow each other, so no record can claim a number that others will have. A
 * segment is removed when all of its records are done. For the one that is being read, the file
 * "cursor" says up to which number they are. No file is open between calls.
 */
#ifndef EXPORTER_DELIVERY_SPOOL_DISK_H
#define EXPORTER_DELIVERY_SPOOL_DISK_H

#include "exporter/delivery/spool_record.h"

struct spool_segment {
	uint64_t first;		   /* its name */
	uint64_t done;		   /* all up to this number are */
	uint64_t last;		   /* number */
	uint64_t size, read;	   /* bytes; where the records begin that wait */
	uint64_t records, samples; /* that wait */
	uint64_t newest_unix_ns;
	bool grows; /* it is this process's own: records may be appended */
};

struct spool_disk {
	int fd; /* of the directory; -1: none */
	uint64_t bytes_max, segment_bytes_max;
	size_t record_bytes_max;
	uint64_t number_max; /* believed */
	struct spool_segment *segments;
	size_t count, capacity;
	uint64_t bytes;
	uint64_t number; /* the greatest that was found, written, or said to be done */
	int error;
};

/* Numbers that the memory holds, so that their torn copies on disk are no loss; 0, 0 for none. */
struct spool_range {
	uint64_t first, last;
};

/* `disk` has its fd, caps and number_max, and nothing else. Take up what is there. 0 or -ENOMEM;
 * other faults go to disk->error. */
int spool_disk_open(struct spool_disk *disk, struct spool_range in_memory,
		    struct spool_losses *losses);
void spool_disk_close(struct spool_disk *disk);

/* Can the directory be written? disk->error tells. */
void spool_disk_probe(struct spool_disk *disk);

bool spool_disk_has(const struct spool_disk *disk, uint64_t number);

/* The oldest record: `scan` has found it, its fd is open and the caller's. What is damaged before
 * it is dropped. False too if the file cannot be opened for now: disk->error. */
bool spool_disk_front(struct spool_disk *disk, struct spool_scan *scan,
		      struct spool_losses *losses);
void spool_disk_pop(struct spool_disk *disk, const struct spool_scan *scan);

/* Remove the oldest segment, what waits in it to be counted in `samples`. */
void spool_disk_drop(struct spool_disk *disk, uint64_t *samples);

/* Records on their way to a segment: begin, append, commit. */
struct spool_writer {
	int fd;
	struct spool_segment segment; /* as it will be */
	uint64_t size;		      /* as it was */
	bool fresh;
};

/* Open the segment that `header`'s record belongs into. 0 or negative errno. */
int spool_disk_begin(struct spool_disk *disk, const struct spool_header *header,
		     struct spool_writer *writer, struct spool_losses *losses);

/* Append the record whose header is at `offset` of `fd`. The oldest segments make room for it. 0;
 * 1: not in this segment, commit first; negative errno. */
int spool_disk_append(struct spool_disk *disk, struct spool_writer *writer, int fd, uint64_t offset,
		      const struct spool_header *header, struct spool_losses *losses);

/* Sync and close. 0; negative errno: what was appended is not there. */
int spool_disk_commit(struct spool_disk *disk, struct spool_writer *writer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The spool's second tier: segment files in a directory. Private to the spool; the
 * caller holds the lock.
 *
 * A segment is named after the number of its first record, in 16 hexadecimal digits, and ".spool".
 * The numbers of its records are consecutive, so no record can claim a number that another segment
 * will have. A segment is deleted when all of its records are done. For the segment that is being
 * read, the file "cursor" contains the number up to which records are done. No file stays open
 * between calls.
 *
 * Example: the records 17 to 40 were moved in two steps, and 17 and 18 are delivered.
 *
 *   0000000000000011.spool    records 17 to 32
 *   0000000000000021.spool    records 33 to 40
 *   cursor                    segment 17, done 18
 *
 * A killed process leaves at most one torn record, at the end of the newest segment. It is
 * recognised by its checksum and cut off. If memory still has a record of that number, nothing was
 * lost.
 */
#ifndef EXPORTER_DELIVERY_SPOOL_DISK_H
#define EXPORTER_DELIVERY_SPOOL_DISK_H

#include "exporter/delivery/spool_record.h"

struct spool_segment {
	uint64_t first;		   /* number of the first record, which is the file's name */
	uint64_t done;		   /* records up to this number are done */
	uint64_t last;		   /* number of the last record */
	uint64_t size, read;	   /* bytes of the file; where the first waiting record starts */
	uint64_t records, samples; /* records that wait, and their samples */
	uint64_t newest_unix_ns;
	bool grows; /* this process created it and may append to it */
};

struct spool_disk {
	int fd; /* of the directory; -1: there is none */
	uint64_t bytes_max, segment_bytes_max;
	size_t record_bytes_max;
	uint64_t number_max; /* larger numbers are forged and ignored */
	struct spool_segment *segments;
	size_t count, capacity;
	uint64_t bytes;
	uint64_t number; /* the largest number that was found, written or done */
	int error;
};

/* Numbers of the records in memory; both are 0 if there are none. A torn copy of one of them on
 * disk is not a loss. */
struct spool_range {
	uint64_t first, last;
};

/* Takes over what is in the directory. The caller has set the descriptor, the caps and number_max
 * of `disk`; the rest is 0. Returns 0 or -ENOMEM; other failures are in disk->error. */
int spool_disk_open(struct spool_disk *disk, struct spool_range in_memory,
		    struct spool_losses *losses);
void spool_disk_close(struct spool_disk *disk);

/* Tests whether the directory can be written; the result is in disk->error. */
void spool_disk_probe(struct spool_disk *disk);

/* Returns whether a segment contains this number. */
bool spool_disk_has(const struct spool_disk *disk, uint64_t number);

/* Finds the oldest record and opens its file; the caller closes scan->fd. Damaged records before it
 * are dropped and counted. Returns false if there is none, or if the file cannot be opened for now;
 * then disk->error says why. */
bool spool_disk_front(struct spool_disk *disk, struct spool_scan *scan,
		      struct spool_losses *losses);
/* Marks the record that spool_disk_front() found as done. */
void spool_disk_pop(struct spool_disk *disk, const struct spool_scan *scan);

/* Deletes the oldest segment, and adds the samples of its waiting records to `samples`. */
void spool_disk_drop(struct spool_disk *disk, uint64_t *samples);

/* Writes records to a segment in three steps: begin, append, commit. */
struct spool_writer {
	int fd;
	struct spool_segment segment; /* the segment as it will be after the commit */
	uint64_t size;		      /* its size before; 0 if it is fresh */
	bool fresh;		      /* the segment was created by spool_disk_begin() */
};

/* Opens the segment that this record belongs to. Returns 0 or a negative errno. */
int spool_disk_begin(struct spool_disk *disk, const struct spool_header *header,
		     struct spool_writer *writer, struct spool_losses *losses);

/* Appends the record whose header is at `offset` of `fd`. The oldest segments are deleted if there
 * is no room. Returns 0; 1 if the record does not belong to this segment, which the caller then
 * commits; or a negative errno. */
int spool_disk_append(struct spool_disk *disk, struct spool_writer *writer, int fd, uint64_t offset,
		      const struct spool_header *header, struct spool_losses *losses);

/* Syncs and closes the segment. Returns 0, or a negative errno; then nothing that was appended
 * exists. */
int spool_disk_commit(struct spool_disk *disk, struct spool_writer *writer);

#endif

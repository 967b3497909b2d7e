/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The spool is a queue of records, each one request, that outlives the process that
 * filled it. New records go to memory (a memfd that the agent keeps, so that the successor of a
 * killed exporter finds them). What cannot be delivered soon is moved to segment files in a
 * directory. The oldest record leaves first. Bytes and age are bounded, and what is dropped is
 * counted in samples.
 *
 * A record is a header and one zstd frame with a checksum. The header has its own checksum, so that
 * a torn or forged record costs only itself: reading continues at the next valid header. Lengths
 * are checked before memory is allocated for them.
 *
 * Example, with a memory tier that holds three records and a backend that is down:
 *
 *   put 1, 2, 3     memory: 1 2 3     directory: -
 *   put 4           memory: 4         directory: 1 2 3 (one segment; memory was full)
 *   sending fails   memory: -         directory: 1 2 3 4 (spool_keep)
 *   put 5           memory: 5         directory: 1 2 3 4
 *   1 delivered     memory: 5         directory: 2 3 4
 *
 * Somebody may set the clock of the host at any moment, and records must not expire because of
 * that. So a record's time is that of the spool's own clock: the real time when the spool was last
 * empty, plus the time that has passed since then. Of records that another agent has left in the
 * directory, nothing but the real time is available.
 *
 * Files: spool.c (both tiers, the order of records), spool_memory.c, spool_disk.c, spool_record.c
 * (the format). All functions may be called by two threads: the role's and the sender's.
 */
#ifndef EXPORTER_DELIVERY_SPOOL_H
#define EXPORTER_DELIVERY_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"

struct spool;

/* The present in two clocks: CLOCK_REALTIME, which somebody may set, and CLOCK_BOOTTIME, which
 * never jumps. */
struct spool_now {
	uint64_t unix_ns, boot_ns;
};

/* Reads both clocks. */
static inline struct spool_now spool_now(void)
{
	return (struct spool_now){.unix_ns = clock_read_ns(CLOCK_REALTIME),
				  .boot_ns = clock_boot_ns()};
}

struct spool_config {
	int memory_fd; /* new, or of an earlier spool; the spool owns it from now on */
	/* The spool's clock: what is added to CLOCK_BOOTTIME. It belongs to the memory and outlives
	 * the spool as that does; 0: the memory is new. */
	uint64_t *clock_ns;
	int directory_fd; /* -1: there is only memory; the spool owns it from now on */
	/* More: records go to the directory, or the oldest are dropped. */
	uint64_t memory_bytes_max;
	uint64_t disk_bytes_max;
	uint64_t age_max_ns;
	size_t record_bytes_max; /* of a record's contents before compression */
	int compression_level;	 /* of zstd: 1 to 19 */
};

struct spool_record {
	uint64_t number;       /* ascending in the order of spool_put(), and never used twice */
	uint64_t time_unix_ns; /* when it was put into the spool, by the spool's clock */
	uint64_t samples;      /* of its request */
	uint32_t bytes;	       /* of its contents */
};

struct spool_stats {
	uint64_t records, samples;	   /* in the spool */
	uint64_t memory_samples;	   /* the part of them that is not on disk */
	uint64_t memory_bytes, disk_bytes; /* as stored: compressed, with headers */
	uint64_t oldest_unix_ns;	   /* 0: the spool is empty */
	/* Since the spool was opened. The number of samples in a record is unknown if its header
	 * was damaged. */
	uint64_t dropped_full_samples, dropped_age_samples, damaged_samples, damaged_records;
	/* errno of the directory's last failure, because of which records stay in memory. 0: the
	 * directory works, or there is none. */
	int disk_error;
};

/* Opens the spool with what an earlier process left in it. `mark` becomes that of the last record
 * that was ever put in, as far as the memory tells, or 0. Returns 0, -ENOMEM, or another negative
 * errno if the memory cannot be used. The descriptors are closed on failure, too. A fault of the
 * directory is not a failure; the statistics report it. */
int spool_open(const struct spool_config *config, struct spool_now now, struct spool **spool,
	       uint64_t *mark);
/* Frees the spool; its records stay where they are. `spool` may be NULL. */
void spool_close(struct spool *spool);

/* Compresses data and puts it into the spool as a record. The records of a group become visible
 * together, with the record that ends the group; if the process ends before, none of them does.
 * `mark` is the writer's own position and belongs to the group. Returns 0; -ENOMEM; -EFBIG if
 * `length` exceeds record_bytes_max; or -ENOSPC if there is no room even after dropping records.
 * After a failure the caller counts the samples as lost, and the group is unchanged, and still open
 * if it was. A group must fit into memory_bytes_max. The call may wait for the disk if the memory
 * is full. */
int spool_put(struct spool *spool, const uint8_t *data, size_t length, uint64_t samples,
	      uint64_t mark, bool ends_group, struct spool_now now);

/* Ends a group whose last record could not be put, so that the others become visible. Does nothing
 * if no group is open. Returns 0, or a negative errno; then it ends with the next group. */
int spool_end_group(struct spool *spool, uint64_t mark);

/* Finds the oldest record and decompresses it into memory that the caller frees. Expired and
 * damaged records before it are dropped. Returns 1, 0 if the spool is empty, or -ENOMEM. */
int spool_first(struct spool *spool, struct spool_now now, struct spool_record *record,
		uint8_t **data);

/* Removes the record with this number, which was delivered or refused. Does nothing if it is no
 * longer the oldest. */
void spool_done(struct spool *spool, uint64_t number);

/* Moves what is in memory to the directory and syncs it, because it will stay for a while. Does
 * nothing without a directory. Returns 0 or a negative errno, which the statistics report, too. */
int spool_keep(struct spool *spool, struct spool_now now);

/* Drops expired records, and tries a directory that failed. */
void spool_expire(struct spool *spool, struct spool_now now);

/* Copies the current statistics. */
void spool_stats(struct spool *spool, struct spool_stats *stats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way to the backend: a queue of records that outlives the process that filled
 * it. New records go into memory (a memfd that the agent holds, so that an exporter killed at any
 * moment finds them again); what cannot be delivered soon is moved to segment files in a directory.
 * Oldest first out, bounded in bytes and age; what is dropped is counted by sample.
 *
 * A record is a header (magic, lengths, number, time, samples, mark, crc of itself) and one zstd
 * frame with its own checksum. A torn or forged one costs itself: reading goes on at the next
 * header that holds. Lengths are checked before anything is allocated.
 *
 * All functions may be called from two threads (the role's and the sender's).
 */
#ifndef EXPORTER_DELIVERY_SPOOL_H
#define EXPORTER_DELIVERY_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

struct spool_config {
	int memory_fd;	  /* of at least one page; the spool's from now on */
	int directory_fd; /* -1: none, memory only; the spool's from now on */
	uint64_t
	    memory_bytes_max; /* records beyond go to the directory, or the oldest are dropped */
	uint64_t disk_bytes_max;
	uint64_t age_max_ns;
	size_t record_bytes_max; /* of a record's contents, uncompressed */
	int compression_level;	 /* of zstd: 1 ... 19 */
};

struct spool_record {
	uint64_t number;       /* ascending, never used twice */
	uint64_t time_unix_ns; /* when it was put in */
	uint64_t samples;      /* it stands for */
	uint32_t bytes;	       /* of its contents */
};

struct spool_stats {
	uint64_t records, samples;	   /* waiting */
	uint64_t memory_samples;	   /* of them, those that are not on disk */
	uint64_t memory_bytes, disk_bytes; /* compressed, with headers */
	uint64_t oldest_unix_ns;	   /* 0: nothing waits */
	/* Since the spool was opened. Samples of a record whose header was damaged are unknown. */
	uint64_t dropped_full_samples, dropped_age_samples, damaged_samples, damaged_records;
	int disk_error; /* errno that made it stay in memory; 0: the directory is in use, or there
			   is none */
};

/* Take up what an earlier process left. `mark`: of the last record that was ever put in (as far as
 * the memory tells), 0 if there was none. 0; -ENOMEM; another errno: the memory cannot be used. The
 * fds are closed on failure too. A fault of the directory is no failure but disk_error. */
int spool_open(const struct spool_config *config, uint64_t now_unix_ns, struct spool **spool,
	       uint64_t *mark);
void spool_close(struct spool *spool);

/* Compress and put in. Records of one group become visible together with the one that ends it, or,
 * if the process ends before, not at all. `mark` belongs to the group: the writer's own position.
 * 0; -ENOMEM; -EFBIG: over record_bytes_max; -ENOSPC: it found no room even after dropping (the
 * caller counts it). On failure the group is as it was: still open, if it had begun. A group must
 * fit into memory_bytes_max. May wait for the disk, when the memory is full. */
int spool_put(struct spool *spool, const uint8_t *data, size_t length, uint64_t samples,
	      uint64_t mark, bool ends_group, uint64_t now_unix_ns);

/* The oldest record, uncompressed, in memory that the caller frees. Records too old, or damaged,
 * are dropped on the way. 1; 0 if there is none; -ENOMEM. */
int spool_first(struct spool *spool, uint64_t now_unix_ns, struct spool_record *record,
		uint8_t **data);

/* The record with this number is done with, delivered or given up: forget it, for good. Nothing if
 * it is no longer the first. */
void spool_done(struct spool *spool, uint64_t number);

/* Move what is in memory to the directory, since it will stay for a while, and sync it. Without a
 * directory, or with one that cannot be written: nothing, and stats tell. 0 or negative errno. */
int spool_keep(struct spool *spool, uint64_t now_unix_ns);

/* Drop what is too old; and see whether a directory that failed can be written again. */
void spool_expire(struct spool *spool, uint64_t now_unix_ns);

void spool_stats(struct spool *spool, struct spool_stats *stats);

#endif

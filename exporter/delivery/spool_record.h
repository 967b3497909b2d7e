/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool's format, the same in memory and on disk: a header that vouches for itself and for its
 * place, then one zstd frame with its own checksum. Everything that is read may be torn or forged.
 * A private part of spool.h.
 */
#ifndef EXPORTER_DELIVERY_SPOOL_RECORD_H
#define EXPORTER_DELIVERY_SPOOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SPOOL_RECORD_MAGIC = 0x52707342, /* "BspR" */
	/* In `flags`. */
	SPOOL_ENDS_GROUP = 1,
	/* Of a frame: magic, header, one block's header. */
	SPOOL_FRAME_BYTES_MIN = 8
};

struct spool_header {
	uint32_t magic;
	uint32_t raw_bytes; /* uncompressed */
	uint32_t z_bytes;   /* of the frame that follows */
	uint32_t flags;
	uint64_t number, time_unix_ns, samples, mark;
	/* XXH32 of all before it, seeded with the offset in the file: what looks like a header
	 * inside of a frame (function names may be chosen by anyone) is none. */
	uint32_t check;
	uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct spool_header) == 56, "a format");

enum {
	SPOOL_RECORD_BYTES_MIN = sizeof(struct spool_header) + SPOOL_FRAME_BYTES_MIN
};

/* What was lost since the spool was opened: spool_stats. */
struct spool_losses {
	uint64_t full_samples, age_samples, damaged_samples, damaged_records;
};

/* pread and pwrite until it is all done. Bytes read (fewer only at the end of the file) or negative
 * errno; 0 or negative errno. */
int64_t spool_read(int fd, void *buffer, size_t length, uint64_t offset);
int spool_write(int fd, const void *buffer, size_t length, uint64_t offset);

/* Fill in magic and check, for a record that will be at `offset`. */
void spool_record_seal(struct spool_header *header, uint64_t offset);

static inline uint64_t spool_record_bytes(const struct spool_header *header)
{
	return sizeof(*header) + (uint64_t)header->z_bytes;
}

/* Compress. `record` is freed by the caller: room for the header, then the frame; the header's
 * lengths are set. 0 or -ENOMEM. */
int spool_record_pack(const uint8_t *data, size_t length, int level, struct spool_header *header,
		      uint8_t **record);

/* The contents of the record whose header is at `offset`, in memory that the caller frees. 0;
 * -ENOMEM; -EBADMSG: the frame cannot be read, or is not what the header says. */
int spool_record_unpack(int fd, uint64_t offset, const struct spool_header *header, uint8_t **data);

/* A walk over the records of a file. */
struct spool_scan {
	int fd;
	uint64_t offset, end;	     /* where to go on, moved; where it ends, below 2^63 */
	uint64_t number, number_max; /* believed are those above the one and up to the other */
	size_t record_bytes_max;
	/* Of the last step. */
	struct spool_header header;
	uint64_t at;
	bool skipped;	       /* bytes that were no record, before it or up to the end */
	uint64_t torn_samples; /* of a header among them that holds but for its record's end */
};

/* The next header that holds. Bytes that are none are skipped one by one, holes at once. 1; 0:
 * there is none; negative errno of reading. */
int spool_scan_next(struct spool_scan *scan);

#endif

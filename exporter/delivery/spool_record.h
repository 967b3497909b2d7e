/* SPDX-License-Identifier: Apache-2.0 */
/* The format of the spool's records, the same in memory and on disk: a header with a checksum that
 * also covers its place in the file, followed by one zstd frame with its own checksum. Everything
 * that is read may be torn or forged. Private to the spool. */
#ifndef EXPORTER_DELIVERY_SPOOL_RECORD_H
#define EXPORTER_DELIVERY_SPOOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SPOOL_RECORD_MAGIC = 0x52707342, /* "BspR" */
	/* The only bit of `flags`: the record is the last of its group. */
	SPOOL_ENDS_GROUP = 1,
	/* The shortest zstd frame: magic number, header, header of one block. */
	SPOOL_FRAME_BYTES_MIN = 8
};

struct spool_header {
	uint32_t magic;
	uint32_t raw_bytes; /* length before compression */
	uint32_t z_bytes;   /* length of the frame that follows */
	uint32_t flags;
	uint64_t number, time_unix_ns, samples, mark;
	/* XXH32 of the bytes before it, seeded with the header's offset in the file. A frame may
	 * contain bytes that look like a header, since anyone can choose function names; those have
	 * the wrong offset. */
	uint32_t check;
	uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct spool_header) == 56, "a format");

enum {
	SPOOL_RECORD_BYTES_MIN = sizeof(struct spool_header) + SPOOL_FRAME_BYTES_MIN
};

/* What was lost since the spool was opened: see struct spool_stats. */
struct spool_losses {
	uint64_t full_samples, age_samples, damaged_samples, damaged_records;
};

/* These call pread() and pwrite() until everything is done. spool_read() returns the bytes read,
 * which are fewer only at the end of the file, or a negative errno; spool_write() returns 0 or a
 * negative errno. */
int64_t spool_read(int fd, void *buffer, size_t length, uint64_t offset);
int spool_write(int fd, const void *buffer, size_t length, uint64_t offset);

/* Sets the magic number and checksum of a header for the place `offset`. */
void spool_record_seal(struct spool_header *header, uint64_t offset);

/* Returns the bytes of a record: its header and its frame. */
static inline uint64_t spool_record_bytes(const struct spool_header *header)
{
	return sizeof(*header) + (uint64_t)header->z_bytes;
}

/* Compresses data into a record that the caller frees: room for the header, then the frame. Sets
 * the lengths in the header. Returns 0 or -ENOMEM. */
int spool_record_pack(const uint8_t *data, size_t length, int level, struct spool_header *header,
		      uint8_t **record);

/* Reads and decompresses the record whose header is at `offset`, into memory that the caller frees.
 * Returns 0, -ENOMEM, or -EBADMSG if the frame cannot be read or does not match the header. */
int spool_record_unpack(int fd, uint64_t offset, const struct spool_header *header, uint8_t **data);

/* A walk over the records of a file. */
struct spool_scan {
	int fd;
	uint64_t offset, end; /* where the next step starts, and where the scan ends; below 2^63 */
	uint64_t number, number_max; /* valid numbers are above the first and up to the second */
	size_t record_bytes_max;
	/* Results of the last step. */
	struct spool_header header;
	uint64_t at;  /* where the header is */
	bool skipped; /* there were bytes that are not a record, before it or up to the end */
	/* Samples of valid headers among these bytes whose records are cut off at the end. */
	uint64_t torn_samples;
};

/* Finds the next valid header. Bytes that are not a header are skipped one by one, and sparse parts
 * of the file at once. Returns 1, 0 if there is none, or a negative errno if the file cannot be
 * read. */
int spool_scan_next(struct spool_scan *scan);

#endif

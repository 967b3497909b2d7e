/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/spool_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/cleanup.h"

enum {
	/* 2^19 bytes is the window of zstd's level 1. A window of this size at higher levels as
	 * well bounds zstd's tables to 5 MiB. */
	RECORD_WINDOW_LOG = 19,
	SCAN_WINDOW_BYTES = 4096
};

static void cleanup_cctx(ZSTD_CCtx **cctx)
{
	ZSTD_freeCCtx(*cctx);
}

int64_t spool_read(int fd, void *buffer, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length) {
		ssize_t r =
		    pread(fd, (uint8_t *)buffer + done, length - done, (off_t)(offset + done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (int64_t)done;
}

int spool_write(int fd, const void *buffer, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length) {
		ssize_t r = pwrite(fd, (const uint8_t *)buffer + done, length - done,
				   (off_t)(offset + done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -ENOSPC;
		done += (size_t)r;
	}
	return 0;
}

static uint32_t record_check(const struct spool_header *header, uint64_t offset)
{
	return XXH32(header, offsetof(struct spool_header, check),
		     (uint32_t)(offset ^ offset >> 32));
}

void spool_record_seal(struct spool_header *header, uint64_t offset)
{
	header->magic = SPOOL_RECORD_MAGIC;
	header->reserved = 0;
	header->check = record_check(header, offset);
}

int spool_record_pack(const uint8_t *data, size_t length, int level, struct spool_header *header,
		      uint8_t **record)
{
	const size_t room = ZSTD_compressBound(length);
	_cleanup_(cleanup_cctx) ZSTD_CCtx *cctx = ZSTD_createCCtx();
	_cleanup_free_ uint8_t *packed = malloc(sizeof(*header) + room);

	if (!cctx || !packed)
		return -ENOMEM;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, 1)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, RECORD_WINDOW_LOG)))
		return -ENOMEM;
	/* The output has enough room, so the only possible error is lack of memory. */
	size_t bytes = ZSTD_compress2(cctx, packed + sizeof(*header), room, data, length);
	if (ZSTD_isError(bytes))
		return -ENOMEM;
	header->raw_bytes = (uint32_t)length;
	header->z_bytes = (uint32_t)bytes;
	*record = TAKE_PTR(packed);
	return 0;
}

/* Returns whether this is exactly one frame of the current format. The library would also accept
 * several frames, skippable frames and those of its first versions. If damage clears the flag that
 * the frame has a checksum, the four bytes of the checksum are left over. */
static bool frame_is_one(const uint8_t *frame, size_t length)
{
	uint32_t magic;

	memcpy(&magic, frame, sizeof(magic));
	return magic == ZSTD_MAGICNUMBER && ZSTD_findFrameCompressedSize(frame, length) == length;
}

int spool_record_unpack(int fd, uint64_t offset, const struct spool_header *header, uint8_t **data)
{
	_cleanup_free_ uint8_t *frame = malloc(header->z_bytes);

	if (!frame)
		return -ENOMEM;
	if (spool_read(fd, frame, header->z_bytes, offset + sizeof(*header)) != header->z_bytes ||
	    !frame_is_one(frame, header->z_bytes))
		return -EBADMSG;
	_cleanup_free_ uint8_t *raw = malloc(header->raw_bytes ? header->raw_bytes : 1);
	if (!raw)
		return -ENOMEM;
	size_t bytes = ZSTD_decompress(raw, header->raw_bytes, frame, header->z_bytes);
	if (ZSTD_getErrorCode(bytes) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	if (ZSTD_isError(bytes) || bytes != header->raw_bytes)
		return -EBADMSG;
	*data = TAKE_PTR(raw);
	return 0;
}

/* Returns whether spool_record_seal() made this header for this place. The number and the end of
 * the record are not checked here. */
static bool header_is_valid(const struct spool_header *h, uint64_t offset, size_t record_bytes_max)
{
	return h->magic == SPOOL_RECORD_MAGIC && !h->reserved && !(h->flags & ~SPOOL_ENDS_GROUP) &&
	       h->raw_bytes <= record_bytes_max && h->z_bytes >= SPOOL_FRAME_BYTES_MIN &&
	       h->z_bytes <= ZSTD_compressBound(h->raw_bytes) &&
	       h->check == record_check(h, offset);
}

static bool scan_accepts(struct spool_scan *s, const struct spool_header *h)
{
	if (!header_is_valid(h, s->offset, s->record_bytes_max) || h->number <= s->number ||
	    h->number > s->number_max)
		return false;
	if (spool_record_bytes(h) > s->end - s->offset) {
		s->torn_samples += h->samples;
		return false;
	}
	return true;
}

struct scan_window {
	uint64_t base;
	size_t length;
	uint8_t bytes[SCAN_WINDOW_BYTES];
};

/* Makes the window contain the bytes of a header at the scan's offset, and reads them if necessary.
 * Returns 1, 0 if fewer bytes are left, or a negative errno. */
static int scan_fill(struct spool_scan *s, struct scan_window *w)
{
	if (s->offset - w->base + sizeof(s->header) <= w->length)
		return 1;
	/* A forged end may be far away, and the sparse parts of the file need not be read. */
	if (s->skipped) {
		off_t data = lseek(s->fd, (off_t)s->offset, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return 0;
		if (data > 0 && (uint64_t)data > s->offset)
			s->offset = (uint64_t)data;
		if (s->offset >= s->end)
			return 0;
	}
	const uint64_t left = s->end - s->offset;
	int64_t got = spool_read(s->fd, w->bytes, left < sizeof(w->bytes) ? left : sizeof(w->bytes),
				 s->offset);
	if (got < 0)
		return (int)got;
	w->base = s->offset;
	w->length = (size_t)got;
	return w->length >= sizeof(s->header);
}

int spool_scan_next(struct spool_scan *s)
{
	const uint8_t first = SPOOL_RECORD_MAGIC & 0xff;
	struct scan_window w;
	struct spool_header header;

	w.base = s->offset;
	w.length = 0;
	s->skipped = false;
	s->torn_samples = 0;
	while (s->offset < s->end) {
		int r = scan_fill(s, &w);
		if (r < 0)
			return r;
		if (r == 0)
			break;
		const uint8_t *at = w.bytes + (s->offset - w.base);
		memcpy(&header, at, sizeof(header));
		if (scan_accepts(s, &header)) {
			s->header = header;
			s->at = s->offset;
			s->number = header.number;
			s->offset += spool_record_bytes(&header);
			return 1;
		}
		s->skipped = true;
		const uint8_t *next = memchr(at + 1, first, w.length - (size_t)(at + 1 - w.bytes));
		s->offset = w.base + (next ? (size_t)(next - w.bytes) : w.length);
	}
	s->skipped = s->skipped || s->offset < s->end;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/elf_decompress.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/slices.h"

enum {
	COMPRESS_ZSTD = 2, /* ELFCOMPRESS_ZSTD, which the elf.h of glibc 2.36 lacks */
	/* The best ratio of DEFLATE: 258 bytes from two bits (RFC 1951). A header that claims more
	 * is forged. */
	ZLIB_RATIO_MAX = 1032,
	/* That of zstd: a block of 128 KiB that repeats one byte takes four bytes (RFC 8878,
	 * 3.1.1.2). */
	ZSTD_RATIO_MAX = (128 << 10) / 4,
	INFLATE_BYTES = 1 << 20, /* that are decompressed between two pauses (slices.h) */
};

/* Decompresses `from` into exactly `size` bytes. It works in pieces: so it can pause, and zlib
 * counts bytes in an unsigned int. */
static int inflate_all(struct cursor *from, uint8_t *to, size_t size)
{
	z_stream stream = {0};
	size_t written = 0;
	int status = Z_OK;

	if (inflateInit(&stream) != Z_OK)
		return -ENOMEM;
	/* A forged file has the right checksum, and other sections have none. */
	inflateValidate(&stream, 0);
	while (status == Z_OK) {
		size_t in = cursor_left(from) < UINT_MAX ? cursor_left(from) : UINT_MAX;
		size_t out = size - written < INFLATE_BYTES ? size - written : INFLATE_BYTES;

		slices_pause_when_due();
		stream.next_in = (Bytef *)from->at; /* zlib does not write there */
		stream.avail_in = (uInt)in;
		stream.next_out = to + written;
		stream.avail_out = (uInt)out;
		status = inflate(&stream, Z_NO_FLUSH);
		size_t consumed = in - stream.avail_in;
		size_t produced = out - stream.avail_out;
		cursor_skip(from, consumed);
		written += produced;
		if (status == Z_OK && consumed == 0 && produced == 0)
			status = Z_BUF_ERROR;
	}
	inflateEnd(&stream);
	if (status == Z_MEM_ERROR)
		return -ENOMEM;
	return status == Z_STREAM_END && written == size ? 0 : -EBADMSG;
}

/* Does the same with zstd: frames, one after the other. Decompressing a frame at once needs some
 * 160 KB of memory, because the window, whose size the frame chooses, is the output. The library
 * may also know formats from before RFC 8878 and skippable frames, which no compiler writes. */
static int zstd_all(struct cursor *from, uint8_t *to, size_t size)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t written = 0;
	bool good = true;

	if (!context)
		return -ENOMEM;
	while (good && cursor_left(from) > 0) {
		struct cursor magic = *from;
		const size_t frame = cursor_u32(&magic) == ZSTD_MAGICNUMBER
					 ? ZSTD_findFrameCompressedSize(from->at, cursor_left(from))
					 : 0;
		const uint8_t *bytes =
		    frame && !ZSTD_isError(frame) ? cursor_take(from, frame) : NULL;
		const size_t produced =
		    bytes ? ZSTD_decompressDCtx(context, to + written, size - written, bytes, frame)
			  : SIZE_MAX;
		good = bytes && !ZSTD_isError(produced);
		written += good ? produced : 0;
	}
	ZSTD_freeDCtx(context);
	return good && written == size ? 0 : -EBADMSG;
}

int elf_compression_read(const uint8_t *header, uint64_t section_bytes,
			 struct elf_compression *compression)
{
	if (section_bytes < sizeof(Elf64_Chdr))
		return -EBADMSG;
	struct cursor c = cursor_init(header, sizeof(Elf64_Chdr));
	compression->type = cursor_u32(&c);
	cursor_skip(&c, sizeof(uint32_t)); /* ch_reserved */
	compression->size = cursor_u64(&c);
	if (compression->type != ELFCOMPRESS_ZLIB && compression->type != COMPRESS_ZSTD)
		return -EBADMSG;
	if (compression->size == 0)
		return -ENOENT;
	const uint64_t ratio_max =
	    compression->type == COMPRESS_ZSTD ? ZSTD_RATIO_MAX : ZLIB_RATIO_MAX;
	return compression->size / ratio_max > section_bytes - sizeof(Elf64_Chdr) ? -EBADMSG : 0;
}

int elf_decompress(const uint8_t *packed, size_t packed_length, size_t cap, uint8_t **data,
		   size_t *length)
{
	struct elf_compression compression;
	int rc = elf_compression_read(packed, packed_length, &compression);

	if (rc < 0)
		return rc;
	if (compression.size > cap)
		return -EFBIG;
	const size_t size = (size_t)compression.size;
	struct cursor c =
	    cursor_init(packed + sizeof(Elf64_Chdr), packed_length - sizeof(Elf64_Chdr));
	_cleanup_free_ uint8_t *bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	rc = compression.type == COMPRESS_ZSTD ? zstd_all(&c, bytes, size)
					       : inflate_all(&c, bytes, size);
	if (rc < 0)
		return rc;
	*data = TAKE_PTR(bytes);
	*length = size;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/elf_decompress.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/cursor.h"

enum {
	/* The best ratio of DEFLATE: 258 bytes from two bits (RFC 1951). A header that claims more
	 * is forged. */
	RATIO_MAX = 1032,
};

/* Decompresses `from` into exactly `size` bytes. It works in pieces, because zlib counts bytes in
 * an unsigned int. */
static int inflate_all(struct cursor *from, uint8_t *to, size_t size)
{
	z_stream stream = {0};
	size_t written = 0;
	int status = Z_OK;

	if (inflateInit(&stream) != Z_OK)
		return -ENOMEM;
	while (status == Z_OK) {
		size_t in = cursor_left(from) < UINT_MAX ? cursor_left(from) : UINT_MAX;
		size_t out = size - written < UINT_MAX ? size - written : UINT_MAX;

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

int elf_decompress(const uint8_t *packed, size_t packed_length, size_t cap, uint8_t **data,
		   size_t *length)
{
	struct cursor c = cursor_init(packed, packed_length);
	uint32_t type = cursor_u32(&c);

	cursor_skip(&c, sizeof(uint32_t)); /* ch_reserved */
	uint64_t size = cursor_u64(&c);
	cursor_skip(&c, sizeof(uint64_t)); /* ch_addralign */
	if (c.failed || type != ELFCOMPRESS_ZLIB)
		return -EBADMSG;
	if (size == 0)
		return -ENOENT;
	if (size > cap)
		return -EFBIG;
	if (size / RATIO_MAX > cursor_left(&c))
		return -EBADMSG;

	_cleanup_free_ uint8_t *bytes = malloc((size_t)size);
	if (!bytes)
		return -ENOMEM;
	int rc = inflate_all(&c, bytes, (size_t)size);
	if (rc < 0)
		return rc;
	*data = TAKE_PTR(bytes);
	*length = (size_t)size;
	return 0;
}

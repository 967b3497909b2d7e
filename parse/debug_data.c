/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/debug_data.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/slices.h"

enum {
	FIRST_BYTES = 64 << 10,	 /* of the memory for the contents, which then doubles */
	PIECE_BYTES = 256 << 10, /* that are decompressed between two pauses (slices.h) */
};

static int error_of(lzma_ret status)
{
	switch (status) {
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -EFBIG;
	default: /* damaged, cut off, or of another format */
		return -EBADMSG;
	}
}

/* Makes room for a further piece of the contents. */
static int reserve(lzma_stream *stream, uint8_t **data, size_t *capacity)
{
	const size_t done = (size_t)stream->total_out;
	const int r = ARRAY_RESERVE(*data, *capacity, done + 1, FIRST_BYTES, DEBUG_DATA_BYTES_MAX);

	if (r < 0)
		return r == -ENOMEM ? r : -EFBIG;
	stream->next_out = *data + done;
	stream->avail_out = *capacity - done < PIECE_BYTES ? *capacity - done : PIECE_BYTES;
	return 0;
}

static int decompress(lzma_stream *stream, uint8_t **data)
{
	lzma_ret status = LZMA_OK;
	size_t capacity = 0;

	while (status == LZMA_OK) {
		if (stream->avail_out == 0) {
			const int r = reserve(stream, data, &capacity);

			if (r < 0)
				return r;
			slices_pause_when_due();
		}
		/* All of the input is there, so there is no other one to wait for. */
		status = lzma_code(stream, LZMA_FINISH);
	}
	return status == LZMA_STREAM_END ? 0 : error_of(status);
}

int debug_data_read(const struct elf_image *image, uint8_t **data, size_t *length)
{
	const struct elf_section *section = elf_image_find_section(image, ".gnu_debugdata");
	_cleanup_free_ uint8_t *packed = NULL, *contents = NULL;
	lzma_stream stream = LZMA_STREAM_INIT;
	size_t packed_length;

	if (!section)
		return -ENOENT;
	int r = elf_image_read_section(image, section, DEBUG_DATA_PACKED_BYTES_MAX, &packed,
				       &packed_length);
	if (r < 0)
		return r;
	const lzma_ret status = lzma_stream_decoder(&stream, DEBUG_DATA_MEMORY_BYTES_MAX, 0);
	if (status != LZMA_OK)
		return error_of(status);
	stream.next_in = packed;
	stream.avail_in = packed_length;
	r = decompress(&stream, &contents);
	const size_t done = (size_t)stream.total_out;
	lzma_end(&stream);
	if (r < 0)
		return r;
	if (done == 0)
		return -ENOENT;
	*data = TAKE_PTR(contents);
	*length = done;
	return 0;
}

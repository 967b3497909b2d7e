/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbol_file.h"

#include <errno.h>
#include <sha2.h>
#include <string.h>

#include "common/file_read.h"

enum {
	HASHED_BYTES = 4096,
};

void name_reader_init(struct name_reader *reader, const struct name_tables *tables)
{
	reader->tables = tables;
	reader->window_at = 0;
	reader->window_length = 0;
}

/* Copies a string that is in memory to the window, which holds nothing else then. */
static const char *name_from_memory(struct name_reader *reader, uint64_t offset)
{
	const struct elf_buffer *more = &reader->tables->more;

	reader->window_length = 0;
	if (offset >= more->length)
		return NULL;
	const char *name = (const char *)more->data + offset;
	const size_t left = more->length - (size_t)offset,
		     length =
			 strnlen(name, left < SYMBOL_FILE_NAME_MAX ? left : SYMBOL_FILE_NAME_MAX);
	if (length == 0 || length == left)
		return NULL;
	memcpy(reader->window, name, length);
	reader->window[length] = '\0';
	return reader->window;
}

const char *name_reader_get(struct name_reader *reader, uint64_t offset)
{
	const struct extent *strings = &reader->tables->strings;
	size_t length = SYMBOL_FILE_NAME_MAX;
	const char *name;

	if (offset >= strings->size)
		return name_from_memory(reader, offset - strings->size);
	if (offset >= reader->window_at && offset - reader->window_at < reader->window_length) {
		size_t skip = (size_t)(offset - reader->window_at);

		name = reader->window + skip;
		if (memchr(name, '\0', reader->window_length - skip))
			return *name ? name : NULL;
	}
	if (length > strings->size - offset)
		length = (size_t)(strings->size - offset);
	reader->window_length = 0;
	if (file_read_exactly(reader->tables->fd, strings->offset + offset, reader->window, length))
		return NULL;
	reader->window_at = offset;
	reader->window_length = length;
	reader->window[length] = '\0';
	/* Only a name that is too long may be cut, and not one that the end of the table cuts. */
	if (length < SYMBOL_FILE_NAME_MAX && !memchr(reader->window, '\0', length))
		return NULL;
	return reader->window[0] ? reader->window : NULL;
}

void symbol_file_to_hex(const uint8_t *bytes, size_t length, char *text)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		text[2 * i] = hex[bytes[i] >> 4];
		text[2 * i + 1] = hex[bytes[i] & 15];
	}
	text[2 * length] = '\0';
}

void symbol_file_hash(int fd, uint64_t size, char text[2 * SYMBOL_FILE_HASH_BYTES + 1])
{
	uint8_t data[HASHED_BYTES], digest[SHA256_DIGEST_LENGTH], big_endian[8];
	size_t length = size < HASHED_BYTES ? (size_t)size : HASHED_BYTES;
	SHA2_CTX hash;

	SHA256Init(&hash);
	if (file_read_exactly(fd, 0, data, length))
		return;
	SHA256Update(&hash, data, length);
	if (file_read_exactly(fd, size - length, data, length))
		return;
	SHA256Update(&hash, data, length);
	for (unsigned int i = 0; i < 8; i++)
		big_endian[i] = (uint8_t)(size >> (56 - 8 * i));
	SHA256Update(&hash, big_endian, sizeof(big_endian));
	SHA256Final(digest, &hash);
	symbol_file_to_hex(digest, SYMBOL_FILE_HASH_BYTES, text);
}

int symbol_file_source(struct elf_source *source, int *fd)
{
	struct stat stat;

	if (file_read_status(*fd, &stat) < 0)
		return -EIO;
	*source = (struct elf_source){.read = file_read_from,
				      .context = fd,
				      .size = stat.st_size > 0 ? (uint64_t)stat.st_size : 0};
	return 0;
}

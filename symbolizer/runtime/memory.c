/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bpf/shared.h"
#include "common/cursor.h"
#include "common/process_memory.h"

enum {
	STRING_PIECE = 64, /* bytes per read of a string: most names fit */
	PAGE = MEMORY_PAGE_BYTES,
};

void memory_allow(struct memory *memory, unsigned int reads, size_t bytes)
{
	memory->reads_left = reads;
	memory->bytes_left = bytes;
	memory->timed_out = false;
}

/* Reads some of these bytes. Returns how many, 0 if the address space no longer exists, or a
 * negative errno. */
static ssize_t read_some(struct memory *memory, uint64_t address, void *buffer, size_t length)
{
	if (memory->read)
		return memory->read(memory->read_context, memory, address, buffer, length);
	return process_memory_read(memory->fd, memory->pid, address, buffer, length);
}

/* Finds the part of the copy with the most of these bytes, from the first one on. Returns how many
 * it has. */
static size_t copy_find(const struct memory *memory, uint64_t address, size_t length,
			const uint8_t **found)
{
	struct cursor c = cursor_init(memory->copy, memory->copy_bytes);
	size_t most = 0;

	*found = NULL;
	for (;;) {
		const uint8_t *header = cursor_take(&c, sizeof(struct bh_memory_part));
		struct bh_memory_part part;

		if (!header)
			break;
		memcpy(&part, header, sizeof(part));
		const uint8_t *bytes = cursor_take(&c, part.room);

		if (!bytes || part.bytes > part.room)
			break;
		const uint64_t before = address - part.address;
		const size_t has = before < part.bytes ? part.bytes - (size_t)before : 0;
		if (has > most) {
			most = has < length ? has : length;
			*found = bytes + before;
		}
		if (most == length)
			break;
	}
	return most;
}

static int copy_read(const struct memory *memory, uint64_t address, void *buffer, size_t length)
{
	const uint8_t *found;

	if (copy_find(memory, address, length, &found) < length)
		return -ESTALE;
	if (length)
		memcpy(buffer, found, length);
	return 0;
}

size_t memory_has(const struct memory *memory, uint64_t address, size_t length)
{
	const uint8_t *found;

	return memory->copy ? copy_find(memory, address, length, &found) : length;
}

/* Reads all bytes from the process. */
static int process_read(struct memory *memory, uint64_t address, void *buffer, size_t length)
{
	uint8_t *to = buffer;

	while (length) {
		const ssize_t n = read_some(memory, address, to, length);

		if (n == -EINTR)
			continue;
		/* /proc/PID/mem is at its end when the address space no longer exists. */
		if (n == 0 || n == -ESRCH)
			return -ESRCH;
		if (n == -ETIMEDOUT) {
			memory->timed_out = true;
			return -ETIMEDOUT;
		}
		if (n < 0)
			return -EFAULT;
		to += n;
		address += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

/* Reads through the cache, which gets the pages that it lacks. */
static int cache_read(struct memory *memory, uint64_t address, void *buffer, size_t length)
{
	uint8_t *to = buffer;

	while (length) {
		const uint64_t page = address - address % PAGE;
		const size_t at = (size_t)(address - page), left = PAGE - at;
		const size_t n = length < left ? length : left;
		struct memory_page *cached =
		    &memory->cache->pages[page / PAGE % MEMORY_CACHE_PAGES];

		if (!cached->filled || cached->address != page) {
			if (memory->bytes_left < PAGE)
				return -EDQUOT;
			memory->bytes_left -= PAGE;
			const int r = process_read(memory, page, cached->bytes, PAGE);
			cached->filled = r == 0;
			cached->address = page;
			if (r < 0)
				return r;
		}
		memcpy(to, cached->bytes + at, n);
		to += n;
		address += n;
		length -= n;
	}
	return 0;
}

int memory_read(struct memory *memory, uint64_t address, void *buffer, size_t length)
{
	if (!memory->reads_left || length > memory->bytes_left)
		return -EDQUOT;
	if (memory->timed_out)
		return -ETIMEDOUT;
	memory->reads_left--;
	memory->bytes_left -= length;
	if (address > INT64_MAX - length)
		return -EFAULT;
	if (memory->copy)
		return copy_read(memory, address, buffer, length);
	/* What the cache cannot get as a whole page may be readable in part. */
	if (memory->cache && cache_read(memory, address, buffer, length) == 0)
		return 0;
	return process_read(memory, address, buffer, length);
}

int memory_read_u8(struct memory *memory, uint64_t address, uint8_t *value)
{
	return memory_read(memory, address, value, sizeof(*value));
}

int memory_read_u16(struct memory *memory, uint64_t address, uint16_t *value)
{
	return memory_read(memory, address, value, sizeof(*value));
}

int memory_read_u32(struct memory *memory, uint64_t address, uint32_t *value)
{
	return memory_read(memory, address, value, sizeof(*value));
}

int memory_read_u64(struct memory *memory, uint64_t address, uint64_t *value)
{
	return memory_read(memory, address, value, sizeof(*value));
}

ssize_t memory_read_string(struct memory *memory, uint64_t address, char *text, size_t size)
{
	size_t used = 0;

	while (used + 1 < size) {
		/* A piece never crosses a page boundary: the next page may not be mapped. */
		size_t piece = PAGE - (size_t)((address + used) & (PAGE - 1));

		if (piece > STRING_PIECE)
			piece = STRING_PIECE;
		if (piece > size - 1 - used)
			piece = size - 1 - used;
		int r = memory_read(memory, address + used, text + used, piece);
		if (r < 0)
			return r;
		const char *end = memchr(text + used, 0, piece);
		if (end)
			return end - text;
		used += piece;
	}
	text[used] = 0;
	return (ssize_t)used;
}

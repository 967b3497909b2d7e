/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/limits.h"

enum {
	JOURNAL_BATCH_MAX = LIMIT_BATCH_BYTES + 4096 /* bytes: the maximum of MESSAGE_BATCH */
};

/* Bytes of a record: the length, the batch, and the padding to a multiple of 8. */
static uint64_t journal_record_bytes(uint64_t length)
{
	return sizeof(uint64_t) + ((length + 7) & ~7ull);
}

static int journal_write(int fd, const void *data, size_t length, uint64_t at)
{
	ssize_t n = pwrite(fd, data, length, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -ENOSPC;
}

int journal_append(struct journal *journal, const uint8_t *data, size_t length)
{
	const uint64_t at = *journal->bytes, head = length;

	int r = journal_write(journal->fd, &head, sizeof(head), at);
	if (!r)
		r = journal_write(journal->fd, data, length, at + sizeof(head));
	if (!r)
		__atomic_store_n(journal->bytes, at + journal_record_bytes(length),
				 __ATOMIC_RELEASE);
	return r;
}

void journal_clear(struct journal *journal)
{
	__atomic_store_n(journal->bytes, 0, __ATOMIC_RELEASE);
	/* If the memory is not given back, the next batches overwrite it. */
	if (ftruncate(journal->fd, 0) < 0)
		return;
}

/* Reads exactly `length` bytes. Returns 0 or a negative errno. */
static int journal_read(int fd, void *data, size_t length, uint64_t at)
{
	ssize_t n = pread(fd, data, length, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -EBADMSG;
}

int journal_replay(const struct journal *journal,
		   int (*fn)(void *context, const uint8_t *data, size_t length), void *context)
{
	_cleanup_free_ uint8_t *batch = malloc(JOURNAL_BATCH_MAX);
	uint64_t length;
	int r = 0;

	if (!batch)
		return -ENOMEM;
	for (uint64_t at = 0; at < *journal->bytes && !r; at += journal_record_bytes(length)) {
		r = journal_read(journal->fd, &length, sizeof(length), at);
		if (!r && length > JOURNAL_BATCH_MAX)
			r = -EBADMSG;
		if (!r)
			r = journal_read(journal->fd, batch, length, at + sizeof(length));
		if (!r)
			r = fn(context, batch, length);
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A recording: the bytes that were read, by address, and the reads that failed. */
#ifndef TESTS_RUNTIME_RECORDING_H
#define TESTS_RUNTIME_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECORDING_PAGE_BITS = 12,
	RECORDING_PAGE_BYTES = 1 << RECORDING_PAGE_BITS,
	RECORDING_PAGES_MAX = 1 << 16,
	RECORDING_FAILURES_MAX = 4096,
	RECORDING_POISON = 0xdb, /* fills what was not recorded; no address is made of it */
};

struct recording_page {
	uint64_t number;			   /* address >> RECORDING_PAGE_BITS */
	uint64_t there[RECORDING_PAGE_BYTES / 64]; /* a bit for each byte */
	uint8_t bytes[RECORDING_PAGE_BYTES];
};

struct recording_failure {
	uint64_t address;
	uint32_t length;
};

/* It is empty if all fields are zero. */
struct recording {
	struct recording_page **pages; /* sorted by number */
	size_t page_count;
	struct recording_failure *failures;
	size_t failure_count;
};

void recording_fini(struct recording *recording);

/* Adds bytes or a failed read. Returns 0, -ENOMEM, or -EFBIG if the recording becomes too large. */
int recording_put(struct recording *recording, uint64_t address, const void *bytes, size_t length);
int recording_put_failure(struct recording *recording, uint64_t address, size_t length);

/* Reads bytes. Returns 0, -EFAULT if that read failed when it was recorded, or -ENODATA if not all
 * of them were recorded. */
int recording_get(const struct recording *recording, uint64_t address, void *to, size_t length);

/* Reads those bytes that were recorded, and returns how many these are. The others are
 * RECORDING_POISON. With `salt` they are the bytes of another place in the recording, always the
 * same. */
size_t recording_get_some(const struct recording *recording, uint64_t address, void *to,
			  size_t length, uint64_t salt);

/* Calls `fn` for each piece of contiguous bytes within a page, in order of addresses. Stops if `fn`
 * does not return 0, and returns its result. */
int recording_each(const struct recording *recording,
		   int (*fn)(void *context, uint64_t address, const uint8_t *bytes, size_t length),
		   void *context);

#endif

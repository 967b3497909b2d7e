/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes at addresses, those that somebody read and no others; and the reads that failed. */
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
	RECORDING_POISON = 0xdb, /* of which no address is made */
};

struct recording_page {
	uint64_t number;			   /* address >> RECORDING_PAGE_BITS */
	uint64_t there[RECORDING_PAGE_BYTES / 64]; /* a bit a byte */
	uint8_t bytes[RECORDING_PAGE_BYTES];
};

struct recording_failure {
	uint64_t address;
	uint32_t length;
};

/* All zero: empty. */
struct recording {
	struct recording_page **pages; /* sorted by number */
	size_t page_count;
	struct recording_failure *failures;
	size_t failure_count;
};

void recording_fini(struct recording *recording);

/* 0, -ENOMEM, or -EFBIG if it becomes too large. */
int recording_put(struct recording *recording, uint64_t address, const void *bytes, size_t length);
int recording_put_failure(struct recording *recording, uint64_t address, size_t length);

/* 0; -EFAULT: this read failed when it was recorded; -ENODATA: not all of it is there. */
int recording_get(const struct recording *recording, uint64_t address, void *to, size_t length);

/* What is there of it: how many bytes. The rest is RECORDING_POISON; or with `salt` what lies
 * elsewhere in the recording, always the same. */
size_t recording_get_some(const struct recording *recording, uint64_t address, void *to,
			  size_t length, uint64_t salt);

/* The longest runs of bytes, in order of their addresses, each in one page. Stops if `fn` returns
 * other than 0, and returns that. */
int recording_each(const struct recording *recording,
		   int (*fn)(void *context, uint64_t address, const uint8_t *bytes, size_t length),
		   void *context);

#endif

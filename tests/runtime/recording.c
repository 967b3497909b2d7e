/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void recording_fini(struct recording *recording)
{
	for (size_t i = 0; i < recording->page_count; i++)
		free(recording->pages[i]);
	free(recording->pages);
	free(recording->failures);
	*recording = (struct recording){0};
}

/* Returns the position of the page, or that where it would be inserted. */
static size_t page_place(const struct recording *recording, uint64_t number)
{
	size_t low = 0, high = recording->page_count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (recording->pages[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct recording_page *page_find(const struct recording *recording, uint64_t number)
{
	const size_t place = page_place(recording, number);

	return place < recording->page_count && recording->pages[place]->number == number
		   ? recording->pages[place]
		   : NULL;
}

static struct recording_page *page_add(struct recording *recording, uint64_t number)
{
	const size_t place = page_place(recording, number);
	struct recording_page *page = calloc(1, sizeof(*page));

	if (!recording->pages)
		recording->pages = calloc(RECORDING_PAGES_MAX, sizeof(*recording->pages));
	if (!page || !recording->pages || recording->page_count == RECORDING_PAGES_MAX) {
		free(page);
		return NULL;
	}
	memmove(&recording->pages[place + 1], &recording->pages[place],
		(recording->page_count - place) * sizeof(*recording->pages));
	recording->pages[place] = page;
	recording->page_count++;
	page->number = number;
	return page;
}

static bool byte_is_there(const struct recording_page *page, size_t at)
{
	return page->there[at / 64] >> (at % 64) & 1;
}

int recording_put(struct recording *recording, uint64_t address, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	while (length) {
		const uint64_t number = address >> RECORDING_PAGE_BITS;
		struct recording_page *page = page_find(recording, number);
		size_t at = address & (RECORDING_PAGE_BYTES - 1);

		page = page ? page : page_add(recording, number);
		if (!page)
			return recording->page_count == RECORDING_PAGES_MAX ? -EFBIG : -ENOMEM;
		for (; length && at < RECORDING_PAGE_BYTES; at++, address++, length--) {
			page->bytes[at] = *from++;
			page->there[at / 64] |= 1ull << (at % 64);
		}
	}
	return 0;
}

static bool failure_is_there(const struct recording *recording, uint64_t address, size_t length)
{
	for (size_t i = 0; i < recording->failure_count; i++) {
		if (recording->failures[i].address == address &&
		    recording->failures[i].length == length)
			return true;
	}
	return false;
}

int recording_put_failure(struct recording *recording, uint64_t address, size_t length)
{
	if (failure_is_there(recording, address, length))
		return 0;
	if (!recording->failures)
		recording->failures = calloc(RECORDING_FAILURES_MAX, sizeof(*recording->failures));
	if (!recording->failures)
		return -ENOMEM;
	if (recording->failure_count == RECORDING_FAILURES_MAX || length > UINT32_MAX)
		return -EFBIG;
	recording->failures[recording->failure_count++] =
	    (struct recording_failure){.address = address, .length = (uint32_t)length};
	return 0;
}

/* Returns how many bytes follow a recorded one at least, with it: 64 or 1. */
static size_t piece_at(const struct recording_page *page, size_t at, size_t length)
{
	return at % 64 == 0 && length >= 64 && page->there[at / 64] == UINT64_MAX ? 64 : 1;
}

int recording_get(const struct recording *recording, uint64_t address, void *to, size_t length)
{
	const uint64_t first = address;
	const size_t whole = length;
	uint8_t *out = to;

	while (length) {
		const struct recording_page *page =
		    page_find(recording, address >> RECORDING_PAGE_BITS);
		size_t at = address & (RECORDING_PAGE_BYTES - 1);

		while (page && length && at < RECORDING_PAGE_BYTES && byte_is_there(page, at)) {
			const size_t step = piece_at(page, at, length);

			memcpy(out, page->bytes + at, step);
			out += step;
			at += step;
			address += step;
			length -= step;
		}
		if (length && (!page || at < RECORDING_PAGE_BYTES))
			return failure_is_there(recording, first, whole) ? -EFAULT : -ENODATA;
	}
	return 0;
}

/* Returns a page of the recording, selected by a hash. */
static const struct recording_page *page_any(const struct recording *recording, uint64_t number,
					     uint64_t salt)
{
	const uint64_t hash = (number ^ salt) * 0x9e3779b97f4a7c15ull;

	return recording->page_count ? recording->pages[(hash >> 32) % recording->page_count]
				     : NULL;
}

size_t recording_get_some(const struct recording *recording, uint64_t address, void *to,
			  size_t length, uint64_t salt)
{
	const struct recording_page *page = NULL, *other = NULL;
	uint8_t *out = to;
	size_t found = 0;

	for (size_t i = 0; i < length; i++, address++) {
		const uint64_t number = address >> RECORDING_PAGE_BITS;
		const size_t at = address & (RECORDING_PAGE_BYTES - 1);

		if (i == 0 || at == 0) {
			page = page_find(recording, number);
			other = salt ? page_any(recording, number, salt) : NULL;
		}
		const bool there = page && byte_is_there(page, at);
		out[i] = there ? page->bytes[at] : other ? other->bytes[at] : RECORDING_POISON;
		found += there;
	}
	return found;
}

int recording_each(const struct recording *recording,
		   int (*fn)(void *context, uint64_t address, const uint8_t *bytes, size_t length),
		   void *context)
{
	for (size_t i = 0; i < recording->page_count; i++) {
		const struct recording_page *page = recording->pages[i];

		for (size_t at = 0; at < RECORDING_PAGE_BYTES;) {
			const size_t begin = at;

			while (at < RECORDING_PAGE_BYTES && byte_is_there(page, at))
				at++;
			if (at == begin) {
				at++;
				continue;
			}
			int r = fn(context, (page->number << RECORDING_PAGE_BITS) + begin,
				   page->bytes + begin, at - begin);
			if (r)
				return r;
		}
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/journal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
	unsigned int count;
	size_t bytes;
	int result;
};

static int look(void *context, const uint8_t *data, size_t length)
{
	struct seen *seen = context;

	for (size_t i = 0; i < length; i++)
		cr_assert_eq(data[i], (uint8_t)(length + i));
	cr_expect_eq((uintptr_t)data % 8, 0);
	seen->count++;
	seen->bytes += length;
	return seen->result;
}

static void append(struct journal *journal, size_t length)
{
	uint8_t *data = malloc(length);

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(length + i);
	cr_assert_eq(journal_append(journal, data, length), 0);
	free(data);
}

Test(journal, replays_what_was_appended)
{
	uint64_t bytes = 0;
	struct journal journal = {.fd = memfd_create("journal", MFD_CLOEXEC), .bytes = &bytes};
	struct seen seen = {0};
	struct stat st;

	for (size_t length = 1; length < 3000; length += 7)
		append(&journal, length);
	append(&journal, 64000);
	cr_assert_eq(journal_replay(&journal, look, &seen), 0);
	cr_expect_eq(seen.count, 430);
	/* An error of the handler ends the replay. */
	seen = (struct seen){.result = -EBADMSG};
	cr_expect_eq(journal_replay(&journal, look, &seen), -EBADMSG);
	cr_expect_eq(seen.count, 1);
	journal_clear(&journal);
	cr_expect(fstat(journal.fd, &st) == 0 && st.st_size == 0);
	seen = (struct seen){0};
	cr_expect_eq(journal_replay(&journal, look, &seen), 0);
	cr_expect_eq(seen.count, 0);
	close(journal.fd);
}

/* Killed after the record was written and before its length was. */
Test(journal, ignores_an_unfinished_record)
{
	uint64_t bytes = 0;
	struct journal journal = {.fd = memfd_create("journal", MFD_CLOEXEC), .bytes = &bytes};
	struct seen seen = {0};

	append(&journal, 100);
	const uint64_t before = bytes;
	append(&journal, 200);
	bytes = before;
	cr_expect_eq(journal_replay(&journal, look, &seen), 0);
	cr_expect_eq(seen.bytes, 100);
	append(&journal, 300);
	seen = (struct seen){0};
	cr_expect_eq(journal_replay(&journal, look, &seen), 0);
	cr_expect_eq(seen.bytes, 400);
	close(journal.fd);
}

Test(journal, refuses_contents_that_are_no_journal)
{
	uint64_t bytes = 1000, length = UINT64_MAX;
	struct journal journal = {.fd = memfd_create("journal", MFD_CLOEXEC), .bytes = &bytes};
	struct seen seen = {0};

	cr_expect_eq(journal_replay(&journal, look, &seen), -EBADMSG, "cut");
	cr_assert_eq(pwrite(journal.fd, &length, 8, 0), 8);
	cr_expect_eq(journal_replay(&journal, look, &seen), -EBADMSG, "too long");
	cr_expect_eq(seen.count, 0);
	close(journal.fd);
}

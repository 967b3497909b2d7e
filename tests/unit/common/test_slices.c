/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/slices.h"

enum {
	ROUNDS = 5,
};

struct work {
	unsigned int rounds; /* that were done */
	uint64_t sum;
};

/* Has variables that must survive pauses. */
static void count(void *context)
{
	struct work *work = context;
	uint64_t values[ROUNDS];

	for (unsigned int i = 0; i < ROUNDS; i++) {
		values[i] = i + 1;
		work->rounds++;
		slices_pause_when_due();
	}
	for (unsigned int i = 0; i < ROUNDS; i++)
		work->sum += values[i];
}

Test(slices, work_pauses_when_a_slice_is_over)
{
	struct slices slices = {0};
	struct work work = {0};

	cr_expect_not(slices_are_under_way(&slices));
	cr_expect_eq(slices_work(&slices, count, &work, 0), -EAGAIN);
	for (unsigned int i = 1; i <= ROUNDS; i++) {
		cr_expect(slices_are_under_way(&slices));
		cr_expect_eq(work.rounds, i);
		cr_expect_eq(slices_work(&slices, count, &work, 0), i < ROUNDS ? -EAGAIN : 0);
	}
	cr_expect_not(slices_are_under_way(&slices));
	cr_expect_eq(work.sum, 15);
}

Test(slices, work_that_is_short_ends_at_once)
{
	struct slices slices = {0};
	struct work work = {0};

	cr_expect_eq(slices_work(&slices, count, &work, NS_PER_S * 1000), 0);
	cr_expect_not(slices_are_under_way(&slices));
	cr_expect_eq(work.sum, 15);
}

Test(slices, pieces_of_work_alternate)
{
	struct slices slices[2] = {{0}, {0}};
	struct work work[2] = {{0}, {0}};

	cr_expect_eq(slices_work(&slices[0], count, &work[0], 0), -EAGAIN);
	cr_expect_eq(slices_work(&slices[1], count, &work[1], 0), -EAGAIN);
	cr_expect_eq(slices_work(&slices[0], count, &work[0], 0), -EAGAIN);
	slices_finish(&slices[1]);
	cr_expect_eq(work[0].rounds, 2);
	cr_expect_eq(work[1].sum, 15);
	slices_finish(&slices[0]);
	slices_finish(&slices[0]);
	cr_expect_eq(work[0].sum, 15);
}

Test(slices, other_work_does_not_pause)
{
	struct work work = {0};

	count(&work);
	cr_expect_eq(work.sum, 15);
}

struct reading {
	int fd;
	ssize_t result;
	uint8_t bytes[3 << 20];
};

static void read_all(void *context)
{
	struct reading *reading = context;

	reading->result =
	    file_read_fully_at(reading->fd, 0, reading->bytes, sizeof(reading->bytes));
}

/* A long read from a slow disk must not make others wait. */
Test(slices, reads_of_files_pause)
{
	struct slices slices = {0};
	struct reading *reading = malloc(sizeof(*reading));
	unsigned int pauses = 0;

	cr_assert_not_null(reading);
	reading->fd = memfd_create("file", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(reading->fd, sizeof(reading->bytes)), 0);
	cr_assert_eq(pwrite(reading->fd, "end", 3, sizeof(reading->bytes) - 3), 3);
	while (slices_work(&slices, read_all, reading, 0))
		pauses++;
	cr_expect_eq(pauses, 3);
	cr_expect_eq(reading->result, sizeof(reading->bytes));
	cr_expect_arr_eq(reading->bytes + sizeof(reading->bytes) - 3, "end", 3);
	close(reading->fd);
	free(reading);
}

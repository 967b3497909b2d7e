/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the ring, which a kernel side that was taken over may have forged. */
#include <criterion/criterion.h>
#include <string.h>

#include "symbolizer/worker/sample_check.h"

enum {
	WORDS_MAX = BH_USER_FRAMES_MAX + BH_KERNEL_FRAMES_MAX
};

static struct {
	struct bh_sample header;
	uint64_t words[WORDS_MAX];
} record;

static bool is_valid(unsigned int words)
{
	return sample_is_valid(&record, sizeof(record.header) + words * sizeof(record.words[0]));
}

/* A managed frame with this many words. */
static uint64_t managed(unsigned int words)
{
	return bh_frame_managed(BH_RUNTIME_CPYTHON, 0, words - 1);
}

Test(sample_check, the_counts_fit_the_record)
{
	record.header.user_count = 2;
	record.header.kernel_count = 3;
	cr_expect(is_valid(5));
	cr_expect(is_valid(6), "more than it says");
	cr_expect_not(is_valid(4));
	cr_expect_not(sample_is_valid(&record, sizeof(record.header) - 1));
	record.header.user_count = BH_USER_FRAMES_MAX;
	record.header.kernel_count = BH_KERNEL_FRAMES_MAX;
	cr_expect(is_valid(WORDS_MAX));
	record.header.user_count++;
	cr_expect_not(is_valid(WORDS_MAX));
	record.header.user_count--;
	record.header.kernel_count++;
	cr_expect_not(is_valid(WORDS_MAX));
}

Test(sample_check, a_goroutine_follows_the_frames)
{
	record.header.user_count = 2;
	record.header.kernel_count = 1;
	record.words[3] = 17;
	cr_expect_eq(sample_goroutine(&record.header, record.words), 0);
	record.header.flags = BH_SAMPLE_GOROUTINE;
	cr_expect(is_valid(4));
	cr_expect_not(is_valid(3));
	cr_expect_eq(sample_goroutine(&record.header, record.words), 17);
	record.words[3] = RECORD_GOROUTINE_MAX + 1;
	cr_expect_eq(sample_goroutine(&record.header, record.words), 0);
	/* Without frames, it is the first word. */
	record.header.user_count = record.header.kernel_count = 0;
	record.words[0] = 18;
	cr_expect(is_valid(1));
	cr_expect_not(is_valid(0));
	cr_expect_eq(sample_goroutine(&record.header, record.words), 18);
}

Test(sample_check, the_reason_is_defined)
{
	record.header.reason = BH_REASON_COUNT - 1;
	cr_expect(is_valid(0));
	record.header.reason++;
	cr_expect_not(is_valid(0));
}

/* Otherwise kernel frames, or what follows the record, would be read as words of a frame. */
Test(sample_check, managed_frames_end_with_the_last_word)
{
	record.header.flags = BH_SAMPLE_MANAGED;
	record.header.user_count = 4;
	record.words[0] = managed(3);
	cr_expect(is_valid(4));
	record.words[3] = managed(2);
	cr_expect_not(is_valid(4));
	cr_expect_not(is_valid(5));
	record.header.flags = 0;
	cr_expect(is_valid(4), "all words are frames of their own");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "common/sequence_lock.h"

Test(sequence_lock, number_is_odd_during_a_change_and_new_after_it)
{
	uint32_t sequence = 4;

	sequence_lock_begin(&sequence);
	cr_assert_eq(sequence, 5);
	sequence_lock_end(&sequence);
	cr_assert_eq(sequence, 6);
}

Test(sequence_lock, change_after_an_unfinished_one_completes_the_entry)
{
	uint32_t sequence = 4;

	sequence_lock_begin(&sequence);
	sequence_lock_begin(&sequence);
	cr_assert_eq(sequence, 5);
	sequence_lock_end(&sequence);
	cr_assert_eq(sequence, 6);
}

Test(sequence_lock, number_wraps_to_an_even_one)
{
	uint32_t sequence = UINT32_MAX - 1;

	sequence_lock_begin(&sequence);
	cr_assert_eq(sequence, UINT32_MAX);
	sequence_lock_end(&sequence);
	cr_assert_eq(sequence, 0);
}

static struct {
	uint32_t sequence;
	uint64_t a, b; /* equal, except during a change */
	bool stop;
} entry;

static void *keep_changing(void *unused)
{
	(void)unused;
	for (uint64_t i = 1; !__atomic_load_n(&entry.stop, __ATOMIC_RELAXED); i++) {
		sequence_lock_begin(&entry.sequence);
		__atomic_store_n(&entry.a, i, __ATOMIC_RELAXED);
		__atomic_store_n(&entry.b, i, __ATOMIC_RELAXED);
		sequence_lock_end(&entry.sequence);
		/* Leave the entry complete for a while, also on a machine with one CPU. */
		if (i % 16 == 0)
			sched_yield();
	}
	return NULL;
}

Test(sequence_lock, reader_that_checks_the_number_never_sees_half_a_change)
{
	unsigned int trusted = 0;
	pthread_t writer;

	cr_assert_eq(pthread_create(&writer, NULL, keep_changing, NULL), 0);
	while (trusted < 1000) {
		const uint32_t before = __atomic_load_n(&entry.sequence, __ATOMIC_ACQUIRE);
		const uint64_t a = __atomic_load_n(&entry.a, __ATOMIC_RELAXED);
		const uint64_t b = __atomic_load_n(&entry.b, __ATOMIC_RELAXED);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (before & 1 || __atomic_load_n(&entry.sequence, __ATOMIC_RELAXED) != before) {
			sched_yield();
			continue;
		}
		trusted++;
		cr_assert_eq(a, b);
	}
	__atomic_store_n(&entry.stop, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/array.h"

Test(array, first_allocation_has_the_policys_size_and_later_ones_double)
{
	uint32_t *items = NULL;
	size_t capacity = 0;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, 1, 8, ARRAY_UNLIMITED), 0);
	cr_assert_eq(capacity, 8);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 9, 8, ARRAY_UNLIMITED), 0);
	cr_assert_eq(capacity, 16);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 100, 8, ARRAY_UNLIMITED), 0);
	cr_assert_eq(capacity, 128);
	free(items);
}

Test(array, items_survive_growth)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < 1000; i++) {
		cr_assert_eq(ARRAY_RESERVE(items, capacity, i + 1, 1, ARRAY_UNLIMITED), 0);
		items[i] = i * 3;
	}
	for (size_t i = 0; i < 1000; i++)
		cr_assert_eq(items[i], i * 3);
	free(items);
}

Test(array, array_with_room_is_not_touched)
{
	int *items = (int *)8; /* realloc would crash on it */
	size_t capacity = 4;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, 4, 1, 4), 0);
	cr_assert_eq(items, (int *)8);
	cr_assert_eq(capacity, 4);
}

Test(array, capacity_ends_at_the_maximum)
{
	char *items = NULL;
	size_t capacity = 0;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, 60, 64, 100), 0);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 65, 64, 100), 0);
	cr_assert_eq(capacity, 100);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 100, 64, 100), 0);
	free(items);
}

Test(array, refusal_above_the_maximum_changes_nothing)
{
	char *items = NULL;
	size_t capacity = 0;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, 4, 4, 6), 0);
	char *before = items;
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 7, 4, 6), -E2BIG);
	cr_assert_eq(items, before);
	cr_assert_eq(capacity, 4);
	free(items);
}

Test(array, size_that_overflows_is_refused)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, SIZE_MAX / 4, 8, ARRAY_UNLIMITED), -ENOMEM);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, SIZE_MAX, 8, ARRAY_UNLIMITED), -ENOMEM);
	cr_assert_null(items);
	cr_assert_eq(capacity, 0);
}

Test(array, array_is_made_to_fit_its_items)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	cr_assert_eq(ARRAY_RESERVE(items, capacity, 3, 1024, ARRAY_UNLIMITED), 0);
	for (size_t i = 0; i < 3; i++)
		items[i] = i * 3;
	ARRAY_FIT(items, capacity, 3);
	cr_assert_eq(capacity, 3);
	cr_expect_lt(malloc_usable_size(items), 64);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(items[i], i * 3);
	/* It can grow again. */
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 4, 1024, ARRAY_UNLIMITED), 0);
	cr_expect_eq(capacity, 6);
	free(items);
}

Test(array, array_without_items_is_freed)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	ARRAY_FIT(items, capacity, 0);
	cr_expect_null(items);
	cr_assert_eq(ARRAY_RESERVE(items, capacity, 1, 8, ARRAY_UNLIMITED), 0);
	ARRAY_FIT(items, capacity, 0);
	cr_expect_null(items);
	cr_expect_eq(capacity, 0);
}

static unsigned int comparisons;

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	comparisons++;
	return (*x > *y) - (*x < *y);
}

Test(array, items_are_sorted_only_if_they_are_not)
{
	uint32_t items[] = {1, 2, 2, 5, 4, 3};

	array_sort(items, 4, sizeof(items[0]), compare);
	cr_expect_eq(comparisons, 3);
	array_sort(items, 6, sizeof(items[0]), compare);
	for (size_t i = 1; i < 6; i++)
		cr_expect_leq(items[i - 1], items[i]);
	array_sort(NULL, 0, sizeof(items[0]), compare);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/search.h"

Test(search, result_is_the_first_index_where_the_condition_fails)
{
	/* Every array of up to 40 items, of which the first `before` fulfil the condition. */
	for (size_t count = 0; count <= 40; count++) {
		for (size_t before = 0; before <= count; before++)
			cr_assert_eq(SEARCH_LOWER_BOUND(i, count, i < before), before);
	}
}

Test(search, equal_items_can_be_included_or_excluded)
{
	static const unsigned int offsets[] = {10, 20, 20, 30};

	cr_assert_eq(SEARCH_LOWER_BOUND(i, 4, offsets[i] < 20), 1);
	cr_assert_eq(SEARCH_LOWER_BOUND(i, 4, offsets[i] <= 20), 3);
	cr_assert_eq(SEARCH_LOWER_BOUND(i, 4, offsets[i] < 31), 4);
}

Test(search, condition_is_asked_at_most_once_per_bit_of_the_count)
{
	unsigned int asked = 0;

	cr_assert_eq(SEARCH_LOWER_BOUND(i, (size_t)1 << 20, (asked++, i < 77777)), 77777);
	cr_assert_leq(asked, 21);
}

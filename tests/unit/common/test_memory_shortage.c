/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/memory_shortage.h"

static const uint64_t second = NS_PER_S;

Test(memory_shortage, nothing_is_lost)
{
	struct memory_shortage shortage = {0};

	for (uint64_t s = 1; s < 100; s++)
		cr_expect_not(memory_shortage_lasts(&shortage, 0, s * second));
}

Test(memory_shortage, lasts)
{
	struct memory_shortage shortage = {0};

	for (uint64_t s = 0; s < 30; s++)
		cr_expect_not(memory_shortage_lasts(&shortage, 1 + s, (100 + s) * second), "%d", (int)s);
	cr_expect(memory_shortage_lasts(&shortage, 31, 130 * second));
}

Test(memory_shortage, a_short_pause_does_not_end_it)
{
	struct memory_shortage shortage = {0};

	cr_expect_not(memory_shortage_lasts(&shortage, 1, 100 * second));
	for (uint64_t s = 104; s < 130; s += 4) {
		cr_expect_not(memory_shortage_lasts(&shortage, s, s * second));
		cr_expect_not(memory_shortage_lasts(&shortage, s, (s + 2) * second), "nothing more was lost");
	}
	cr_expect(memory_shortage_lasts(&shortage, 200, 132 * second));
}

Test(memory_shortage, a_long_one_does)
{
	struct memory_shortage shortage = {0};

	for (uint64_t s = 0; s < 29; s++)
		cr_expect_not(memory_shortage_lasts(&shortage, 1 + s, (100 + s) * second));
	cr_expect_not(memory_shortage_lasts(&shortage, 40, 135 * second));
	cr_expect_not(memory_shortage_lasts(&shortage, 41, 136 * second));
}

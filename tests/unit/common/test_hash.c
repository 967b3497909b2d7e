/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/hash.h"

Test(hash, bucket_is_within_the_table)
{
	for (unsigned int bits = 1; bits < 64; bits++)
		cr_assert_lt(hash_bucket(UINT64_MAX, bits), UINT64_C(1) << bits);
	cr_assert_eq(hash_bucket(1, 64), HASH_GOLDEN_RATIO);
}

/* Page-aligned addresses are the usual keys. A plain modulo would put all of them into bucket 0. */
Test(hash, neighbouring_keys_are_spread_evenly)
{
	unsigned int buckets[256];

	for (unsigned int shift = 0; shift < 40; shift += 4) {
		memset(buckets, 0, sizeof(buckets));
		for (uint64_t key = 0; key < 256; key++)
			buckets[hash_bucket(key << shift, 8)]++;
		for (size_t i = 0; i < 256; i++)
			cr_assert_leq(buckets[i], 3, "shift %u bucket %zu: %u", shift, i,
				      buckets[i]);
	}
}

Test(hash, order_of_words_matters)
{
	cr_assert_neq(hash_combine(hash_combine(0, 1), 2), hash_combine(hash_combine(0, 2), 1));
}

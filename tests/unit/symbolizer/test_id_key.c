/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>

#include "symbolizer/worker/id_key.h"

/* Two different inputs of 32 bytes have the same hash if one begins with a word of the secret, and
 * the other one has the next word at its second place: both products are 0 (XXH3_mix16B). The
 * secret of XXH3 without a key is public, and the seed is added to one word and subtracted from the
 * other. */
Test(id_key, a_process_cannot_make_two_inputs_with_the_same_key)
{
	static const uint64_t public[2] = {0xbe4ba423396cfeb8, 0x1cad21f72c81017c};
	const uint64_t x = 0x123456789;
	const uint64_t collision[2][4] = {{x, public[1], 1, 2},
					  {public[0], x + public[1] - public[0], 1, 2}};
	struct id_secret secret = {0};

	cr_expect_eq(XXH128_isEqual(XXH3_128bits(collision[0], 32), XXH3_128bits(collision[1], 32)), 1);
	cr_assert_eq(id_secret_init(&secret), 0);
	cr_expect_eq(XXH128_isEqual(id_key(&secret, collision[0], 32), id_key(&secret, collision[1], 32)), 0);
}

Test(id_key, each_worker_has_keys_of_its_own)
{
	struct id_secret first = {0}, second = {0};

	cr_assert_eq(id_secret_init(&first), 0);
	cr_assert_eq(id_secret_init(&second), 0);
	cr_expect_neq(id_key_of_text(&first, "main").low64, id_key_of_text(&second, "main").low64);
}

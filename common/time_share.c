/* SPDX-License-Identifier: Apache-2.0 */
#include "common/time_share.h"

bool time_share_is_left(struct time_share *share, uint64_t now_ns)
{
	const uint64_t passed_ns = now_ns - share->grown_ns;

	if (!share->grown_ns) {
		share->left_ns = (int64_t)share->most_ns;
	} else {
		const uint64_t gained_ns = passed_ns / 100 * share->percent;
		const uint64_t missing_ns = share->most_ns - (uint64_t)share->left_ns;

		share->left_ns += (int64_t)(gained_ns < missing_ns ? gained_ns : missing_ns);
	}
	share->grown_ns = now_ns;
	return share->left_ns > 0;
}

void time_share_spend(struct time_share *share, uint64_t ns)
{
	share->left_ns -= ns < INT64_MAX / 2 ? (int64_t)ns : INT64_MAX / 2;
}

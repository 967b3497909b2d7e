/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary search over anything that can be asked by index.
 *
 * SEARCH_LOWER_BOUND(i, count, condition) returns the first index in 0 .. count - 1 for which
 * `condition`, an expression that uses the index `i`, is false, and `count` if it holds for all of
 * them. The condition must hold for a prefix of the indexes and for nothing after it, as "this item
 * comes before the key" does in a sorted array.
 *
 * Example: in offsets = {10, 20, 20, 30},
 *     SEARCH_LOWER_BOUND(i, 4, offsets[i] < 20)  is 1, the first offset that is at least 20;
 *     SEARCH_LOWER_BOUND(i, 4, offsets[i] <= 20) is 3, the number of offsets up to 20.
 */
#ifndef COMMON_SEARCH_H
#define COMMON_SEARCH_H

#include <stddef.h>

#define SEARCH_LOWER_BOUND(i, count, condition)                                                    \
	({                                                                                         \
		size_t _low = 0, _high = (count);                                                  \
		while (_low < _high) {                                                             \
			const size_t i = _low + (_high - _low) / 2;                                \
			if (condition)                                                             \
				_low = i + 1;                                                      \
			else                                                                       \
				_high = i;                                                         \
		}                                                                                  \
		_low;                                                                              \
	})

#endif

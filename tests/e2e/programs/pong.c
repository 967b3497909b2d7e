/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

long ping(long n);

KEEP long pong_leaf(void)
{
	CHAIN_BURN();
	return 0;
}

KEEP long pong(long n)
{
	return (n <= 0 ? pong_leaf() : ping(n - 1)) + n;
}

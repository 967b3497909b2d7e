/* SPDX-License-Identifier: Apache-2.0 */
/* A small shared object with one frame of the chain, among some functions that nobody calls; built
 * with several values of HOP_VARIANT, and copied as often as a benchmark needs modules. */
#include "hop.h"

#define OTHER(n)                                                                                   \
	unsigned long hop_other_##n(hop_function *f, struct chain *chain);                         \
	unsigned long hop_other_##n(hop_function *f, struct chain *chain)                          \
	{                                                                                          \
		volatile unsigned long local[1 + ((n)*5 + HOP_VARIANT) % 11];                      \
                                                                                                   \
		local[0] = (unsigned long)(n);                                                     \
		return f(chain, (n)) + f(chain, (unsigned int)local[0]) + HOP_VARIANT;             \
	}
#define OTHERS_8(n)                                                                                \
	OTHER(n##0)                                                                                \
	OTHER(n##1) OTHER(n##2) OTHER(n##3) OTHER(n##4) OTHER(n##5) OTHER(n##6) OTHER(n##7)
OTHERS_8(0)
OTHERS_8(01)
OTHERS_8(02)
OTHERS_8(03)

hop_function hop;
__attribute__((aligned(256))) unsigned long hop(struct chain *chain, unsigned int left)
{
	volatile unsigned long local[1 + HOP_VARIANT * 3 % 11];

	local[0] = left;
	return chain_next(chain, left) + local[0];
}

OTHERS_8(04)
OTHERS_8(05)

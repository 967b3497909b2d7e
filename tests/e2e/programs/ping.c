/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

long pong(long n);

KEEP long ping(long n)
{
	char frame[40 + 16];

	memset(frame, (int)n, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	return pong(n - 1) + frame[n & 7];
}

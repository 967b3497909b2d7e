/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps SECONDS: eight functions that do little more than call the next one, each with another
 * prologue and epilogue. A sample may be taken at any instruction of any of them. Every name occurs
 * once, so a test notices each frame too many or too few.
 */
#include "chain.h"

CHAIN_GLOBALS;

#define PIN(x) ({ __asm__ volatile("" : "+r"(x)); })

KEEP long step8(long n)
{
	return n + 1;
}

KEEP long step7(long n)
{
	long a = n + 1;

	PIN(a);
	return step8(n) + a;
}

KEEP long step6(long n)
{
	char frame[200];

	__asm__ volatile("" : : "r"(frame) : "memory");
	return step7(n) + frame[8];
}

KEEP long step5(long n)
{
	long a = n, b = n + 1, c = n + 2, d = n + 3, e = n + 4, f = n + 5;

	PIN(a), PIN(b), PIN(c), PIN(d), PIN(e), PIN(f);
	return step6(n) + a + b + c + d + e + f;
}

KEEP long step4(long n)
{
	_Alignas(64) char frame[64];

	__asm__ volatile("" : : "r"(frame) : "memory");
	return step5(n) + frame[8];
}

KEEP long step3(long n)
{
	if (n & 1)
		return n;
	/* The compiler sets up the frame only in this branch. */
	return step4(n) + step4(n + 2);
}

KEEP long step2(long n)
{
	char *frame = __builtin_alloca((size_t)(n & 63) + 16);

	__asm__ volatile("" : : "r"(frame) : "memory");
	return step3(n & ~1L) + frame[3];
}

KEEP long step1(long n)
{
	for (;;) {
		n += step2(n & 0xffff) & 0xff;
		n += step3(1);
	}
	return n;
}

int main(int argc, char **argv)
{
	chain_start(argc, argv, 0);
	chain_say("{'chains': ["
		  "['step8', 'step7', 'step6', 'step5', 'step4', 'step3', 'step2', 'step1', 'main', '@start'],"
		  "['step7', 'step6', 'step5', 'step4', 'step3', 'step2', 'step1', 'main', '@start'],"
		  "['step6', 'step5', 'step4', 'step3', 'step2', 'step1', 'main', '@start'],"
		  "['step5', 'step4', 'step3', 'step2', 'step1', 'main', '@start'],"
		  "['step4', 'step3', 'step2', 'step1', 'main', '@start'],"
		  "['step3', 'step2', 'step1', 'main', '@start'],"
		  "['step3', 'step1', 'main', '@start'],"
		  "['step2', 'step1', 'main', '@start'],"
		  "['step1', 'main', '@start']],"
		  " 'need': {'step5': 0.2}}");
	return (int)step1(1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* frames SECONDS N: a chain with frames of every shape: alloca, variable arrays, realigned (with and without a DRAP), huge. */
#include "chain.h"

CHAIN_GLOBALS;

static inline __attribute__((always_inline)) void touch(void *p, size_t n)
{
	memset(p, 1, n);
	__asm__ volatile("" : : "r"(p) : "memory");
}

KEEP long leaf(long n)
{
	CHAIN_BURN();
	return n;
}

KEEP long huge(long n)
{
	char frame[40000];

	touch(frame, sizeof(frame));
	return leaf(n) + frame[n];
}

/* alloca and an aligned local: CFA = memory at rbp - something (DW_CFA_def_cfa_expression) */
KEEP long drap(long n)
{
	_Alignas(64) char frame[128];
	char *more = __builtin_alloca((size_t)n * 16);

	touch(frame, sizeof(frame));
	touch(more, (size_t)n * 16);
	return huge(n) + frame[n] + more[n];
}

/* arguments on the stack and an aligned local */
KEEP long drap_args(long a, long b, long c, long d, long e, long f, long g, long h)
{
	_Alignas(128) char frame[256];

	touch(frame, sizeof(frame));
	return drap(a) + b + c + d + e + f + g + h + frame[a];
}

KEEP __attribute__((force_align_arg_pointer)) long forced(long n)
{
	_Alignas(32) char frame[64];

	touch(frame, sizeof(frame));
	return drap_args(n, 2, 3, 4, 5, 6, 7, 8) + frame[n];
}

KEEP long aligned(long n)
{
	_Alignas(64) char frame[64];

	touch(frame, sizeof(frame));
	return forced(n) + frame[n];
}

KEEP long variable(long n)
{
	char frame[n * 3 + 1];

	touch(frame, (size_t)n * 3 + 1);
	return aligned(n) + frame[n];
}

KEEP long allocating(long n)
{
	char *first = __builtin_alloca((size_t)n + 33), *second;

	touch(first, (size_t)n + 33);
	second = __builtin_alloca((size_t)n * 9);
	touch(second, (size_t)n * 9);
	return variable(n) + first[n] + second[n];
}

/* all callee-saved registers in use, rbp as an ordinary one */
KEEP long crowded(long n)
{
	long a = n * 3, b = n * 5, c = n * 7, d = n * 11, e = n * 13, f = n * 17;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	n = allocating(n);
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	return n + a + b + c + d + e + f;
}

int main(int argc, char **argv)
{
	long n = chain_start(argc, argv, 21);

	chain_say("{'chains': [['leaf', 'huge', 'drap', 'drap_args', 'forced', 'aligned', 'variable', 'allocating', 'crowded', 'main', '@start']]}");
	return (int)crowded(n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between chain.c and the shared objects of hop.c. */
#ifndef HOP_H
#define HOP_H

#include <stdbool.h>

struct chain;

/* One frame of the chain, which calls on until `left` more frames are there. */
typedef unsigned long hop_function(struct chain *chain, unsigned int left);

struct chain {
	unsigned long (*leaf)(struct chain *chain);
	hop_function *const volatile *functions;
	unsigned int count;
	unsigned int first;  /* index of the first function: another one for each thread */
	unsigned int varied; /* this many functions near the leaf differ in each descent */
	bool scattered;	     /* all differ, at random, so that hardly two descents are alike */
	unsigned long descent;
};

/* MurmurHash3's finalizer. */
static inline __attribute__((always_inline)) unsigned long chain_mix(unsigned long x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdul;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ul;
	return x ^ x >> 33;
}

static inline __attribute__((always_inline)) unsigned long chain_next(struct chain *chain,
								      unsigned int left)
{
	unsigned long which = chain->first + left * 37ul;

	if (!left)
		return chain->leaf(chain);
	if (chain->scattered)
		which = chain_mix(((chain->descent << 12) + chain->first) << 14 ^ left);
	else if (left <= chain->varied)
		which += chain->descent * 5;
	return chain->functions[which % chain->count](chain, left - 1);
}

#endif

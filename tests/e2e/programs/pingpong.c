/* SPDX-License-Identifier: Apache-2.0 */
/* pingpong SECONDS DEPTH: two shared libraries that call each other recursively. */
#include "chain.h"

CHAIN_GLOBALS;
long ping(long n);

int main(int argc, char **argv)
{
	long depth = chain_start(argc, argv, 60) & ~1L;
	char chain[4096] = "";

	for (long i = 0; i < depth / 2; i++)
		strcat(chain, "'pong', 'ping', ");
	chain_say("{'chains': [['pong_leaf', %s'main', '@start']]}", chain);
	return (int)ping(depth - 1);
}

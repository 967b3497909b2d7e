/* SPDX-License-Identifier: Apache-2.0 */
/* assembly SECONDS LEAF: frames written in assembly (hand.S) between frames of C. LEAF (0 to 4) selects the one that uses CPU time. */
#include "chain.h"

CHAIN_GLOBALS;
long hand_push(long (*leaf)(void));
long hand_moving(void), hand_r10(void), hand_deref(void), hand_deref_plus(void), hand_rbx(void);

KEEP long c_leaf(void)
{
	CHAIN_BURN();
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long (*function)(void);
	} leaves[] = {
		{ "c_leaf", c_leaf },	      { "hand_moving", hand_moving },
		{ "hand_r10", hand_r10 },     { "hand_deref", hand_deref },
		{ "hand_deref_plus", hand_deref_plus }, { "hand_rbx", hand_rbx },
	};
	unsigned long leaf = (unsigned long)chain_start(argc, argv, 0) % (sizeof(leaves) / sizeof(leaves[0]));

	chain_say("{'chains': [['%s', 'hand_pass_state', 'hand_pass_deref', 'hand_pass_rbx', 'hand_push', 'main', '@start']]}", leaves[leaf].name);
	return (int)hand_push(leaves[leaf].function);
}

// SPDX-License-Identifier: Apache-2.0
// exceptions SECONDS: throws and catches without end. Most samples lie inside libgcc's and libstdc++'s
// unwinders; the chain below them is known whatever they do, but for one moment: to land, libgcc copies
// the target's registers and return address over its own frame's. That moment has 0.35 % of the samples
// with 80 frames of `passing`, and 0.1 % with 240.
#include "chain.h"

CHAIN_GLOBALS;

struct counted {
	unsigned long by;
	~counted() { chain_sink += by; }
};

extern "C" KEEP void thrower(long n)
{
	counted c{ 1 };
	if (n >= 0)
		throw n;
	chain_sink++;
}

extern "C" KEEP void middle(long n)
{
	counted c{ 2 };
	thrower(n + 1);
	chain_sink++;
}

extern "C" KEEP void outer(long n)
{
	middle(n + 1);
	chain_sink++;
}

extern "C" KEEP void passing(long depth, long n)
{
	if (depth > 1)
		passing(depth - 1, n);
	else
		outer(n);
	chain_sink++;
}

extern "C" KEEP void catcher()
{
	for (long n = 0;; n++) {
		try {
			passing(240, n & 0xff);
		} catch (long m) {
			chain_sink += (unsigned long)m;
		}
	}
}

int main(int argc, char **argv)
{
	chain_start(argc, argv, 0);
	/* The compiler moves code that throws or cleans up to a part of its own, NAME.cold. */
#define THROWER "{'re': 'thrower( ?.?(clone )?\\\\.cold]?)?'}"
#define MIDDLE "{'re': 'middle( ?.?(clone )?\\\\.cold]?)?'}"
#define REST "'outer', {'name': 'passing', 'times': 240}, 'catcher', 'main', '@start']"
	chain_say("{'chains': ["
		  "[{'re': '.*', 'min': 0, 'max': 14}, " THROWER ", " MIDDLE ", " REST ","
		  "[{'re': '(?!thrower).*', 'min': 0, 'max': 14}, " MIDDLE ", " REST ","
		  "[" REST ","
		  "[{'name': 'passing', 'min': 1, 'max': 240}, 'catcher', 'main', '@start'],"
		  "[{'re': '(?!thrower|middle|outer|passing).*', 'min': 0, 'max': 8}, {'re': 'catcher(\\\\.cold)?'}, 'main', '@start']],"
		  " 'need': {'thrower.*': 0.4, '_Unwind_.*|libgcc.*': 0.4}}");
	catcher();
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// cxxnames SECONDS: names as a C++ programmer writes them.
#include <functional>

#include "chain.h"

CHAIN_GLOBALS;

namespace shapes
{
template <typename T> struct ring {
	KEEP T spin(T n)
	{
		CHAIN_BURN();
		return n;
	}
	KEEP T operator()(T n) { return spin(n) + 1; }
};

namespace
{
KEEP long hidden(ring<long> &r, const char *, long n)
{
	return r(n) + 1;
}
} // namespace
} // namespace shapes

int main(int argc, char **argv)
{
	shapes::ring<long> r;

	chain_start(argc, argv, 0);
	/* Names may have parameters or not, depending on the options of the demangler. */
	chain_say("{'chains': [[{'re': 'shapes::ring<long>::spin(\\\\(long\\\\))?'}, {'re': 'shapes::ring<long>::operator\\\\(\\\\)(\\\\(long\\\\))?'},"
		  " {'re': 'shapes::\\\\(anonymous namespace\\\\)::hidden(\\\\(shapes::ring<long>&, char const\\\\*, long\\\\))?'}, 'main', '@start']]}");
	return (int)shapes::hidden(r, "", 1);
}

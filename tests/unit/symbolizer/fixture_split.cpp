/* SPDX-License-Identifier: Apache-2.0 */
/* The second unit of the programs of test_dwarf_split.c, next to fixture_inlined.cpp. */
#include <string>

namespace split
{

struct counter {
	unsigned int vowels = 0;

	void add(char c)
	{
		if (std::string("aeiou").find(c) != std::string::npos)
			vowels++;
	}
};

static inline unsigned int count(const std::string &text)
{
	counter counter;

	for (char c : text)
		counter.add(c);
	return counter.vowels;
}

} // namespace split

unsigned int count_vowels(const char *text);

unsigned int count_vowels(const char *text)
{
	return split::count(text) + split::count(std::string(text) + "a");
}

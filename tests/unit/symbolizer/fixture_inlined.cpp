// SPDX-License-Identifier: Apache-2.0
// Something for test_dwarf_names.c to read: inlined calls, cold parts, templates, and functions with and without names for the
// linker. It is never run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

static inline int add(int a, int b)
{
	return a * 31 + b;
}

namespace outer {
namespace {
__attribute__((noinline)) int hidden(int a)
{
	return add(a, 7) ^ add(a + 1, 9);
}
} // namespace

struct shape {
	int side;
	int area() const
	{
		if (__builtin_expect(side < 0, 0))
			throw std::runtime_error("negative: " + std::to_string(side));
		return add(side, side);
	}
	virtual ~shape();
	virtual int corners() const;
};

shape::~shape() = default;

int shape::corners() const
{
	return hidden(side) + area();
}
} // namespace outer

template <typename T> static inline T largest(const std::vector<T> &all)
{
	return *std::max_element(all.begin(), all.end());
}

extern "C" __attribute__((noinline)) int count_words(const char *text)
{
	std::map<std::string, int> words;
	std::string word;

	for (; *text; text++) {
		if (*text != ' ') {
			word += *text;
			continue;
		}
		words[word]++;
		word.clear();
	}
	return static_cast<int>(words.size());
}

__attribute__((cold, noinline)) static void complain(const char *what)
{
	std::fprintf(stderr, "%s\n", what);
}

int main(int argc, char **argv)
{
	std::vector<int> all(static_cast<std::size_t>(argc) + 3);
	outer::shape shape{};

	shape.side = argc;
	if (argc > 100)
		complain("too many arguments");
	std::sort(all.begin(), all.end(), [](int a, int b) { return add(a, b) < add(b, a); });
	all[0] = outer::hidden(argc) + shape.corners();
	return largest(all) + count_words(argv[0]);
}

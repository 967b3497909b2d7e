// SPDX-License-Identifier: Apache-2.0
// Calls mix() through a known chain, for SECONDS: known_chain SECONDS. test_lines.py knows the lines by their texts.
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace work {
inline unsigned mix(unsigned a)
{
	for (int i = 0; i < 64; i++)
		a = a * 1664525u + 1013904223u;
	return a;
}

struct machine {
	unsigned state = 1;

	unsigned turn()
	{
		return mix(state) + 1;
	}
};

namespace {
__attribute__((noinline)) unsigned run(unsigned rounds)
{
	machine machine;
	unsigned sum = 0;

	while (rounds--) {
		machine.state += sum;
		sum += machine.turn();
	}
	return sum;
}
} // namespace
} // namespace work

template <typename T> __attribute__((noinline)) unsigned down(T depth, unsigned rounds)
{
	unsigned sum = depth ? down(depth - 1, rounds) : work::run(rounds);

	// Otherwise the call would be a jump.
	asm volatile("" : "+r"(sum));
	return sum;
}

int main(int argc, char **argv)
{
	const std::time_t end = std::time(nullptr) + std::atoi(argv[argc - 1]);
	unsigned sum = 0;

	std::puts("started");
	std::fflush(stdout);
	while (std::time(nullptr) < end)
		sum += down(20, 20000);
	return sum == 7;
}

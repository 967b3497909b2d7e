/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose symbols test_symbols.c asks for: templates, lambdas, operators, Rust names, PLT calls. It is never run. */
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shop
{
template <typename T, int N> struct basket {
	std::vector<T> items;
	__attribute__((noinline)) void add(const T &item)
	{
		for (int i = 0; i < N; i++)
			items.push_back(item);
	}
	__attribute__((noinline)) bool operator<(const basket &other) const
	{
		return items.size() < other.items.size();
	}
	__attribute__((noinline)) ~basket()
	{
		std::printf("%zu", items.size());
	}
};

template <typename... Ts> __attribute__((noinline)) std::size_t count(Ts... ts)
{
	std::vector<std::size_t> sizes{sizeof(ts)...};
	return sizes.size();
}

namespace
{
__attribute__((noinline)) int hidden(std::map<std::string, std::function<int(int)>> &handlers)
{
	handlers["x"] = [](int a) { return std::printf("%d", a); };
	return handlers.at("x")(3);
}
}
}

extern "C" {
/* Names as rustc makes them. */
#define NAMED(id, mangled)                                                                         \
	int id(int a) __asm__(mangled);                                                            \
	__attribute__((noinline, used)) int id(int a)                                              \
	{                                                                                          \
		return std::printf("%d", a) + a;                                                   \
	}
NAMED(rust_legacy, "_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE")
NAMED(rust_impl, "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17hfedcba9876543210E")
NAMED(rust_v0, "_RNvNtCs1234_7mycrate3foo3bar")
NAMED(rust_v0_generic, "_RINvNtC3std3mem8align_ofjE")
NAMED(cold, "_ZN4shop5checkEi.cold")
}

int main(int argc, char **)
{
	shop::basket<int, 3> a;
	shop::basket<std::string, 2> b;
	std::map<std::string, std::function<int(int)>> handlers;

	a.add(argc);
	b.add("x");
	return shop::hidden(handlers) + (int)shop::count(1, 2.0, "three") + (a < a) + rust_v0(argc);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbol_name.h"

#include <criterion/criterion.h>
#include <time.h>

static void check(const char *raw, const char *expected)
{
	char name[1024];

	size_t length = symbol_name_format(raw, name, sizeof(name));

	cr_assert_str_eq(name, expected);
	cr_assert_eq(length, strlen(expected));
}

Test(symbol_name, unmangled_names_are_kept)
{
	check("main", "main");
	check("", "");
	check("_Z", "_Z");
	check("_Z.cold", "_Z.cold");
	check("_R", "_R");
	check("_ZThisIsNotMangled", "_ZThisIsNotMangled");
	check("main.main.func1", "main.main.func1");
}

Test(symbol_name, cplusplus_names_lose_their_parameters)
{
	check("_ZNSt6vectorIiSaIiEE9push_backERKi",
	      "std::vector<int, std::allocator<int> >::push_back");
	check("_Z3fooIPKcEvT_", "foo<char const*>");
	check("_ZNK3foo3barEv", "foo::bar");
	check("_ZN3fooC2Ei", "foo::foo");
	check("_ZN3foocvbEv", "foo::operator bool");
	check("_ZZN3foo3barEiENKUlvE_clEv", "foo::bar(int)::{lambda()#1}::operator()");
	check("_ZN3foo3barEv.cold", "foo::bar.cold");
	check("_ZN3foo3barEv.isra.0.constprop.1", "foo::bar.isra.0.constprop.1");
	check("_ZN3foo3barEv.llvm.1234567890", "foo::bar");
}

Test(symbol_name, rust_names_lose_their_hash)
{
	check("_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE",
	      "core::fmt::Formatter::write_fmt");
	check("_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE.llvm.99",
	      "core::fmt::Formatter::write_fmt");
	check("_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_"
	      "str17hfedcba9876543210E",
	      "<alloc::string::String as core::fmt::Write>::write_str");
	check("_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_"
	      "str17hfedcba9876543210E.cold",
	      "<alloc::string::String as core::fmt::Write>::write_str.cold");
	check("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	check("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>");
	/* The example of Punycode in Rust's RFC 2603. */
	check("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
	      "utf8_idents::საჭმელად_გემრიელი_სადილი");
}

Test(symbol_name, control_characters_and_invalid_utf8_are_escaped)
{
	check("a\x01"
	      "b\x7f"
	      "c\n",
	      "a\\x01b\\x7fc\\x0a");
	check("\x1b[2J", "\\x1b[2J");
	check("caf\xc3\xa9", "caf\xc3\xa9");
	check("bad\xc3", "bad\\xc3");
	check("\xc0\xaf\xe0\x80\xaf\xed\xa0\x80\xf5\x80\x80\x80",
	      "\\xc0\\xaf\\xe0\\x80\\xaf\\xed\\xa0\\x80\\xf5\\x80\\x80\\x80");
	check("\xc2\x85", "\\xc2\\x85");	  /* next line, a C1 control */
	check("\xe2\x80\xae", "\\xe2\\x80\\xae"); /* right-to-left override */
	check("\xf0\x9f\x99\x82", "\xf0\x9f\x99\x82");
	check("_Z3f\x01o", "f\\x01o");
	check("_Z3f\x01ov", "f\\x01o");
}

Test(symbol_name, long_names_are_cut_at_whole_characters)
{
	char name[8];

	cr_assert_eq(symbol_name_format("abcdefghij", name, sizeof(name)), 7);
	cr_assert_str_eq(name, "abcdefg");
	cr_assert_eq(symbol_name_format("abcdef\xc3\xa9", name, sizeof(name)), 6);
	cr_assert_str_eq(name, "abcdef");
	cr_assert_eq(symbol_name_format("abcd\x01", name, sizeof(name)), 4);
	cr_assert_eq(symbol_name_format("abc\x01", name, sizeof(name)), 7);
	cr_assert_eq(symbol_name_format("x", name, 1), 0);
	cr_assert_str_eq(name, "");
}

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void check_duration(const char *raw)
{
	char name[1024];
	double before = milliseconds();

	cr_assert_leq(symbol_name_format(raw, name, sizeof(name)), sizeof(name) - 1);
	cr_assert_lt(milliseconds() - before, 1000, "%s", raw);
}

/* The name of a type of 32 nested pairs, in which the second of each pair refers back to the first:
 * printed in full it has 2^32 parts. */
static void check_doubling(const char *begin, const char *end)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char raw[1024];
	size_t length = (size_t)snprintf(raw, sizeof(raw), "%s1pI", begin);

	for (int i = 1; i < 32; i++)
		length += (size_t)snprintf(raw + length, sizeof(raw) - length, "S0_I");
	length += (size_t)snprintf(raw + length, sizeof(raw) - length, "Pi");
	for (int i = 0; i < 32; i++)
		length +=
		    (size_t)snprintf(raw + length, sizeof(raw) - length, "S%c_E", digits[i + 1]);
	snprintf(raw + length, sizeof(raw) - length, "%s", end);
	check_duration(raw);
}

Test(symbol_name, exponential_cplusplus_names_take_less_than_a_second)
{
	check_doubling("_Z1fI", "Evv");
	/* Here libiberty prints nothing while it searches the whole tree for a parameter pack. */
	check_doubling("_Z1fIDp", "Evv");
}

Test(symbol_name, huge_rust_binders_take_less_than_a_second)
{
	check_duration("_RNvXC1aFGzzzzzzzzz_EuE1b");
	check_duration("_RNvMIC1aFGzzzzzzzzz_EuEu3foo");
	check_duration("_RNvXIC1aFGzzzzzzzz_EuEuC1b1c");
	check_duration("_RNvMNtIC1aDGzzzzzzzz_C1bEL_E1cu3foo");
	check_duration("_RINvC1a1bTTTTTTTTTTTTTuuEB8_EB7_EB6_EB5_EE");
}

Test(symbol_name, deep_recursion_takes_less_than_a_second)
{
	char raw[1024];
	static const char *const starts[] = {"_Z1fI", "_ZN", "_R", "_RINvC1a1b", "_Z", "_ZZ"};
	static const char *const repeats[] = {"P", "I", "S", "R",   "T",      "N", "Z",
					      "X", "M", "D", "F",   "Nv",     "L", "K",
					      "Y", "A", "O", "1aI", "XadL_Z", "DT"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		for (size_t j = 0; j < sizeof(repeats) / sizeof(repeats[0]); j++) {
			size_t length = (size_t)snprintf(raw, sizeof(raw), "%s", starts[i]);

			while (length < sizeof(raw) - 10)
				length += (size_t)snprintf(raw + length, sizeof(raw) - length, "%s",
							   repeats[j]);
			check_duration(raw);
		}
	}
}

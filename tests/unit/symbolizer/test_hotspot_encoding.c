/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the decoders of HotSpot's formats, and the walker's decoder of prologues and epilogues of
 * compiled methods (bpf/runtime/hotspot_frame.h). */
#include "symbolizer/runtime/hotspot_encoding.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/hotspot_frame.h"

#include "hotspot_write.h"

Test(hotspot_encoding, numbers_are_decoded_and_cut_ones_fail)
{
	static const uint32_t values[] = {
	    0, 1, 63, 64, 190, 191, 192, 12479, 12480, 0xffffff, 1 << 30, 0x7fffffff, 0xffffffff};
	uint8_t bytes[8];

	for (int excluded = 0; excluded < 2; excluded++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			struct hotspot_stream s = {.bytes = bytes, .zero_excluded = excluded};

			s.length = write_unsigned5(bytes, values[i], excluded);
			cr_expect_eq(hotspot_unsigned5(&s), values[i], "%u", values[i]);
			cr_expect(!s.failed && s.at == s.length);
			s.at = 0;
			s.length--;
			cr_expect_eq(hotspot_unsigned5(&s), 0);
			cr_expect(s.failed);
		}
	}
}

Test(hotspot_encoding, line_is_that_of_the_greatest_index_up_to_it)
{
	/* Entries (0, 10), (5, 12), (2, 1000) and (40, 11): the second one in the short form. */
	for (int excluded = 0; excluded < 2; excluded++) {
		uint8_t bytes[64];
		size_t n = 0;

		bytes[n++] = 0xff;
		n += write_unsigned5(bytes + n, 0, excluded);
		n += write_unsigned5(bytes + n, 10 << 1, excluded);
		bytes[n++] = 5 << 3 | 2;
		bytes[n++] = 0xff;
		n += write_unsigned5(bytes + n, 2 * 3 - 1, excluded); /* -3 */
		n += write_unsigned5(bytes + n, 988 << 1, excluded);
		bytes[n++] = 0xff;
		n += write_unsigned5(bytes + n, 38 << 1, excluded);
		n += write_unsigned5(bytes + n, 2 * 989 - 1, excluded);
		bytes[n++] = 0;
		struct hotspot_stream s = {.bytes = bytes, .length = n, .zero_excluded = excluded};
		struct hotspot_line lines[8] = {{0}}, entry = {0};
		size_t count = 0;

		while (count < 8 && hotspot_next_line(&s, &entry))
			lines[count++] = entry;
		cr_assert_eq(count, 4);
		cr_expect_eq(hotspot_line_of(lines, count, 0), 10);
		cr_expect_eq(hotspot_line_of(lines, count, 2), 1000);
		cr_expect_eq(hotspot_line_of(lines, count, 4), 1000);
		cr_expect_eq(hotspot_line_of(lines, count, 5), 12);
		cr_expect_eq(hotspot_line_of(lines, count, 39), 12);
		cr_expect_eq(hotspot_line_of(lines, count, 65535), 11);
		cr_expect_eq(hotspot_line_of(lines, 0, 5), 0);
	}
}

Test(hotspot_encoding, code_belongs_to_the_next_pc_desc)
{
	static const struct hotspot_pc_desc descs[] = {
	    {-1, 0}, {0x20, 7}, {0x31, 9}, {0x50, 11}, {0x7fffffff, 0}};

	cr_expect_eq(hotspot_find_pc_desc(descs, 5, 0x31)->scope, 9, "a return address");
	cr_expect_eq(hotspot_find_pc_desc(descs, 5, 0x32)->scope, 11, "the next one");
	cr_expect_eq(hotspot_find_pc_desc(descs, 5, 0)->scope, 7);
	cr_expect_eq(hotspot_find_pc_desc(descs, 5, 0x51)->scope, 11, "the last one");
	cr_expect_null(hotspot_find_pc_desc(descs, 1, 5));
	cr_expect_null(hotspot_find_pc_desc(descs, 0, 5));
	cr_expect_null(hotspot_find_pc_desc(NULL, 0, 5));
}

Test(hotspot_encoding, scopes_are_followed_to_the_outermost)
{
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	uint8_t bytes[4096] = {0};

	for (int excluded = 0; excluded < 2; excluded++) {
		size_t n = 1;
		const size_t outer = n;

		n += write_scope(bytes + n, 0, 1, 300, excluded);
		const size_t middle = n;
		n += write_scope(bytes + n, (uint32_t)outer, 2, -1, excluded);
		const size_t inner = n;
		n += write_scope(bytes + n, (uint32_t)middle, 3, 0, excluded);
		cr_assert_eq(hotspot_decode_scopes(bytes, n, excluded, (uint32_t)inner, scopes), 3);
		cr_expect(scopes[0].method == 3 && scopes[0].bci == 0);
		cr_expect(scopes[1].method == 2 && scopes[1].bci == HOTSPOT_NO_BYTECODE);
		cr_expect(scopes[2].method == 1 && scopes[2].bci == 300);
		cr_expect_eq(hotspot_decode_scopes(bytes, n, excluded, 0, scopes), 0);
		cr_expect_eq(hotspot_decode_scopes(bytes, n - 1, excluded, (uint32_t)inner, scopes),
			     -EBADMSG);
		cr_expect_eq(hotspot_decode_scopes(bytes, n, excluded, 5000, scopes), -EBADMSG);
		/* A caller at the same or a later offset is forged. */
		write_scope(bytes + outer, (uint32_t)outer, 1, 3, excluded);
		cr_expect_eq(hotspot_decode_scopes(bytes, n, excluded, (uint32_t)outer, scopes),
			     -EBADMSG);
		write_scope(bytes + outer, (uint32_t)inner, 1, 3, excluded);
		cr_expect_eq(hotspot_decode_scopes(bytes, n, excluded, (uint32_t)inner, scopes),
			     -EBADMSG);
	}
}

Test(hotspot_encoding, the_outermost_of_too_many_scopes_are_left_out)
{
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	uint8_t bytes[4096] = {0};
	size_t n = 1, last = 0;

	for (uint32_t i = 0; i < 100; i++) {
		const size_t at = n;

		n += write_scope(bytes + n, (uint32_t)last, i + 1, 0, true);
		last = at;
	}
	cr_expect_eq(hotspot_decode_scopes(bytes, n, true, (uint32_t)last, scopes),
		     HOTSPOT_SCOPES_MAX);
	cr_expect_eq(scopes[0].method, 100);
}

static void expect_parameters(const char *signature, const char *expected)
{
	char text[128] = "";

	cr_expect_eq(hotspot_parameters(signature, strlen(signature), text, sizeof(text)),
		     strlen(expected), "%s", text);
	if (*expected)
		cr_expect_str_eq(text, expected);
}

static void expect_class(const char *name, const char *expected)
{
	char text[128] = "";

	hotspot_class_name(name, strlen(name), text, sizeof(text));
	cr_expect_str_eq(text, expected);
}

Test(hotspot_encoding, names_are_written_as_in_java_source)
{
	char text[8];

	expect_parameters("()V", "()");
	expect_parameters("(ILjava/lang/String;[J[[Ljava/util/Map$Entry;Z)V",
			  "(int, String, long[], Map$Entry[][], boolean)");
	expect_parameters("(BCDFS)[I", "(byte, char, double, float, short)");
	expect_parameters("(LU$$Lambda+0x00007ff1c00018d8;)V", "(U$$Lambda)");
	expect_parameters("(I", "");
	expect_parameters("(Ljava/lang/String)V", "");
	expect_parameters("([)V", "");
	expect_parameters("(L;)V", "");
	expect_parameters("(V)V", "");
	expect_parameters("", "");
	expect_parameters("V", "");
	hotspot_parameters("(IIII)V", 7, text, sizeof(text));
	cr_expect_str_eq(text, "(int, i");
	expect_class("java/util/HashMap$Node", "java.util.HashMap$Node");
	expect_class("a/U$$Lambda$10+0x00007fad190018d8", "a.U$$Lambda$10");
	expect_class("a/T$$Lambda$2/0x0000000800c03000", "a.T$$Lambda$2");
	expect_class("T$$Lambda$1/1234567", "T$$Lambda$1");
	expect_class("A+B", "A+B");
	expect_class("", "");
	cr_expect(hotspot_is_name("<init>", 6) && hotspot_is_name("gr\xc3\xb6\xc3\x9f"
								  "e",
								  7));
	cr_expect(hotspot_is_name("a\xc0\x80", 3), "U+0000 in modified UTF-8");
	cr_expect(!hotspot_is_name("", 0) && !hotspot_is_name("a\0b", 3));
	cr_expect(!hotspot_is_name("\x80"
				   "a",
				   2) &&
		  !hotspot_is_name("\xc3(", 2));
}

static int state_at(const char *bytes, size_t length, uint64_t offset)
{
	uint64_t code[4] = {0};

	memcpy(code, bytes, length);
	return hotspot_prologue(code, offset);
}

#define PROLOGUE(bytes, offset) state_at(bytes, sizeof(bytes) - 1, offset)

Test(hotspot_encoding, prologues_of_all_forms_are_recognised)
{
	static const char
	    usual[] = "\x89\x84\x24\x00\xc0\xfe\xff\x55\x48\x83\xec\x20\x90",
	    wrapper[] = "\x89\x84\x24\x00\xc0\xfe\xff\x55\x48\x8b\xec\x48\x81\xec\x00\x01\x00\x00",
	    leaf[] = "\x48\x83\xec\x18\x48\x89\x6c\x24\x10\x90",
	    large[] = "\x48\x81\xec\x18\x01\x00\x00\x48\x89\xac\x24\x10\x01\x00\x00\x90",
	    not_entrant[] = "\xe9\x00\x00\x00\x00\xfe\xff\x55\x48\x83\xec\x20\x90";

	cr_expect_eq(PROLOGUE(usual, 7), HOTSPOT_NOT_BEGUN);
	cr_expect_eq(PROLOGUE(usual, 8), HOTSPOT_PUSHED);
	cr_expect_eq(PROLOGUE(usual, 12), HOTSPOT_COMPLETE);
	cr_expect_eq(PROLOGUE(wrapper, 8), HOTSPOT_PUSHED);
	cr_expect_eq(PROLOGUE(wrapper, 11), HOTSPOT_PUSHED);
	cr_expect_eq(PROLOGUE(wrapper, 18), HOTSPOT_COMPLETE);
	cr_expect_eq(PROLOGUE(leaf, 4), HOTSPOT_SIZED);
	cr_expect_eq(PROLOGUE(leaf, 9), HOTSPOT_COMPLETE);
	cr_expect_eq(PROLOGUE(large, 7), HOTSPOT_SIZED);
	cr_expect_eq(PROLOGUE(large, 15), HOTSPOT_COMPLETE);
	cr_expect_eq(PROLOGUE(not_entrant, 7), HOTSPOT_NOT_BEGUN);
	cr_expect_eq(PROLOGUE(not_entrant, 8), HOTSPOT_PUSHED);
	cr_expect_eq(PROLOGUE("\xe8\x00\x00\x00\x00", 5), HOTSPOT_UNKNOWN);
}

static int end_at(const char *bytes, size_t length)
{
	uint64_t code[2] = {0};

	memcpy(code, bytes, length);
	return hotspot_epilogue(code);
}

#define EPILOGUE(bytes) end_at(bytes, sizeof(bytes) - 1)

Test(hotspot_encoding, epilogues_of_all_versions_are_recognised)
{
	cr_expect_eq(EPILOGUE("\x48\x83\xc4\x20\x5d\xc3"), HOTSPOT_COMPLETE);
	cr_expect_eq(EPILOGUE("\x5d\xc3"), HOTSPOT_PUSHED);
	cr_expect_eq(EPILOGUE("\xc3"), HOTSPOT_NOT_BEGUN);
	cr_expect_eq(EPILOGUE("\x85\x05\x00\x00\x00\x00\xc3"), HOTSPOT_NOT_BEGUN, "8");
	cr_expect_eq(EPILOGUE("\x4d\x8b\x97\x08\x01\x00\x00\x41\x85\x02\xc3"), HOTSPOT_NOT_BEGUN,
		     "11");
	cr_expect_eq(EPILOGUE("\x4d\x8b\x97\x08\x01\x00\x00\x41\x85\x02\x90"), HOTSPOT_COMPLETE,
		     "a safepoint poll in a loop");
	cr_expect_eq(EPILOGUE("\x41\x85\x02\xc3"), HOTSPOT_NOT_BEGUN);
	cr_expect_eq(EPILOGUE("\x49\x3b\xa7\x48\x03\x00\x00\x0f\x87\x00\x00\x00\x00\xc3"),
		     HOTSPOT_NOT_BEGUN, "17");
	cr_expect_eq(EPILOGUE("\x0f\x87\x00\x00\x00\x00\xc3"), HOTSPOT_NOT_BEGUN);
	cr_expect_eq(EPILOGUE("\x49\x83\x7f\x08\x00\x0f\x85\x00\x00\x00\x00\xc3"),
		     HOTSPOT_NOT_BEGUN);
}

Test(hotspot_encoding, random_bytes_are_survived)
{
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	uint8_t bytes[256];
	char text[64];

	srand(2);
	for (int i = 0; i < 200000; i++) {
		const size_t length = (size_t)rand() % sizeof(bytes);
		struct hotspot_stream s = {.bytes = bytes, .length = length, .zero_excluded = i & 1};
		struct hotspot_line entry = {0};

		for (size_t j = 0; j < 16; j++)
			bytes[(size_t)rand() % sizeof(bytes)] = (uint8_t)rand();
		while (hotspot_next_line(&s, &entry))
			;
		hotspot_decode_scopes(bytes, length, i & 1, (uint32_t)rand() % 300, scopes);
		bytes[0] = '(';
		hotspot_parameters((const char *)bytes, length, text, sizeof(text));
		hotspot_class_name((const char *)bytes, length, text, sizeof(text));
		hotspot_is_name((const char *)bytes, length);
	}
}

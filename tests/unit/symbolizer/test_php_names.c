/* SPDX-License-Identifier: Apache-2.0 */
/* Names of PHP frames, from structures in this process that are laid out as those of PHP 8.2. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/php_names.h"

enum {
	READS = 1000,
	BYTES = 1 << 20,
	FILE_OFFSET = 152
};

struct string {
	uint64_t references, hash, length;
	char text[2048];
};

static struct {
	uint64_t function[32];
	uint64_t class[2];
	struct string name, class_name, file;
} php;

static const struct php_offsets offsets = {.version = 802, .file = FILE_OFFSET};
static struct memory memory;
static struct name_cache *names;
static struct named_frames frames;
static uint8_t copy[4096];

static uint64_t at(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

/* PHP's hash, as zend_hash_func("x", 1) and others have it. */
static void set_string(struct string *string, const char *text)
{
	string->length = strlen(text);
	snprintf(string->text, sizeof(string->text), "%s", text);
	string->hash = 5381;
	for (const char *c = text; *c; c++)
		string->hash = string->hash * 33 + (uint8_t)*c;
	string->hash |= 1ull << 63;
}

/* Cart::total, defined at line 10. */
static void setup(void)
{
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(memory.fd, 0);
	memory_allow(&memory, READS, BYTES);
	names = name_cache_new();
	cr_assert_not_null(names);
	set_string(&php.name, "total");
	set_string(&php.class_name, "Cart");
	set_string(&php.file, "/srv/Cart.php");
	php.function[0] = PHP_TYPE_USER;
	php.function[PHP_FUNCTION_NAME / 8] = at(&php.name);
	php.function[PHP_FUNCTION_CLASS / 8] = at(php.class);
	php.class[PHP_CLASS_NAME / 8] = at(&php.class_name);
	php.function[FILE_OFFSET / 8] = at(&php.file);
	php.function[(FILE_OFFSET + PHP_FILE_LINE) / 8] = 10 | 20ull << 32;
}

static void teardown(void)
{
	name_cache_free(names);
}

TestSuite(php_names, .init = setup, .fini = teardown);

static uint32_t identity(void)
{
	return php_identity(php.name.hash, php.class_name.hash, php.file.hash, 10);
}

static int find(uint32_t of, uint32_t kind)
{
	const uint64_t words[] = {bh_frame_managed(BH_RUNTIME_PHP, at(php.function), 1),
				  frame_word(of, kind, 12)};

	frames.used = frames.count = 0;
	return php_names_find(names, &offsets, &memory, words, &frames);
}

Test(php_names, a_method_has_its_class_and_its_lines)
{
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_assert_eq(frames.count, 1);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
	cr_expect_str_eq(frames.frames[0].file, "/srv/Cart.php");
	cr_expect_eq(frames.frames[0].line, 12);
	cr_expect_eq(frames.frames[0].start_line, 10);
	cr_expect_gt(name_cache_bytes(names), 0);
	name_cache_drop(names);
	cr_expect_eq(name_cache_bytes(names), 0);
}

Test(php_names, a_function_has_no_class)
{
	php.function[PHP_FUNCTION_CLASS / 8] = 0;
	cr_assert_eq(find(php_identity(php.name.hash, 0, php.file.hash, 10), PHP_FRAME_FUNCTION),
		     0);
	cr_expect_str_eq(frames.frames[0].function, "total");
}

Test(php_names, an_internal_function_has_no_file)
{
	php.function[0] = PHP_TYPE_INTERNAL;
	cr_assert_eq(
	    find(php_identity(php.name.hash, php.class_name.hash, 0, 0), PHP_FRAME_INTERNAL), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
	cr_expect_str_eq(frames.frames[0].file, "");
}

/* Up to 8.3 all closures have the same name; from 8.4 on it has their place. */
Test(php_names, a_closure_has_its_place)
{
	set_string(&php.name, "Shop\\{closure}");
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::Shop\\{closure:/srv/Cart.php:10}");
	set_string(&php.name, "{closure:Cart::run():10}");
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::{closure:Cart::run():10}");
}

Test(php_names, code_of_a_file_has_no_name)
{
	php.function[PHP_FUNCTION_NAME / 8] = php.function[PHP_FUNCTION_CLASS / 8] = 0;
	const uint32_t of_file = php_identity(0, 0, php.file.hash, 10);

	cr_assert_eq(find(of_file, PHP_FRAME_MAIN), 0);
	cr_expect_str_eq(frames.frames[0].function, "{main}");
	cr_assert_eq(find(of_file, PHP_FRAME_INCLUDE), 0);
	cr_expect_str_eq(frames.frames[0].function, "include /srv/Cart.php");
	cr_expect_eq(find(of_file, PHP_FRAME_EVAL), -ESTALE, "the code of a file is no eval");
	php.function[0] = PHP_TYPE_EVAL;
	cr_assert_eq(find(of_file, PHP_FRAME_EVAL), 0);
	cr_expect_str_eq(frames.frames[0].function, "eval");
}

/* The memory of a function that was freed may have another one. */
Test(php_names, what_is_another_function_now_is_stale)
{
	const uint32_t before = identity();

	set_string(&php.class_name, "Shop");
	cr_expect_eq(find(before, PHP_FRAME_FUNCTION), -ESTALE);
	set_string(&php.class_name, "Cart");
	set_string(&php.name, "count");
	cr_expect_eq(find(before, PHP_FRAME_FUNCTION), -ESTALE);
	set_string(&php.name, "total");
	set_string(&php.file, "/srv/Shop.php");
	cr_expect_eq(find(before, PHP_FRAME_FUNCTION), -ESTALE);
	set_string(&php.file, "/srv/Cart.php");
	php.function[(FILE_OFFSET + PHP_FILE_LINE) / 8] = 11;
	cr_expect_eq(find(before, PHP_FRAME_FUNCTION), -ESTALE);
	php.function[(FILE_OFFSET + PHP_FILE_LINE) / 8] = 10;
	cr_expect_eq(find(before, PHP_FRAME_FUNCTION), 0);
}

/* A string may be overwritten while its hash is still there. */
Test(php_names, a_text_that_is_not_that_of_its_hash_is_stale)
{
	php.name.text[0] = 'T';
	cr_expect_eq(find(identity(), PHP_FRAME_FUNCTION), -ESTALE);
}

/* A string gets its hash when that is first needed. Until then its end distinguishes it. */
Test(php_names, a_string_may_have_no_hash)
{
	const char *const texts[] = {"a",
				     "run",
				     "eight_by",
				     "fifteen_letters",
				     "sixteen_letters_",
				     "{closure:/srv/Cart.php:12}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint64_t start = 0, end[TEXT_END_BYTES / 8] = {~0ull, ~0ull};
		char shown[64];

		set_string(&php.name, texts[i]);
		php.name.hash = 0;
		memcpy(end, texts[i] + text_end_of(php.name.length),
		       php.name.length < sizeof(end) ? php.name.length : sizeof(end));
		memcpy(&start, texts[i], strlen(texts[i]) < 8 ? strlen(texts[i]) : 8);
		const uint32_t of = php_identity(text_hash(php.name.length, start, end),
						 php.class_name.hash, php.file.hash, 10);
		cr_assert_eq(find(of, PHP_FRAME_FUNCTION), 0, "%s", texts[i]);
		snprintf(shown, sizeof(shown), "Cart::%s", texts[i]);
		cr_expect_str_eq(frames.frames[0].function, shown);
		name_cache_drop(names);
		php.name.text[php.name.length - 1] ^= 1;
		cr_expect_eq(find(of, PHP_FRAME_FUNCTION), -ESTALE, "%s", texts[i]);
		php.name.text[php.name.length - 1] ^= 1;
		php.name.text[0] ^= 1;
		cr_expect_eq(find(of, PHP_FRAME_FUNCTION), -ESTALE, "%s", texts[i]);
	}
}

Test(php_names, a_long_name_is_cut)
{
	char text[PHP_NAME_BYTES_MAX + 100];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	set_string(&php.name, text);
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_expect_eq(strlen(frames.frames[0].function), PHP_NAME_BYTES_MAX + strlen("Cart::"));
	name_cache_drop(names);
	php.name.text[PHP_NAME_BYTES_MAX + 10] ^= 1;
	cr_expect_eq(find(identity(), PHP_FRAME_FUNCTION), -ESTALE, "all of it is checked");
}

/* Adds a part of memory to a copy, with room for `room` bytes. */
static void add_part(const void *from, uint32_t room)
{
	const struct bh_memory_part part = {.address = at(from), .bytes = room, .room = room};

	cr_assert_leq(memory.copy_bytes + sizeof(part) + room, sizeof(copy));
	memcpy(copy + memory.copy_bytes, &part, sizeof(part));
	memcpy(copy + memory.copy_bytes + sizeof(part), from, room);
	memory.copy_bytes += sizeof(part) + room;
	memory.copy = copy;
}

/* Starts a copy of the function, without its name, which gets `length` bytes. */
static void start_copy(size_t length)
{
	char text[sizeof(php.name.text)] = {0};

	cr_assert_lt(length, sizeof(text));
	memset(text, 'x', length);
	set_string(&php.name, text);
	memory.copy_bytes = 0;
	add_part(php.function, sizeof(php.function));
	add_part(php.class, sizeof(php.class));
	add_part(&php.class_name, 64);
	add_part(&php.file, 64);
	name_cache_drop(names);
}

/* A closure in a closure has a name that contains that of the outer one, from PHP 8.4 on. */
Test(php_names, of_a_copy_are_as_long_as_that)
{
	start_copy(500);
	cr_expect_eq(find(identity(), PHP_FRAME_FUNCTION), -ESTALE, "the name is not in the copy");
	add_part(&php.name, offsetof(struct string, text));
	cr_expect_eq(find(identity(), PHP_FRAME_FUNCTION), -ESTALE, "nothing of its text is");
	add_part(&php.name, offsetof(struct string, text) + 100);
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_expect_eq(strlen(frames.frames[0].function), 100 + strlen("Cart::"));
	cr_expect_str_eq(frames.frames[0].file, "/srv/Cart.php");
	name_cache_drop(names);
	add_part(&php.name, offsetof(struct string, text) + 500);
	cr_assert_eq(find(identity(), PHP_FRAME_FUNCTION), 0);
	cr_expect_eq(strlen(frames.frames[0].function), 500 + strlen("Cart::"), "all of it");
}

Test(php_names, of_a_copy_have_an_end_instead_of_a_hash)
{
	static const uint64_t end[] = {0x7878787878787878, 0x7978787878787878};

	start_copy(500);
	php.name.hash = 0;
	php.name.text[499] = 'y';
	add_part(&php.name, offsetof(struct string, text) + 100);
	const uint32_t of =
	    php_identity(text_hash(500, end[0], end), php.class_name.hash, php.file.hash, 10);
	cr_expect_eq(find(of, PHP_FRAME_FUNCTION), -ESTALE, "the end is not in the copy");
	add_part(&php.name.text[500 - TEXT_END_BYTES], TEXT_END_BYTES);
	cr_expect_eq(find(of ^ 1, PHP_FRAME_FUNCTION), -ESTALE, "it is another one");
	cr_assert_eq(find(of, PHP_FRAME_FUNCTION), 0);
	cr_expect_eq(strlen(frames.frames[0].function), 100 + strlen("Cart::"));
}

/* Where memory is used again, the length may be overwritten while the hash is still there. */
Test(php_names, a_length_that_is_not_that_of_the_text_is_stale)
{
	static const uint64_t lengths[] = {0,	    4,		6,    PHP_NAME_BYTES_MAX + 1,
					   1 << 17, 1ull << 47, ~0ull};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		php.name.length = lengths[i];
		cr_expect_neq(find(identity(), PHP_FRAME_FUNCTION), 0, "%zu", i);
	}
}

Test(php_names, frames_that_no_walker_pushed_are_stale)
{
	const uint64_t long_frame[] = {bh_frame_managed(BH_RUNTIME_PHP, at(php.function), 2),
				       frame_word(identity(), PHP_FRAME_FUNCTION, 12), 0};

	cr_expect_eq(php_names_find(names, &offsets, &memory, long_frame, &frames), -ESTALE);
	cr_expect_eq(find(identity(), PHP_FRAMES), -ESTALE);
	cr_expect_eq(find(identity(), 15), -ESTALE);
	php.function[0] = 3;
	cr_expect_eq(find(identity(), PHP_FRAME_FUNCTION), -ESTALE);
}

/* What a process says may lead anywhere. */
Test(php_names, addresses_that_lead_nowhere_are_errors)
{
	const uint32_t before = identity();

	php.function[PHP_FUNCTION_NAME / 8] = 8;
	cr_expect_lt(find(before, PHP_FRAME_FUNCTION), 0);
	php.function[PHP_FUNCTION_NAME / 8] = at(&php.name);
	php.class[PHP_CLASS_NAME / 8] = ~0ull;
	cr_expect_lt(find(before, PHP_FRAME_FUNCTION), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Perl frames, from structures in this process that are laid out as those of Perl 5.36. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/perl_names.h"

enum {
	READS = 1000,
	BYTES = 1 << 20,
	NEXTSTATE = 195
};

struct hek {
	uint32_t hash, length;
	char text[2048];
};

static struct {
	uint64_t cop[8];
	uint64_t glob[3], glob_body[6];
	uint64_t stash[3], stash_body[4], aux[4];
	struct hek name, package;
	char file[2048];
} perl;

static const struct perl_offsets offsets = {
    .version = 36, .op_nextstate = NEXTSTATE, .op_dbstate = NEXTSTATE + 1};
static const struct perl_image image = {.offsets = &offsets, .key = {.vaddr = 1}};
static struct memory memory;
static struct name_cache *names;
static struct named_frames frames;

static uint64_t at(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

static void set_hek(struct hek *hek, uint32_t hash, const char *text)
{
	hek->hash = hash;
	hek->length = (uint32_t)strlen(text);
	snprintf(hek->text, sizeof(hek->text), "%s", text);
}

/* Cart::total, defined at line 10. */
static void setup(void)
{
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(memory.fd, 0);
	memory_allow(&memory, READS, BYTES);
	names = name_cache_new();
	cr_assert_not_null(names);
	set_hek(&perl.name, 0x1111, "total");
	set_hek(&perl.package, 0x2222, "Cart");
	snprintf(perl.file, sizeof(perl.file), "/srv/Cart.pm");
	perl.cop[PERL_OP_TYPE / 8] = NEXTSTATE | (uint64_t)10 << 32;
	perl.cop[PERL_COP_FILE / 8] = at(perl.file);
	perl.glob[0] = at(perl.glob_body);
	perl.glob_body[PERL_GLOB_NAME / 8] = at(&perl.name);
	perl.glob_body[PERL_GLOB_STASH / 8] = at(perl.stash);
	perl.stash[0] = at(perl.stash_body);
	perl.stash[1] = (uint64_t)PERL_TYPE_STASH << 32;
	perl.aux[0] = at(&perl.package);
}

static void teardown(void)
{
	name_cache_free(names);
}

TestSuite(perl_names, .init = setup, .fini = teardown);

static uint32_t identity(void)
{
	return perl_sub_identity(at(perl.glob), perl.name.hash, perl.package.hash,
				 (uint32_t)(perl.cop[PERL_OP_TYPE / 8] >> 32),
				 perl.cop[PERL_COP_FILE / 8]);
}

static int find_sub(uint32_t of)
{
	const uint64_t words[] = {
	    bh_frame_managed(BH_RUNTIME_PERL, at(perl.cop), 3),
	    frame_word(of, PERL_FRAME_SUB, 12),
	    at(perl.glob),
	    0,
	};

	frames.used = frames.count = 0;
	return perl_names_find(names, &image, &memory, words, &frames);
}

Test(perl_names, a_sub_has_its_package_and_its_lines)
{
	cr_assert_eq(find_sub(identity()), 0);
	cr_assert_eq(frames.count, 1);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
	cr_expect_str_eq(frames.frames[0].file, "/srv/Cart.pm");
	cr_expect_eq(frames.frames[0].line, 12);
	cr_expect_eq(frames.frames[0].start_line, 10);
	cr_expect_gt(name_cache_bytes(names), 0);
	name_cache_drop(names);
	cr_expect_eq(name_cache_bytes(names), 0);
}

Test(perl_names, a_sub_without_a_name_has_its_place)
{
	set_hek(&perl.name, 0x3333, "__ANON__");
	cr_assert_eq(find_sub(identity()), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::__ANON__[/srv/Cart.pm:10]");
}

Test(perl_names, a_named_sub_has_no_glob)
{
	const uint64_t words[] = {
	    bh_frame_managed(BH_RUNTIME_PERL, at(perl.cop), 4),
	    frame_word(perl_sub_identity(at(&perl.name), perl.name.hash, perl.package.hash, 10,
					 at(perl.file)),
		       PERL_FRAME_NAMED_SUB, 11),
	    at(&perl.name),
	    at(perl.stash),
	    0,
	};

	cr_assert_eq(perl_names_find(names, &image, &memory, words, &frames), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
}

/* The memory of a sub that was freed may have another one of the same name. */
Test(perl_names, what_is_another_sub_now_is_stale)
{
	const uint32_t before = identity();

	set_hek(&perl.package, 0x4444, "Shop");
	cr_expect_eq(find_sub(before), -ESTALE);
	set_hek(&perl.package, 0x2222, "Cart");
	set_hek(&perl.name, 0x5555, "count");
	cr_expect_eq(find_sub(before), -ESTALE);
	set_hek(&perl.name, 0x1111, "total");
	perl.cop[PERL_OP_TYPE / 8] += (uint64_t)1 << 32;
	cr_expect_eq(find_sub(before), -ESTALE);
	perl.cop[PERL_OP_TYPE / 8] -= (uint64_t)1 << 32;
	cr_expect_eq(find_sub(before), 0);
	/* The name is in the cache now, and so is its identity. */
	set_hek(&perl.name, 0x5555, "count");
	cr_expect_eq(find_sub(before), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
}

Test(perl_names, a_renamed_package_has_a_list_of_names)
{
	const uint64_t list[] = {at(&perl.package)};

	perl.aux[0] = at(list);
	perl.aux[PERL_AUX_NAME_COUNT / 8] |= (uint64_t)1 << 32;
	cr_assert_eq(find_sub(identity()), 0);
	cr_expect_str_eq(frames.frames[0].function, "Cart::total");
}

Test(perl_names, forged_lengths_and_pointers_are_errors)
{
	perl.name.length = UINT32_MAX;
	cr_expect_eq(find_sub(identity()), -ESTALE);
	perl.name.length = 5;
	perl.stash[1] = 0;
	cr_expect_eq(find_sub(identity()), -ESTALE, "it is no stash");
	perl.stash[1] = (uint64_t)PERL_TYPE_STASH << 32;
	perl.aux[0] = 0;
	cr_expect_eq(find_sub(identity()), -ESTALE, "it has no name");
	perl.aux[0] = 8;
	cr_expect_eq(find_sub(identity()), -EFAULT);
}

Test(perl_names, long_names_are_cut)
{
	memset(perl.name.text, 'n', sizeof(perl.name.text));
	perl.name.length = sizeof(perl.name.text);
	memset(perl.file, 'f', sizeof(perl.file) - 1);
	cr_assert_eq(find_sub(identity()), 0);
	cr_expect_eq(strlen(frames.frames[0].function), strlen("Cart::") + PERL_NAME_BYTES_MAX);
	cr_expect_eq(strlen(frames.frames[0].file), PERL_NAME_BYTES_MAX);
}

static int find_text(unsigned int kind, uint32_t of)
{
	const uint64_t words[] = {bh_frame_managed(BH_RUNTIME_PERL, at(perl.file), 2),
				  frame_word(of, kind, 3), 0};

	frames.used = frames.count = 0;
	return perl_names_find(names, &image, &memory, words, &frames);
}

static uint32_t text_identity(void)
{
	uint64_t words[PERL_TEXT_BYTES / 8];

	memcpy(words, perl.file, sizeof(words));
	return perl_text_identity(words);
}

Test(perl_names, frames_without_a_sub_have_the_file)
{
	cr_assert_eq(find_text(PERL_FRAME_MAIN, text_identity()), 0);
	cr_expect_str_eq(frames.frames[0].function, "(main)");
	cr_expect_str_eq(frames.frames[0].file, "/srv/Cart.pm");
	cr_expect_eq(frames.frames[0].line, 3);
	cr_assert_eq(find_text(PERL_FRAME_REQUIRE, text_identity()), 0);
	cr_expect_str_eq(frames.frames[0].function, "require /srv/Cart.pm");
	cr_expect_eq(find_text(PERL_FRAME_MAIN, text_identity() + 1), -ESTALE);
	cr_expect_eq(find_text(PERL_FRAME_MAIN + 1, text_identity()), -ESTALE);
	cr_expect_eq(find_text(PERL_FRAME_SUB, text_identity()), -ESTALE, "too few words");
}

Test(perl_names, evaluated_texts_have_no_numbers)
{
	snprintf(perl.file, sizeof(perl.file), "(eval 1234567)");
	cr_assert_eq(find_text(PERL_FRAME_EVAL, text_identity()), 0);
	cr_expect_str_eq(frames.frames[0].file, "(eval)");
}

Test(perl_names, what_follows_a_text_does_not_count)
{
	const uint32_t before = text_identity();

	memset(perl.file + strlen(perl.file) + 1, 0xff, 64);
	cr_expect_eq(text_identity(), before);
	perl.file[3]++;
	cr_expect_neq(text_identity(), before);
}

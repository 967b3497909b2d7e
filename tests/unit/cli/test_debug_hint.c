/* SPDX-License-Identifier: Apache-2.0 */
/* What the summary says about files that have functions without names. */
#include "cli/debug_hint.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char lists[] = "/tmp/bulkhead-lists-XXXXXX";
static char text[4096];

static void write_list(const char *name, const char *contents)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", lists, name);
	FILE *file = fopen(path, "we");
	cr_assert_not_null(file);
	fputs(contents, file);
	fclose(file);
}

static const char *const names[] = {"cpp-12.list", "libc6:amd64.list", "old.list", "cpp-12.md5sums",
				    "short"};

static void setup(void)
{
	cr_assert_not_null(mkdtemp(lists));
	write_list(names[0], "/.\n/usr\n/usr/lib/gcc/cc1\n/usr/lib/gcc/cc1plus-old\n");
	write_list(names[1], "/usr/lib/x86_64-linux-gnu/libc.so.6\n");
	write_list(names[2], "/lib/libold.so\n/usr/bin/last");
	write_list(names[3], "/usr/bin/other\n");
	write_list(names[4], "/usr/bin/other\n");
}

static void teardown(void)
{
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", lists, names[i]);
		unlink(path);
	}
	rmdir(lists);
}

TestSuite(debug_hint, .init = setup, .fini = teardown);

static struct msg_unnamed_module module(const char *path, const char *build_id, uint64_t samples)
{
	struct msg_unnamed_module made = {.samples = samples};

	snprintf(made.path, sizeof(made.path), "%s", path);
	snprintf(made.build_id, sizeof(made.build_id), "%s", build_id);
	return made;
}

/* Returns what is printed for modules of a recording of 1,000 samples. */
static const char *print(const struct msg_unnamed_module *modules, unsigned int count,
			 const char *directory)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	cr_assert_not_null(out);
	debug_hint_print(modules, count, 1000, directory, out);
	fputc(0, out);
	fclose(out);
	return text;
}

static void expect(const char *path, const char *build_id, const char *wanted)
{
	const struct msg_unnamed_module one = module(path, build_id, 462);

	cr_expect_not_null(strstr(print(&one, 1, lists), wanted), "%s: %s", path, text);
}

Test(debug_hint, names_the_package_of_the_file)
{
	const struct msg_unnamed_module one = module("/usr/lib/gcc/cc1", "12ab", 462);

	cr_expect_str_eq(print(&one, 1, lists),
			 "46.2 % of the samples have functions without names in /usr/lib/gcc/cc1; "
			 "to name them, install cpp-12-dbgsym or cpp-12-dbg (build id 12ab)\n");
	expect("/usr/lib/x86_64-linux-gnu/libc.so.6", "12ab", "libc6-dbgsym or libc6-dbg (");
	expect("/usr/lib/libold.so", "12ab", "install old-dbgsym");
	expect("/usr/bin/last", "12ab", "install old-dbgsym");
}

Test(debug_hint, a_file_of_no_package_has_its_build_id)
{
	expect("/usr/lib/gcc/cc1plus", "12ab", "put the debug file of build id 12ab into");
	expect("/lib/gcc/cc1", "12ab", "build id 12ab");
	expect("/usr/bin/other", "12ab", "build id 12ab");
	expect("/opt/x", "", "in /opt/x, which has no build id or could not be read\n");
}

Test(debug_hint, without_lists_there_is_the_build_id)
{
	const struct msg_unnamed_module one = module("/usr/lib/gcc/cc1", "12ab", 462);

	cr_expect_not_null(strstr(print(&one, 1, "/nonexistent"), "build id 12ab"));
}

Test(debug_hint, less_than_one_percent_is_not_worth_a_line)
{
	const struct msg_unnamed_module modules[] = {
	    module("/usr/lib/gcc/cc1", "12ab", 11), module("/usr/lib/libold.so", "12ab", 10),
	    module("/usr/lib/x86_64-linux-gnu/libc.so.6", "12ab", 9)};

	print(modules, 3, lists);
	cr_expect_not_null(strstr(text, "cpp-12"));
	cr_expect_not_null(strstr(text, "old-dbg"));
	cr_expect_null(strstr(text, "libc6"));
	cr_expect_str_empty(print(modules, 0, lists));
}

/* The exporter may be forged: these texts end at the end of their fields only. */
Test(debug_hint, texts_without_an_end_are_cut)
{
	struct msg_unnamed_module full = {.samples = 462}, kept[DEBUG_HINTS_MAX];
	unsigned int count = 0;

	memset(full.path, '/', sizeof(full.path));
	memset(full.build_id, 'b', sizeof(full.build_id));
	for (unsigned int i = 0; i < DEBUG_HINTS_MAX + 2; i++)
		debug_hint_add(kept, &count, &full);
	cr_assert_eq(count, DEBUG_HINTS_MAX);
	for (unsigned int i = 0; i < count; i++) {
		cr_expect_eq(strlen(kept[i].path), sizeof(full.path) - 1);
		cr_expect_eq(strlen(kept[i].build_id), sizeof(full.build_id) - 1);
	}
	print(kept, 1, lists);
	cr_expect_not_null(strstr(text, "/; to name them, put the debug file of build id bbb"));
}

Test(debug_hint, forged_paths_and_numbers_are_not_shown)
{
	const struct msg_unnamed_module nameless = module("", "12ab", 462);
	const struct msg_unnamed_module relative = module("usr/lib/gcc/cc1", "12ab", 462);
	const struct msg_unnamed_module good = module("/usr/lib/gcc/cc1", "12ab", 462);
	const struct msg_unnamed_module many = module("/usr/lib/gcc/cc1", "12ab", UINT64_MAX);
	FILE *out = fmemopen(text, sizeof(text), "w");

	cr_expect_str_empty(print(&nameless, 1, lists));
	cr_expect_str_empty(print(&relative, 1, lists));
	cr_expect_not_null(strstr(print(&many, 1, lists), "cpp-12-dbg"));
	memset(text, 0, sizeof(text));
	cr_assert_not_null(out);
	debug_hint_print(&good, 1, 0, lists, out);
	fclose(out);
	cr_expect_str_empty(text);
}

Test(debug_hint, names_from_others_are_escaped)
{
	expect("/tmp/\x1b[31mred", "\x1b[2J", "/tmp/\\x1b[31mred");
	cr_expect_null(strchr(text, 0x1b));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "cli/output_format.h"

Test(output_format, the_extension_selects_the_format)
{
	static const struct {
		const char *path, *format;
	} names[] = {
	    {"x.html", "html"},
	    {"x.htm", "html"},
	    {"x.folded", "folded"},
	    {"x.collapsed", "folded"},
	    {"x.txt", "tree"},
	    {"x.pb.gz", "pprof"},
	    {"x.pprof", "pprof"},
	    {"x.speedscope.json", "speedscope"},
	    {"x.speedscope", "speedscope"},
	    {"x.otlp", "otlp"},
	    {"/a.b/c.d.html", "html"},
	    {"-", NULL},
	    {"", NULL},
	    {"x", NULL},
	    {"html", NULL},
	    {".html", NULL},
	    {"x.html.bak", NULL},
	    {"x.json", NULL},
	    {"x.gz", NULL},
	    {"x.HTML", NULL},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *format = output_format_from_path(names[i].path);

		if (names[i].format)
			cr_expect_str_eq(format, names[i].format, "%s", names[i].path);
		else
			cr_expect_null(format, "%s", names[i].path);
		if (format)
			cr_expect(output_format_exists(format), "%s", format);
	}
	cr_assert(output_format_exists("tree"));
	cr_assert_not(output_format_exists(""));
	cr_assert_not(output_format_exists("HTML"));
	cr_assert_not(output_format_exists("htmlx"));
}

Test(output_format, a_format_has_an_extension_that_selects_it)
{
	static const char *const formats[] = {"html",	    "folded", "pprof",
					      "speedscope", "otlp",   "tree"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		char path[64];

		snprintf(path, sizeof(path), "x%s", output_format_extension(formats[i]));
		cr_expect_str_eq(output_format_from_path(path), formats[i]);
	}
	cr_expect_null(output_format_extension("svg"));
}

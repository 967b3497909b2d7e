/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cli/config_fixture.h"
#include "common/runtimes.h"

Test(config_table, types_fit_their_members)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		const size_t size = o->type <= CONFIG_TYPE_SIZE		 ? sizeof(uint64_t)
				    : o->type == CONFIG_TYPE_BOOLEAN	 ? sizeof(bool)
				    : o->type == CONFIG_TYPE_COMPRESSION ? sizeof(bool)
				    : o->type == CONFIG_TYPE_RUNTIMES	 ? sizeof(uint64_t)
									 : o->size;

		cr_expect_eq(o->size, size, "%s", o->flag);
		cr_expect(o->type < CONFIG_TYPE_TEXT || o->size == CONFIG_TEXT_BYTES ||
			      o->size == CONFIG_LIST_BYTES,
			  "%s", o->flag);
		cr_expect(o->type != CONFIG_TYPE_NAMES || o->size <= CONFIG_TEXT_BYTES);
		cr_expect(o->type > CONFIG_TYPE_SIZE || o->min < o->max, "%s", o->flag);
		cr_expect_eq(config_table_find(o->section, o->key), o);
		cr_expect_eq(config_table_find_flag(o->flag, strlen(o->flag)), o);
		/* Options of a section are together, and no member is used twice. */
		for (size_t j = 0; j < i; j++)
			cr_expect_neq(config_options[j].offset, o->offset, "%s", o->flag);
		if (i && strcmp(o->section, config_options[i - 1].section))
			for (size_t j = 0; j < i; j++)
				cr_expect_str_neq(config_options[j].section, o->section);
	}
}

Test(config_table, misspelt_names_find_the_nearest_option)
{
	static const struct {
		const char *section, *key, *flag;
	} meant[] = {
	    {"agent", "freqency", "agent.frequency"},
	    {"agent", "freq", "agent.frequency"},
	    {"agent", "Report-Interval", "agent.report_interval"},
	    {"export", "endpiont", "export.endpoint"},
	    {"export", "max_bytes", "spool.max_bytes"},
	    {"", "frequency", "agent.frequency"},
	    {"exprt", "endpoint", "export.endpoint"},
	    {"spool", "colour", NULL},
	    {"spool", "x", NULL},
	    {"spool", "", NULL},
	};

	for (size_t i = 0; i < COUNT(meant); i++) {
		const struct config_option *o =
		    config_table_nearest(meant[i].section, meant[i].key);

		cr_expect_eq(!o, !meant[i].flag, "%s", meant[i].key);
		if (o && meant[i].flag)
			cr_expect_str_eq(o->flag, meant[i].flag);
	}
	char longest[200];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	cr_expect_null(config_table_nearest(longest, longest));
	cr_expect_null(config_table_nearest_section(longest));
	cr_expect_str_eq(config_table_nearest_section("exports"), "export");
}

static const char *set(const char *flag, const char *text)
{
	static char reason[CONFIG_REASON_BYTES];
	const struct config_option *o = config_table_find_flag(flag, strlen(flag));

	cr_assert_not_null(o, "%s", flag);
	return config_value_set(o, text, &config, reason);
}

Test(config_table, values_at_and_beyond_each_bound)
{
	char text[64];

	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		/* Times are given in milliseconds. */
		const uint64_t step = o->type == CONFIG_TYPE_DURATION ? 1000000 : 1;
		const struct {
			uint64_t value;
			bool good;
		} tries[] = {
		    {o->min, true},
		    {o->max, true},
		    {o->min - step, o->min == step && o->traits & CONFIG_ZERO},
		    {o->max + step, false},
		    {0, o->traits & CONFIG_ZERO},
		    {UINT64_MAX / step * step, false},
		};

		if (o->type > CONFIG_TYPE_SIZE)
			continue;
		for (size_t j = 0; j < COUNT(tries); j++) {
			const char *fault;

			snprintf(text, sizeof(text), "%llu%s",
				 (unsigned long long)(tries[j].value / step),
				 o->type == CONFIG_TYPE_DURATION ? "ms" : "");
			fault = set(o->flag, text);
			cr_expect_eq(!fault, tries[j].good, "%s = %s: %s", o->flag, text,
				     fault ? fault : "accepted");
			if (tries[j].good)
				cr_expect_eq(*config_value_number(o, &config), tries[j].value);
		}
	}
}

static const struct {
	const char *flag, *text;
	uint64_t value;
} right_numbers[] = {
    {"spool.max_age", "60", 60000000000},
    {"spool.max_age", "60s", 60000000000},
    {"spool.max_age", "60000ms", 60000000000},
    {"spool.max_age", "1.5m", 90000000000},
    {"spool.max_age", "2 h", 7200000000000},
    {"spool.max_age", "30d", 2592000000000000},
    {"export.timeout", "0.25", 250000000},
    {"export.timeout", "500ms", 500000000},
    {"spool.max_bytes", "1048576", 1048576},
    {"spool.max_bytes", "1024KiB", 1048576},
    {"spool.max_bytes", "1024K", 1048576},
    {"spool.max_bytes", "1 MiB", 1048576},
    {"spool.max_bytes", "1.5M", 1572864},
    {"spool.max_bytes", "2GiB", 2147483648},
    {"spool.max_bytes", "2G", 2147483648},
    {"spool.max_bytes", "1TiB", 1099511627776},
    {"agent.probability", "25%", 25},
    {"agent.probability", "25", 25},
    {"agent.frequency", "007", 7},
};

static const struct {
	const char *flag, *text;
} wrong_numbers[] = {
    {"agent.frequency", ""},
    {"agent.frequency", "-1"},
    {"agent.frequency", "+5"},
    {"agent.frequency", " 5"},
    {"agent.frequency", "0x10"},
    {"agent.frequency", "20Hz"},
    {"agent.frequency", "20.5"},
    {"agent.frequency", "20.0"},
    {"agent.frequency", "1e2"},
    {"agent.frequency", "18446744073709551636"},
    {"agent.frequency", "20 "},
    {"agent.frequency", "2,0"},
    {"agent.probability", "12.5%"},
    {"agent.probability", "101%"},
    {"agent.probability", "%"},
    {"export.timeout", "s"},
    {"export.timeout", "1sec"},
    {"export.timeout", "1h30m"},
    {"export.timeout", "-1s"},
    {"export.timeout", "1.s"},
    {"export.timeout", ".5s"},
    {"export.timeout", "1.0000001s"},
    {"export.timeout", "1.0000000001"},
    {"export.timeout", "1  s"},
    {"export.timeout", "1S"},
    {"export.timeout", "nan"},
    {"export.timeout", "999999999999999999d"},
    {"spool.max_bytes", "2MB"},
    {"spool.max_bytes", "2mib"},
    {"spool.max_bytes", "2000000.5"},
    {"spool.max_bytes", "999999999999999999TiB"},
    {"spool.max_bytes", "16777216TiB"},
};

Test(config_table, numbers_need_a_unit_of_their_type)
{

	for (size_t i = 0; i < COUNT(right_numbers); i++) {
		const struct config_option *o =
		    config_table_find_flag(right_numbers[i].flag, strlen(right_numbers[i].flag));

		cr_assert_null(set(right_numbers[i].flag, right_numbers[i].text), "%s",
			       right_numbers[i].text);
		cr_expect_eq(*config_value_number(o, &config), right_numbers[i].value, "%s",
			     right_numbers[i].text);
	}
	for (size_t i = 0; i < COUNT(wrong_numbers); i++)
		cr_expect_not_null(set(wrong_numbers[i].flag, wrong_numbers[i].text), "%s '%s'",
				   wrong_numbers[i].flag, wrong_numbers[i].text);
	cr_assert_str_eq(set("agent.watchdog", "1ms"),
			 "must be a time with ms, s, m, h or d: 1s ... 5m, or 0");
	cr_assert_str_eq(set("export.max_request_bytes", "x"),
			 "must be a number of bytes, KiB, MiB or GiB: 64KiB ... 64MiB");
}

Test(config_table, booleans_and_compression_accept_these_words)
{
	static const char *const yes[] = {"true", "yes", "on", "1", "True", "ON"};
	static const char *const no[] = {"false", "no", "off", "0", "FALSE"};
	static const char *const neither[] = {"", "2", "y", "truee", "enabled", " true"};

	for (size_t i = 0; i < COUNT(yes); i++) {
		config.insecure = false;
		cr_expect_null(set("export.insecure", yes[i]));
		cr_expect(config.insecure, "%s", yes[i]);
	}
	for (size_t i = 0; i < COUNT(no); i++) {
		config.insecure = true;
		cr_expect_null(set("export.insecure", no[i]));
		cr_expect_not(config.insecure, "%s", no[i]);
	}
	for (size_t i = 0; i < COUNT(neither); i++)
		cr_expect_not_null(set("export.insecure", neither[i]), "%s", neither[i]);
	cr_expect_null(set("export.compression", "gzip"));
	cr_expect(config.gzip);
	cr_expect_null(set("export.compression", "none"));
	cr_expect_not(config.gzip);
	cr_expect_not_null(set("export.compression", "zstd"));
	cr_expect_not_null(set("export.compression", "true"));
}

Test(config_table, runtimes_are_a_set_of_names)
{
	const uint32_t python = 1u << RUNTIME_ID_CPYTHON, java = 1u << RUNTIME_ID_HOTSPOT;
	static const char *const bad[] = {
	    "",		" ",	 ",", "python", "all,python", "cpython,none", "cpython;hotspot",
	    "cpythonx", "cpytho"};
	const char *reason;

	cr_expect_null(set("runtimes.enabled", "cpython"));
	cr_expect_eq(config.runtimes, python);
	cr_expect_null(set("runtimes.enabled", "HotSpot, cpython"));
	cr_expect_eq(config.runtimes, python | java);
	cr_expect_null(set("runtimes.enabled", "None"));
	cr_expect_eq(config.runtimes, 0);
	cr_expect_null(set("runtimes.enabled", "ALL"));
	cr_expect_eq(config.runtimes, RUNTIME_SET_ALL);
	for (size_t i = 0; i < COUNT(bad); i++) {
		reason = set("runtimes.enabled", bad[i]);
		cr_expect_not_null(reason, "'%s'", bad[i]);
		/* The message lists the names that exist, and does not repeat the wrong one. */
		cr_expect(!reason ||
			  (strstr(reason, "cpython, hotspot") && !strstr(reason, "cpythonx")));
	}
	cr_expect_eq(config.runtimes, RUNTIME_SET_ALL);
}

Test(config_table, texts_are_checked_and_limited_in_length)
{
	static const struct {
		const char *flag, *text;
	} bad[] = {
	    {"agent.run_directory", ""},
	    {"agent.run_directory", "relative"},
	    {"agent.run_directory", "/a\nb"},
	    {"spool.directory", "relative"},
	    {"spool.directory", "/a\x7f"},
	    {"spool.directory", "/\xff"},
	    {"export.endpoint", ""},
	    {"export.endpoint", "unix:x"},
	    {"export.headers", "a"},
	    {"export.headers", "a-bin=b"},
	    {"identity.resource_attributes", "a=%"},
	    {"identity.service_name", "a\tb"},
	    {"identity.service_name", "\xc3"},
	    {"identity.environment_variables", "a b-c"},
	    {"identity.environment_variables", "1A"},
	    {"identity.environment_variables", "A=B"},
	    {"identity.environment_variables", "A,B,C,D,E,F,G,H,I"},
	    {"status.group", "a b"},
	    {"status.group", "-x"},
	    {"status.group", "a,b"},
	    {"status.group", "abcdefghijklmnopqrstuvwxyz0123456"},
	};
	char text[CONFIG_LIST_BYTES + 1];

	for (size_t i = 0; i < COUNT(bad); i++)
		cr_expect_not_null(set(bad[i].flag, bad[i].text), "%s '%s'", bad[i].flag,
				   bad[i].text);
	cr_expect_null(set("spool.directory", ""));
	cr_expect_null(set("status.group", "adm"));
	cr_expect_null(set("status.group", "1000"));
	cr_expect_null(set("identity.environment_variables", " A_1 ,_b,, C"));
	cr_expect_str_eq(config.environment_variables, "A_1,_b,C");
	cr_expect_null(set("identity.environment_variables", "A,B,C,D,E,F,G,H"));
	cr_expect_null(set("identity.environment_variables", ""));
	cr_expect_str_empty(config.environment_variables);
	/* Texts of the maximum length, and one byte longer. */
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		const size_t max = o->max ? o->max : o->size - 1;

		if (o->type < CONFIG_TYPE_TEXT || o->type == CONFIG_TYPE_ENDPOINT ||
		    o->type >= CONFIG_TYPE_NAMES)
			continue;
		memset(text, 'x', sizeof(text));
		memcpy(text, o->type >= CONFIG_TYPE_HEADERS ? "k=" : "/x", 2);
		text[max] = 0;
		cr_expect_null(set(o->flag, text), "%s", o->flag);
		cr_expect_str_eq(config_value_text(o, &config), text);
		text[max] = 'x';
		text[max + 1] = 0;
		cr_expect_not_null(set(o->flag, text), "%s", o->flag);
	}
}

Test(config_table, directories_are_absolute_paths)
{
	static const char *const good[] = {"/a b:/c", "/1:/2:/3:/4:/5:/6:/7", ""};
	static const char *const bad[] = {"/1:/2:/3:/4:/5:/6:/7:/8", "/1:relative", "/1::/2",
					  "/1:", "relative"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect_null(set("symbols.directories", good[i]), "%s", good[i]);
		cr_expect_str_eq(config.debug_directories, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not_null(set("symbols.directories", bad[i]), "%s", bad[i]);
	cr_expect_str_empty(config.debug_directories);
}

static char *read_page(void)
{
	static char page[OUTPUT_BYTES];
	FILE *f = fopen(CONFIG_PAGE, "r");

	cr_assert_not_null(f, CONFIG_PAGE);
	page[fread(page, 1, sizeof(page) - 1, f)] = 0;
	fclose(f);
	return page;
}

/* Returns the length of the option's name if `text` starts with a section and a dot, else 0. */
static size_t name_length(const char *text)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const size_t n = strlen(config_options[i].section);

		if (!strncmp(text, config_options[i].section, n) && text[n] == '.')
			return n + 1 + strspn(text + n + 1, "abcdefghijklmnopqrstuvwxyz_");
	}
	return 0;
}

Test(config_table, configuration_page_lists_exactly_the_options)
{
	const char *page = read_page();

	for (const char *tick = strchr(page, '`'); tick; tick = strchr(tick + 1, '`')) {
		const char *name = tick + 1 + (strncmp(tick + 1, "--", 2) ? 0 : 2);
		const size_t length = name_length(name);

		if (length)
			cr_expect_not_null(config_table_find_flag(name, length), "%.*s",
					   (int)length, name);
	}
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		char row[256];

		/* The row of the option in the table of the page: name and default. */
		snprintf(row, sizeof(row), "| `%s` | %s%s%s |", o->flag, *o->built_in ? "`" : "",
			 o->built_in, *o->built_in ? "`" : "");
		cr_expect(strstr(page, row), "no row %s", row);
		for (size_t j = 0; j < COUNT(o->environment) && o->environment[j]; j++) {
			const char *own = strstr(o->environment[j], "PROFILES_");

			cr_expect(own || strstr(page, o->environment[j]), "%s", o->environment[j]);
		}
	}
}

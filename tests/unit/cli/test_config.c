/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/runtimes.h"
#include "cli/config.h"
#include "cli/config_load.h"
#include "cli/config_table.h"
#include "cli/config_value.h"
#include "common/exit_status.h"

enum {
	ARGUMENTS_MAX = 32,
	OUTPUT_BYTES = 1 << 18
};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))
#define MAIN_FILE "main.conf"

static char directory[] = "/tmp/bulkhead-config-XXXXXX";
static char *no_environment[] = {NULL};
static int streams[2]; /* what was written to stdout and stderr */
static char output[OUTPUT_BYTES], messages[OUTPUT_BYTES];
static struct config config;

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status, (void)kind, (void)where;
	return remove(path);
}

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
	umask(022);
	for (int i = 0; i < 2; i++) {
		streams[i] = memfd_create("output", 0);
		cr_assert_geq(streams[i], 0);
	}
}

static void tear_down(void)
{
	nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(config, .init = set_up, .fini = tear_down);
TestSuite(config_table);

static void write_bytes(const char *path, const void *text, size_t length)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f, "%s", path);
	cr_assert_eq(fwrite(text, 1, length, f), length);
	fclose(f);
	cr_assert_eq(chmod(path, 0600), 0);
}

static void write_file(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

static void read_stream(int fd, char *text)
{
	ssize_t n = pread(fd, text, OUTPUT_BYTES - 1, 0);

	cr_assert_geq(n, 0);
	text[n] = 0;
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
}

/* Arguments behind the command. */
static int load_with(char *const environment[], int argc, char **argv)
{
	const int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
	int r;

	fflush(NULL);
	dup2(streams[0], STDOUT_FILENO);
	dup2(streams[1], STDERR_FILENO);
	r = config_load(argc, argv, environment, &config);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], STDOUT_FILENO + i);
		close(saved[i]);
	}
	read_stream(streams[0], output);
	read_stream(streams[1], messages);
	return r;
}

/* With the main file; arguments end with NULL. */
static int load(char *const environment[], ...)
{
	char *argv[ARGUMENTS_MAX] = {(char *)(uintptr_t) "run", (char *)(uintptr_t) "--config",
				     (char *)(uintptr_t)MAIN_FILE};
	int argc = 3;
	va_list args;

	va_start(args, environment);
	while (argc < ARGUMENTS_MAX && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	cr_assert_lt(argc, ARGUMENTS_MAX);
	return load_with(environment, argc, argv);
}

#define LOAD(...) load(no_environment, __VA_ARGS__, NULL)
#define LOAD_FILE(text) (write_file(MAIN_FILE, (text)), load(no_environment, NULL))
#define LOAD_VARIABLES(...) load((char *[]){__VA_ARGS__, NULL}, NULL)
#define EXPECT_SAID(text) cr_expect(strstr(messages, (text)), "'%s' not in:\n%s", (text), messages)
#define EXPECT_NOT_SAID(text) cr_expect(!strstr(messages, (text)), "said:\n%s", messages)
#define EXPECT_PRINTED(text) cr_expect(strstr(output, (text)), "'%s' not in:\n%s", (text), output)

static size_t lines_of(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* ---- the table itself ---- */

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

Test(config_table, nearest)
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

/* ---- values ---- */

static const char *set(const char *flag, const char *text)
{
	static char reason[CONFIG_REASON_BYTES];
	const struct config_option *o = config_table_find_flag(flag, strlen(flag));

	cr_assert_not_null(o, "%s", flag);
	return config_value_set(o, text, &config, reason);
}

Test(config, defaults)
{
	cr_assert_eq(LOAD_FILE(""), 0);
	cr_assert_str_empty(messages);
	cr_assert_str_empty(output);
	cr_expect_eq(config.frequency_hz, 20);
	cr_expect_eq(config.report_interval_ns, 5000000000);
	cr_expect_eq(config.probability_percent, 100);
	cr_expect_eq(config.probability_interval_ns, 60000000000);
	cr_expect_str_eq(config.run_directory, "/run/bulkhead");
	cr_expect_eq(config.watchdog_ns, 10000000000);
	cr_expect_eq(config.drain_timeout_ns, 10000000000);
	cr_expect_str_eq(config.endpoint, "http://localhost:4317");
	cr_expect_not(config.insecure);
	cr_expect_str_empty(config.headers);
	cr_expect_str_empty(config.headers_file);
	cr_expect_not(config.gzip);
	cr_expect_str_empty(config.ca_file);
	cr_expect_str_empty(config.certificate_file);
	cr_expect_str_empty(config.key_file);
	cr_expect_eq(config.timeout_ns, 10000000000);
	cr_expect_eq(config.max_request_bytes, 3670016);
	cr_expect_str_eq(config.spool_directory, "/var/lib/bulkhead/spool");
	cr_expect_eq(config.spool_max_bytes, 512u << 20);
	cr_expect_eq(config.spool_max_age_ns, 86400000000000);
	cr_expect_eq(config.spool_memory_bytes, 8u << 20);
	cr_expect_eq(config.spool_compression_level, 1);
	cr_expect_not(config.process_service_name);
	cr_expect_str_empty(config.environment_variables);
	cr_expect_str_empty(config.service_name);
	cr_expect_str_empty(config.resource_attributes);
	cr_expect_eq(config.runtimes, RUNTIME_SET_ALL);
	cr_expect_not(config.strict_memory);
	cr_expect_str_empty(config.status_group);
	cr_expect_not(config.disabled);
}

Test(config_table, every_bound)
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

Test(config_table, numbers)
{
	static const struct {
		const char *flag, *text;
		uint64_t value;
	} good[] = {
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
	} bad[] = {
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

	for (size_t i = 0; i < COUNT(good); i++) {
		const struct config_option *o =
		    config_table_find_flag(good[i].flag, strlen(good[i].flag));

		cr_assert_null(set(good[i].flag, good[i].text), "%s", good[i].text);
		cr_expect_eq(*config_value_number(o, &config), good[i].value, "%s", good[i].text);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		cr_expect_not_null(set(bad[i].flag, bad[i].text), "%s '%s'", bad[i].flag,
				   bad[i].text);
	cr_assert_str_eq(set("agent.watchdog", "1ms"),
			 "it must be a time with ms, s, m, h or d: 1s ... 5m, or 0");
	cr_assert_str_eq(set("export.max_request_bytes", "x"),
			 "it must be a number of bytes, KiB, MiB or GiB: 64KiB ... 64MiB");
}

Test(config_table, words)
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

Test(config_table, runtimes)
{
	const uint32_t python = 1u << RUNTIME_ID_CPYTHON, java = 1u << RUNTIME_ID_HOTSPOT;
	static const char *const bad[] = {"", " ", ",", "python", "all,cpython",
					  "cpython,none", "cpython;hotspot", "cpythonx", "cpytho"};
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
		/* What there is, not what was written. */
		cr_expect(!reason || (strstr(reason, "cpython, hotspot") &&
				      !strstr(reason, "cpythonx")));
	}
	cr_expect_eq(config.runtimes, RUNTIME_SET_ALL);
}

Test(config_table, texts)
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
	    {"export.endpoint", "unix:/x"},
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
	/* As long as they may be, and one byte longer. */
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

/* ---- precedence: every option, every source ---- */

enum source {
	SOURCE_FILE,
	SOURCE_FIRST,
	SOURCE_SECOND,
	SOURCE_GENERIC,
	SOURCE_OWN,
	SOURCE_FLAG,
	SOURCES
};

/* A text that is different for each source (as far as the type allows), and how it is shown. */
static void sample_value(const struct config_option *o, enum source source, char *text, char *shown,
			 size_t size)
{
	const int n = (int)source + 4;

	switch (o->type) {
	case CONFIG_TYPE_NUMBER:
	case CONFIG_TYPE_PERCENT:
		snprintf(text, size, "%d", n);
		break;
	case CONFIG_TYPE_DURATION:
		snprintf(text, size, "%d%s", 60 + n,
			 source == SOURCE_GENERIC || source == SOURCE_OWN ? "000" : "s");
		snprintf(shown, size, "%ds", 60 + n);
		return;
	case CONFIG_TYPE_SIZE:
		snprintf(text, size, "%dKiB", 4096 + n);
		break;
	case CONFIG_TYPE_BOOLEAN:
		snprintf(text, size, "%s", source % 2 ? "false" : "true");
		break;
	case CONFIG_TYPE_COMPRESSION:
		snprintf(text, size, "%s", source % 2 ? "none" : "gzip");
		break;
	case CONFIG_TYPE_RUNTIMES:
		snprintf(text, size, "%s", source % 2 ? "none" : "cpython");
		break;
	case CONFIG_TYPE_HEADERS:
		snprintf(text, size, "secret=%d", n);
		snprintf(shown, size, "(set)");
		return;
	case CONFIG_TYPE_ATTRIBUTES:
		snprintf(text, size, "name=%d", n);
		break;
	case CONFIG_TYPE_ENDPOINT:
		snprintf(text, size, "https://host%d:5", n);
		break;
	case CONFIG_TYPE_TEXT:
	case CONFIG_TYPE_FILE:
	case CONFIG_TYPE_DIRECTORY:
		snprintf(text, size, "/value/%d", n);
		break;
	case CONFIG_TYPE_NAMES:
	case CONFIG_TYPE_GROUP:
		snprintf(text, size, "name%d", n);
		break;
	}
	snprintf(shown, size, "%.60s", text);
}

static void precedence_of(const struct config_option *o, enum source highest)
{
	static const char *const files[] = {MAIN_FILE, "conf.d/1.conf", "conf.d/2.conf"};
	char text[SOURCES][64], shown[64], wanted[640], content[512], variables[2][512];
	char flag[64], *environment[3] = {NULL}, *argument = NULL;
	size_t count = 0;

	snprintf(wanted, sizeof(wanted), "\n%s =", o->flag);
	for (enum source s = SOURCE_FILE; s <= highest; s++) {
		sample_value(o, s, text[s], shown, sizeof(shown));
		if (s <= SOURCE_SECOND) {
			/* A key needs a certificate and the other way round. */
			snprintf(content, sizeof(content), "%s[%s]\n%s = %s\n",
				 s != SOURCE_FILE	       ? ""
				 : !strcmp(o->key, "key_file") ? "[export]\ncertificate_file = /c\n"
				 : !strcmp(o->key, "certificate_file") ? "[export]\nkey_file = /k\n"
								       : "",
				 o->section, o->key, text[s]);
			write_file(files[s], content);
			snprintf(wanted, sizeof(wanted), "%s = %s # %s:%zu\n", o->flag, shown,
				 files[s], lines_of(content));
		} else if (s == SOURCE_FLAG) {
			snprintf(flag, sizeof(flag), "--%s", o->flag);
			argument = o->traits & CONFIG_SECRET ? NULL : flag;
			if (argument)
				snprintf(wanted, sizeof(wanted), "%s = %s # flag --%s\n", o->flag,
					 shown, o->flag);
		} else if (o->environment[s == SOURCE_GENERIC]) {
			const char *name = o->environment[s == SOURCE_GENERIC];

			snprintf(variables[count], sizeof(variables[0]), "%s=%s", name, text[s]);
			environment[count] = variables[count];
			count++;
			snprintf(wanted, sizeof(wanted), "%s = %s # environment %s\n", o->flag,
				 shown, name);
		}
	}
	/* Lower sources left from a run before are overwritten, higher ones are not there. */
	cr_assert_eq(
	    load(environment, "--dump", argument, argument ? text[SOURCE_FLAG] : NULL, NULL), -1,
	    "%s: %s", o->flag, messages);
	EXPECT_PRINTED(wanted);
}

Test(config, precedence)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		unlink("conf.d/1.conf");
		unlink("conf.d/2.conf");
		for (enum source s = SOURCE_FILE; s < SOURCES; s++)
			precedence_of(&config_options[i], s);
	}
}

Test(config, built_in_are_shown)
{
	write_file(MAIN_FILE, "");
	cr_assert_eq(LOAD("--dump"), -1);
	cr_assert_eq(lines_of(output), CONFIG_OPTIONS);
	EXPECT_PRINTED("agent.frequency = 20 # built in\n");
	EXPECT_PRINTED("export.headers = (not set) # built in\n");
	EXPECT_PRINTED("spool.max_age = 1d # built in\n");
}

/* ---- flags ---- */

Test(config, flag_forms)
{
	write_file(MAIN_FILE, "");
	cr_assert_eq(LOAD("-F", "99"), 0);
	cr_assert_eq(config.frequency_hz, 99);
	cr_assert_eq(LOAD("-F98"), 0);
	cr_assert_eq(config.frequency_hz, 98);
	cr_assert_eq(LOAD("--freq", "97"), 0);
	cr_assert_eq(config.frequency_hz, 97);
	cr_assert_eq(LOAD("--freq=96", "--export.endpoint=https://a:1", "--spool.directory="), 0);
	cr_assert_eq(config.frequency_hz, 96);
	cr_assert_str_eq(config.endpoint, "https://a:1");
	cr_assert_str_empty(config.spool_directory);
	cr_assert_eq(LOAD("--identity.resource_attributes=a=b", "-F1", "--agent.frequency=2"), 0);
	cr_assert_eq(config.frequency_hz, 2);
	cr_assert_str_eq(config.resource_attributes, "a=b");
}

Test(config, flags_refused)
{
	static const struct {
		const char *argument, *value, *said;
	} bad[] = {
	    {"--agent.freqency", "1", "did you mean --agent.frequency?"},
	    {"--frequency=1", NULL, "did you mean --agent.frequency?"},
	    {"--agent.freq", "1", "unknown flag"},
	    {"--agent.frequency", NULL, "its value is missing"},
	    {"-F", NULL, "its value is missing"},
	    {"--config", NULL, "its value is missing"},
	    {"-F", "0", "--agent.frequency: it must be a whole number: 1 ... 997"},
	    {"-f", "1", "unknown flag"},
	    {"argument", NULL, "unknown flag"},
	    {"--", NULL, "unknown flag"},
	    {"-", NULL, "unknown flag"},
	    {"", NULL, "unknown flag"},
	    {"--.", NULL, "unknown flag"},
	    {"--=x", NULL, "unknown flag"},
	    {"--check=x", NULL, "unknown flag"},
	    {"--export.headers", "a=hunter2", "secret"},
	    {"--export.headers=a=hunter2", NULL, "secret"},
	    {"--headers=a=hunter2", NULL, "unknown flag"},
	    {"--export.header", "a=hunter2", "unknown flag"},
	    {"--export.endpoint", "http://u:hunter2@host", "--export.endpoint: a user name"},
	    {"--identity.service_name", "hunter2\n", "control characters"},
	};

	write_file(MAIN_FILE, "");
	for (size_t i = 0; i < COUNT(bad); i++) {
		cr_expect_eq(LOAD(bad[i].argument, bad[i].value), STATUS_USAGE, "%s",
			     bad[i].argument);
		EXPECT_SAID(bad[i].said);
		EXPECT_NOT_SAID("hunter2");
		cr_expect_eq(lines_of(messages), 1, "%s", messages);
	}
}

/* ---- files ---- */

Test(config, file_forms)
{
	static const char text[] = "\xef\xbb\xbf# comment = x\r\n"
				   "; another\r\n"
				   "\r\n"
				   "[agent]\r\n"
				   "  frequency=30  \r\n"
				   "\treport_interval\t=\t7s\r\n"
				   "[export]\n"
				   "endpoint = https://a:1/#x\n"
				   "headers = a=b=c,d=e;f\n"
				   "[agent]\n"
				   "watchdog = 0\n"
				   "[spool]\n"
				   "directory =";

	cr_assert_eq(LOAD_FILE(text), 0, "%s", messages);
	cr_assert_eq(config.frequency_hz, 30);
	cr_assert_eq(config.report_interval_ns, 7000000000);
	cr_assert_str_eq(config.endpoint, "https://a:1/#x");
	cr_assert_str_eq(config.headers, "a=b=c,d=e;f");
	cr_assert_eq(config.watchdog_ns, 0);
	cr_assert_str_empty(config.spool_directory);
}

/* One fault each, at that line. */
Test(config, file_faults)
{
	static const struct {
		const char *text;
		unsigned int line;
		const char *said;
	} bad[] = {
	    {"[agent]\nfreqency = 1\n", 2,
	     "unknown key: agent.freqency; did you mean agent.frequency?"},
	    {"[agent]\n\n# x\nmax_bytes = 1\n", 4, "did you mean spool.max_bytes?"},
	    {"[agent]\nwhatever_it_is = 1\n", 2, "unknown key: agent.whatever_it_is\n"},
	    {"[agent]\nFrequency = 30\n", 2,
	     "unknown key in [agent]; did you mean agent.frequency?"},
	    {"frequency = 1\n", 1,
	     "a key without a [section] above it; did you mean agent.frequency?"},
	    {"[exporter]\nendpoint = x\nfoo = bar\n", 1,
	     "unknown section: [exporter]; did you mean [export]?"},
	    {"[hunter2 ]\nendpoint = x\n", 1, "unknown section\n"},
	    {"[]\nendpoint = x\n", 1, "unknown section\n"},
	    {"[agent\nfrequency = 1000\n", 1, "a section is [NAME]"},
	    {"[agent] # x\nfrequency = 1000\n", 1, "a section is [NAME]"},
	    {"[agent]]\nfrequency = 1000\n", 1, "a section is [NAME]"},
	    {"[agent]\nfrequency\n", 2, "there is no = in the line"},
	    {"[agent]\nfrequency: 30\n", 2, "there is no = in the line"},
	    {"[agent]\nhunter2", 2, "there is no = in the line"},
	    {"[agent]\n= hunter2\n", 2, "there is no key in the line"},
	    {"[agent]\nfrequency = 30 # often\n", 2, "a comment must be on a line of its own"},
	    {"[agent]\nfrequency = 30 ; often\n", 2, "a comment must be on a line of its own"},
	    {"[agent]\nfrequency = ; 30\n", 2, "a comment must be on a line of its own"},
	    {"[agent]\nfrequency = 1\nwatchdog = 3s\nfrequency = 2\n", 4,
	     "agent.frequency was given in line 2 already"},
	    {"[agent]\nfrequency = 1\n[export]\n[agent]\nfrequency = 1\n", 5,
	     "agent.frequency was given in line 2 already"},
	    {"[agent]\nfrequency = 0\n", 2, "agent.frequency: it must be a whole number"},
	    {"[agent]\nfrequency =\n", 2, "agent.frequency: it must be a whole number"},
	    {"[agent]\nfrequency = 30\n  40 =\n", 3, "unknown key: agent.40\n"},
	    {"[export]\nheaders = authorization=hunter2,\n  aHVudGVyMg=\n", 3,
	     "unknown key in [export]\n"},
	    {"[export]\nheaders = authorization=hunter2%\n", 2, "export.headers: pair 1: "},
	    {"[export]\nendpoint = http://x:hunter2@h\n", 2, "export.endpoint: "},
	    {"[export]\nkey_file = /k\n", 2, "export.key_file is of no use without"},
	    {"[export]\ncertificate_file = /k\n", 2,
	     "export.certificate_file is of no use without"},
	    {"[export]\nmax_request_bytes = 9MiB\n", 2, "spool.memory_max_bytes is less than"},
	    {"[spool]\nmemory_max_bytes = 2MiB\n", 2, "spool.memory_max_bytes is less than"},
	    {"[spool]\nmax_bytes = 2MiB\n", 2, "spool.max_bytes is less than"},
	    {"[agent]\nfrequency = 3\x01\n", 2, "there is a control character in the line"},
	    {"[agent]\nfrequency = 3\rwatchdog = 2s\n", 2, "there is a control character"},
	};
	char where[32];

	for (size_t i = 0; i < COUNT(bad); i++) {
		memset(&config, 0x55, sizeof(config));
		cr_expect_eq(LOAD_FILE(bad[i].text), STATUS_USAGE, "%s", bad[i].text);
		snprintf(where, sizeof(where), MAIN_FILE ":%u: ", bad[i].line);
		cr_expect(!strncmp(messages, where, strlen(where)), "%s: %s", bad[i].text,
			  messages);
		EXPECT_SAID(bad[i].said);
		EXPECT_NOT_SAID("hunter2");
		EXPECT_NOT_SAID("aHVud");
		cr_expect_eq(lines_of(messages), 1, "%s", messages);
		cr_expect_eq(config.endpoint[0], 0x55, "written to although it failed");
	}
}

Test(config, nul_bytes)
{
	static const char text[] = "[agent]\nfrequency = 30\0secret\n[export]\nkey\0 = x\n";

	write_bytes(MAIN_FILE, text, sizeof(text) - 1);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_str_eq(messages, MAIN_FILE ":2: there is a NUL byte in the line\n" MAIN_FILE
					     ":4: there is a NUL byte in the line\n");
}

Test(config, long_lines)
{
	static const char head[] = "[identity]\nservice_name = ok\nresource_attributes = a=";
	static char text[CONFIG_LIST_BYTES + 1024];
	const size_t start = sizeof(head) - 1;

	/* Longer than the 200 bytes at which inih would cut: exactly what the member holds. */
	memset(text, 'x', sizeof(text));
	memcpy(text, head, start);
	write_bytes(MAIN_FILE, text, start - 2 + CONFIG_LIST_BYTES - 1);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_eq(strlen(config.resource_attributes), CONFIG_LIST_BYTES - 1);
	write_bytes(MAIN_FILE, text, start - 2 + CONFIG_LIST_BYTES);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_SAID(MAIN_FILE ":3: identity.resource_attributes: it is longer than 8191 bytes");
	/* Longer than any line may be: nothing of it is taken for a line of its own. */
	memcpy(text + sizeof(text) - 14, "=\n[agent]\nx=1\n", 14);
	write_bytes(MAIN_FILE, text, sizeof(text));
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_SAID(MAIN_FILE ":3: the line is longer than");
	EXPECT_SAID(MAIN_FILE ":5: unknown key: agent.x\n");
	cr_assert_eq(lines_of(messages), 2, "%s", messages);
	/* A comment may be as long as it likes. */
	text[0] = '#';
	memset(text + 1, 'x', sizeof(text) - 2);
	text[sizeof(text) - 1] = '\n';
	write_bytes(MAIN_FILE, text, sizeof(text));
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
}

Test(config, large_files)
{
	char *text = malloc(CONFIG_FILE_BYTES + 1);

	cr_assert_not_null(text);
	memset(text, '\n', CONFIG_FILE_BYTES + 1);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES + 1);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_SAID(MAIN_FILE ": the file is longer than");
	/* As many faults as there can be: not all of them are said. */
	for (size_t i = 0; i < CONFIG_FILE_BYTES; i += 2)
		memcpy(text + i, "x\n", 2);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_eq(lines_of(messages), CONFIG_FAULTS_SHOWN + 1);
	EXPECT_SAID("and 524238 more faults\n");
	free(text);
}

Test(config, all_faults_at_once)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	write_file("conf.d/b.conf", "[agent]\nfrequency = 2000\n");
	write_file("conf.d/a.conf", "[spool]\nmax_age = never\n");
	write_file(MAIN_FILE, "[agent]\nfoo = 1\nfrequency = x\n[export]\nendpoint\n");
	cr_assert_eq(load((char *[]){"OTEL_EXPORTER_OTLP_ENDPOINT=a b", NULL}, "--check",
			  "--spool.compression_level=20", NULL),
		     STATUS_USAGE);
	const char *const said[] = {
	    MAIN_FILE ":2: unknown key: agent.foo\n",
	    MAIN_FILE ":3: agent.frequency: it must be a whole number: 1 ... 997\n",
	    MAIN_FILE ":5: there is no = in the line\n",
	    "conf.d/a.conf:2: spool.max_age: it must be a time with ms, s, m, h or d: 1m ... 30d\n",
	    "conf.d/b.conf:2: agent.frequency: it must be a whole number: 1 ... 997\n",
	    "OTEL_EXPORTER_OTLP_ENDPOINT: export.endpoint: a character of its host is not "
	    "allowed\n",
	    "--spool.compression_level: it must be a whole number: 1 ... 19\n",
	};
	const char *at = messages;
	for (size_t i = 0; i < COUNT(said); i++) {
		cr_assert(!strncmp(at, said[i], strlen(said[i])), "%s", at);
		at += strlen(said[i]);
	}
	cr_assert_str_empty(at);
	cr_assert_str_empty(output);
	/* The same without --check. */
	cr_assert_eq(load(no_environment, NULL), STATUS_USAGE);
	cr_assert_eq(LOAD("--dump"), STATUS_USAGE);
	cr_assert_str_empty(output);
}

Test(config, fragments)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	cr_assert_eq(mkdir("conf.d/50.conf", 0700), 0);
	cr_assert_eq(mkfifo("conf.d/60.conf", 0600), 0);
	write_file(MAIN_FILE, "[agent]\nfrequency = 1\n");
	write_file("conf.d/10.conf", "[agent]\nfrequency = 10\nprobability = 10\n");
	write_file("conf.d/9.conf", "[agent]\nfrequency = 9\n");
	write_file("conf.d/B.conf", "[agent]\nwatchdog = 3s\n");
	write_file("conf.d/a.conf", "[agent]\nwatchdog = 4s\n");
	/* None of these counts. */
	write_file("conf.d/99.conf.rpmsave", "wrong");
	write_file("conf.d/99.conf~", "wrong");
	write_file("conf.d/.99.conf", "wrong");
	write_file("conf.d/.conf", "wrong");
	write_file("conf.d/README", "wrong");
	write_file("target", "[spool]\ncompression_level = 7\n");
	/* As Kubernetes mounts them. */
	cr_assert_eq(symlink("../target", "conf.d/70.conf"), 0);
	cr_assert_eq(load(no_environment, NULL), 0, "%s", messages);
	cr_assert_str_empty(messages);
	cr_assert_eq(config.frequency_hz, 9);
	cr_assert_eq(config.probability_percent, 10);
	cr_assert_eq(config.watchdog_ns, 4000000000);
	cr_assert_eq(config.spool_compression_level, 7);
	cr_assert_eq(unlink("target"), 0);
	cr_assert_eq(load(no_environment, NULL), STATUS_USAGE);
	EXPECT_SAID("conf.d/70.conf: it cannot be read: No such file or directory\n");
}

Test(config, files_that_are_missing)
{
	char reason[] = "absent/main.conf: it cannot be read: No such file or directory\n";
	char *argv[] = {"run", "--config", "absent/main.conf", "--check"};

	cr_assert_eq(load_with(no_environment, 4, argv), STATUS_USAGE);
	cr_assert_str_eq(messages, reason);
	argv[2] = ".";
	cr_assert_eq(load_with(no_environment, 4, argv), STATUS_USAGE);
	EXPECT_SAID(".: it cannot be read: Is a directory\n");
	/* The default file may be missing, and conf.d count all the same. */
	struct config_load *l = calloc(1, sizeof(*l));
	cr_assert_not_null(l);
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	write_file("conf.d/1.conf", "[agent]\nfrequency = 5\n");
	config_files_apply(l, "bulkhead.conf", false);
	cr_assert_eq(l->faults, 0);
	cr_assert_eq(l->config.frequency_hz, 5);
	free(l->paths[0]);
	free(l);
}

/* ---- environment ---- */

Test(config, empty_variables_are_unset)
{
	write_file(MAIN_FILE, "[export]\nendpoint = https://file\ninsecure = yes\n");
	cr_assert_eq(
	    LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=", "OTEL_EXPORTER_OTLP_INSECURE=",
			   "OTEL_EXPORTER_OTLP_TIMEOUT=", "OTEL_EXPORTER_OTLP_HEADERS= \n",
			   "OTEL_SERVICE_NAME=", "OTEL_RESOURCE_ATTRIBUTES=", "OTEL_SDK_DISABLED=",
			   "OTEL_EXPORTER_OTLP_COMPRESSION="),
	    0);
	cr_assert_str_empty(messages);
	cr_assert_str_eq(config.endpoint, "https://file");
	cr_assert(config.insecure);
	/* The profiles' own is empty: the generic one counts. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=",
				    "OTEL_EXPORTER_OTLP_ENDPOINT=https://generic\n"),
		     0);
	cr_assert_str_eq(config.endpoint, "https://generic");
	cr_assert_eq(load(NULL, NULL), 0);
}

Test(config, booleans_of_the_environment)
{
	static const struct {
		const char *value;
		bool is_true, warned;
	} tries[] = {
	    {"true", true, false},   {"TRUE", true, false},   {"True", true, false},
	    {"false", false, false}, {"False", false, false}, {"1", false, true},
	    {"yes", false, true},    {"on", false, true},
	};
	char insecure[64], disabled[64];

	/* Whatever is not true is false, over the file. */
	write_file(MAIN_FILE, "[export]\ninsecure = true\n");
	for (size_t i = 0; i < COUNT(tries); i++) {
		snprintf(insecure, sizeof(insecure), "OTEL_EXPORTER_OTLP_INSECURE=%s",
			 tries[i].value);
		snprintf(disabled, sizeof(disabled), "OTEL_SDK_DISABLED=%s", tries[i].value);
		cr_assert_eq(LOAD_VARIABLES(insecure, disabled), 0);
		cr_expect_eq(config.insecure, tries[i].is_true, "%s", tries[i].value);
		cr_expect_eq(config.disabled, tries[i].is_true, "%s", tries[i].value);
		cr_expect_eq(lines_of(messages), tries[i].warned ? 2 : 0, "%s", messages);
	}
	EXPECT_SAID("OTEL_SDK_DISABLED: warning: ");
}

Test(config, strict_memory_reads_no_environment)
{
	cr_assert_eq(LOAD_FILE("[runtimes]\nstrict_memory = yes\nenabled = none\n"), 0);
	cr_expect(config.strict_memory);
	cr_expect_eq(config.runtimes, 0);
	cr_expect_str_empty(messages);
	cr_assert_eq(LOAD_FILE("[runtimes]\nstrict_memory = yes\n"
			       "[identity]\nenvironment_variables = A\n"),
		     0);
	EXPECT_SAID(MAIN_FILE ":2: warning: runtimes.strict_memory: ");
	cr_expect_eq(lines_of(messages), 1);
	cr_assert_eq(LOAD_FILE("[identity]\nenvironment_variables = A\n"), 0);
	cr_expect_str_empty(messages);
}

Test(config, timeouts_of_the_environment)
{
	static const char *const ignored[] = {
	    "10s",  "-1",  "1.5", "99",	    "300001",		"abc",
	    "0x10", "1e3", "+5",  "500 ms", "99999999999999999"};
	char variable[64];

	write_file(MAIN_FILE, "[export]\ntimeout = 7s\n");
	for (size_t i = 0; i < COUNT(ignored); i++) {
		snprintf(variable, sizeof(variable), "OTEL_EXPORTER_OTLP_TIMEOUT=%s", ignored[i]);
		cr_assert_eq(LOAD_VARIABLES(variable), 0);
		cr_expect_eq(config.timeout_ns, 7000000000, "%s", ignored[i]);
		EXPECT_SAID("OTEL_EXPORTER_OTLP_TIMEOUT: warning: it must be ");
		EXPECT_SAID(": ignored\n");
		cr_expect_eq(lines_of(messages), 1);
	}
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_TIMEOUT=2500"), 0);
	cr_assert_eq(config.timeout_ns, 2500000000);
	cr_assert_str_empty(messages);
	/* No limit: the greatest. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_TIMEOUT=0"), 0);
	cr_assert_eq(config.timeout_ns, 300000000000);
	/* What is ignored is as if it were not set: the generic one counts. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT=x",
				    "OTEL_EXPORTER_OTLP_TIMEOUT=3000"),
		     0);
	cr_assert_eq(config.timeout_ns, 3000000000);
}

Test(config, words_of_the_environment)
{
	write_file(MAIN_FILE, "[export]\ncompression = gzip\n");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_COMPRESSION=zstd"), 0);
	cr_assert(config.gzip);
	EXPECT_SAID("OTEL_EXPORTER_OTLP_COMPRESSION: warning: it must be none or gzip: ignored\n");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_COMPRESSION=none"), 0);
	cr_assert_not(config.gzip);
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"), 0);
	EXPECT_SAID("OTEL_EXPORTER_OTLP_PROTOCOL: warning: only grpc is spoken");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
				    "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=grpc"),
		     0);
	cr_assert_str_empty(messages);
}

Test(config, service_name)
{
	write_file(MAIN_FILE, "");
	cr_assert_eq(LOAD_VARIABLES("OTEL_RESOURCE_ATTRIBUTES=service.name=a%20b,x=y"), 0);
	cr_assert_str_eq(config.service_name, "a b");
	cr_assert_str_eq(config.resource_attributes, "service.name=a%20b,x=y");
	cr_assert_eq(
	    LOAD_VARIABLES("OTEL_RESOURCE_ATTRIBUTES=service.name=a", "OTEL_SERVICE_NAME=b%20"), 0);
	cr_assert_str_eq(config.service_name, "b%20");
	write_file(MAIN_FILE, "[identity]\nservice_name = c\n");
	cr_assert_eq(LOAD_VARIABLES("OTEL_RESOURCE_ATTRIBUTES=service.name=a"), 0);
	cr_assert_str_eq(config.service_name, "c");
	/* The whole variable is given up. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_RESOURCE_ATTRIBUTES=x=y,service.name"), 0);
	cr_assert_str_empty(config.resource_attributes);
	EXPECT_SAID("OTEL_RESOURCE_ATTRIBUTES: warning: pair 2: there is no = in it: ignored\n");
}

/* ---- secrets ---- */

Test(config, secrets_are_not_shown)
{
	write_file(MAIN_FILE, "[export]\nheaders = authorization=hunter2\n");
	cr_assert_eq(LOAD("--dump"), -1);
	EXPECT_PRINTED("export.headers = (set) # main.conf:2\n");
	cr_expect(!strstr(output, "hunter2"));
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--dump", "--export.endpoint=http://h/?key=hunter2"), -1);
	EXPECT_PRINTED("export.endpoint = http://h/ # flag");
	cr_expect(!strstr(output, "hunter2"));
	EXPECT_NOT_SAID("hunter2");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_HEADERS=authorization=hunter2%"),
		     STATUS_USAGE);
	EXPECT_SAID("OTEL_EXPORTER_OTLP_HEADERS: export.headers: pair 1: ");
	EXPECT_NOT_SAID("hunter2");
}

Test(config, secrets_that_others_may_read)
{
	static const char secret[] = "[export]\nheaders = a=hunter2\n";

	write_file(MAIN_FILE, secret);
	cr_assert_eq(chmod(MAIN_FILE, 0644), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_eq(messages, MAIN_FILE ":2: warning: export.headers is secret, and everyone "
					     "may read this file\n");
	cr_assert_eq(chmod(MAIN_FILE, 0640), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_empty(messages);
	write_file(MAIN_FILE, "[export]\nheaders =\nheaders_file = /x\n");
	cr_assert_eq(chmod(MAIN_FILE, 0644), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_empty(messages);
}

/* ---- what is checked across options ---- */

Test(config, warnings)
{
	write_file(MAIN_FILE, "[export]\nendpoint = http://h:4318/v1/profiles\nca_file = /ca\n"
			      "certificate_file = /c\nkey_file = /k\n");
	cr_assert_eq(load(no_environment, NULL), 0);
	EXPECT_SAID(MAIN_FILE
		    ":2: warning: export.endpoint: what follows host and port is ignored");
	EXPECT_SAID(MAIN_FILE ":2: warning: export.endpoint: port 4318 is customary for OTLP/HTTP");
	EXPECT_SAID(MAIN_FILE ":3: warning: export.ca_file is not used");
	EXPECT_SAID(MAIN_FILE ":4: warning: export.certificate_file is not used");
	cr_assert_eq(lines_of(messages), 4, "%s", messages);
	cr_assert_eq(LOAD("--export.endpoint=https://h"), 0);
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--export.endpoint=h"), 0);
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--export.endpoint=h", "--export.insecure=true"), 0);
	cr_assert_eq(lines_of(messages), 2, "%s", messages);
}

Test(config, spool_without_directory)
{
	cr_assert_eq(LOAD_FILE("[spool]\nmax_bytes = 1MiB\ndirectory =\n"), 0, "%s", messages);
}

Test(config, checks_files)
{
	write_file(MAIN_FILE, "[export]\nendpoint = https://h\nca_file = ca\ncertificate_file = c\n"
			      "key_file = k\nheaders_file = h\n");
	/* Only --check looks at them. */
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_SAID(MAIN_FILE ":3: export.ca_file: it cannot be read: No such file");
	EXPECT_SAID(MAIN_FILE ":4: export.certificate_file: it cannot be read");
	EXPECT_SAID(MAIN_FILE ":5: export.key_file: it cannot be read");
	EXPECT_SAID("h: it cannot be read");
	write_file("ca", "");
	write_file("c", "");
	write_file("k", "");
	write_file("h", "a: b\nauthorization hunter2\n");
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_str_eq(messages, "h:2: there is no : in it\n");
	write_file("h", "authorization: hunter2\n");
	cr_assert_eq(LOAD("--check"), -1);
	cr_assert_str_empty(messages);
	cr_assert_str_eq(output, "configuration is valid\n");
	cr_assert_eq(chmod("h", 0644), 0);
	cr_assert_eq(LOAD("--check"), -1);
	cr_assert_str_eq(messages,
			 "h: warning: headers are secret, and everyone may read this file\n");
}

/* ---- what the table tells ---- */

Test(config, sample_is_a_configuration)
{
	static char text[OUTPUT_BYTES], dump[OUTPUT_BYTES];
	size_t used = 0;

	cr_assert_eq(LOAD("--sample"), -1);
	write_file(MAIN_FILE, output);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	cr_assert_eq(LOAD("--dump"), -1);
	memcpy(dump, output, sizeof(dump));
	/* The same with every # before a key taken away; all that changes is where it is from. */
	cr_assert_eq(LOAD("--sample"), -1);
	for (const char *line = output; *line;) {
		const size_t length = strcspn(line, "\n") + 1;
		const size_t skipped = line[0] == '#' && line[1] != ' ';

		memcpy(text + used, line + skipped, length - skipped);
		used += length - skipped;
		line += length;
	}
	write_bytes(MAIN_FILE, text, used);
	cr_assert_eq(LOAD("--dump"), -1, "%s", messages);
	cr_assert_eq(lines_of(output), CONFIG_OPTIONS);
	const char *a = output, *b = dump;
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const size_t value = strcspn(a, "#");

		cr_expect_eq(value, strcspn(b, "#"));
		cr_expect(!strncmp(a, b, value), "%.60s / %.60s", a, b);
		cr_expect(!strncmp(a + value, "# " MAIN_FILE ":", 12), "%.80s", a);
		a = strchr(a, '\n') + 1;
		b = strchr(b, '\n') + 1;
	}
}

Test(config, help)
{
	char *argv[] = {"run", "--help"};

	cr_assert_eq(load_with(no_environment, 2, argv), -1);
	cr_assert_str_empty(messages);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		char flag[80];

		snprintf(flag, sizeof(flag), "  --%s ", o->flag);
		cr_expect_eq(!strstr(output, flag), !!(o->traits & CONFIG_SECRET), "%s", flag);
	}
	argv[1] = "-h";
	cr_assert_eq(load_with(no_environment, 2, argv), -1);
}

/* ---- docs/configuration.md ---- */

static char *read_page(void)
{
	static char page[OUTPUT_BYTES];
	FILE *f = fopen(CONFIG_PAGE, "r");

	cr_assert_not_null(f, CONFIG_PAGE);
	page[fread(page, 1, sizeof(page) - 1, f)] = 0;
	fclose(f);
	return page;
}

/* Whether `text` begins with section and dot; the length of the whole name. */
static size_t name_length(const char *text)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const size_t n = strlen(config_options[i].section);

		if (!strncmp(text, config_options[i].section, n) && text[n] == '.')
			return n + 1 + strspn(text + n + 1, "abcdefghijklmnopqrstuvwxyz_");
	}
	return 0;
}

Test(config_table, page_names_what_exists)
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

		/* A row of its table: name and default. */
		snprintf(row, sizeof(row), "| `%s` | %s%s%s |", o->flag, *o->built_in ? "`" : "",
			 o->built_in, *o->built_in ? "`" : "");
		cr_expect(strstr(page, row), "no row %s", row);
		for (size_t j = 0; j < COUNT(o->environment) && o->environment[j]; j++) {
			const char *own = strstr(o->environment[j], "PROFILES_");

			cr_expect(own || strstr(page, o->environment[j]), "%s", o->environment[j]);
		}
	}
}

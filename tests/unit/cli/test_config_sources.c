/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cli/config_fixture.h"
#include "common/runtimes.h"

TestSuite(config_sources, .init = config_set_up, .fini = config_tear_down);

Test(config_sources, without_sources_values_are_built_in)
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
	case CONFIG_TYPE_DIRECTORIES:
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
			/* A key needs a certificate, and a certificate needs a key. Headers need
			 * TLS or a permission. */
			snprintf(content, sizeof(content), "%s[%s]\n%s = %s\n",
				 s != SOURCE_FILE	       ? ""
				 : !strcmp(o->key, "key_file") ? "[export]\ncertificate_file = /c\n"
				 : !strcmp(o->key, "certificate_file") ? "[export]\nkey_file = /k\n"
				 : !strncmp(o->key, "headers", 7)
				     ? "[export]\nplaintext_headers = yes\n"
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
	/* Values of lower sources from an earlier run are overwritten. None is higher. */
	cr_assert_eq(
	    load(environment, "--dump", argument, argument ? text[SOURCE_FLAG] : NULL, NULL), -1,
	    "%s: %s", o->flag, messages);
	EXPECT_PRINTED(wanted);
}

Test(config_sources, each_source_overrides_those_before_it)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		unlink("conf.d/1.conf");
		unlink("conf.d/2.conf");
		for (enum source s = SOURCE_FILE; s < SOURCES; s++)
			precedence_of(&config_options[i], s);
	}
}

Test(config_sources, dump_shows_built_in_values)
{
	write_file(MAIN_FILE, "");
	cr_assert_eq(LOAD("--dump"), -1);
	cr_assert_eq(lines_of(output), CONFIG_OPTIONS);
	EXPECT_PRINTED("agent.frequency = 20 # built in\n");
	EXPECT_PRINTED("export.headers = (not set) # built in\n");
	EXPECT_PRINTED("spool.max_age = 1d # built in\n");
}

Test(config_sources, flags_have_short_long_and_equals_forms)
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

Test(config_sources, wrong_flags_are_refused_without_showing_secrets)
{
	static const struct {
		const char *argument, *value, *message;
	} bad[] = {
	    {"--agent.freqency", "1", "did you mean --agent.frequency?"},
	    {"--frequency=1", NULL, "did you mean --agent.frequency?"},
	    {"--agent.freq", "1", "unknown flag"},
	    {"--agent.frequency", NULL, "the value is missing"},
	    {"-F", NULL, "the value is missing"},
	    {"--config", NULL, "the value is missing"},
	    {"-F", "0", "--agent.frequency: must be a whole number: 1 ... 997"},
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
	    {"--export.endpoint", "http://u:hunter2@host", "--export.endpoint: user names"},
	    {"--identity.service_name", "hunter2\n", "control characters"},
	};

	write_file(MAIN_FILE, "");
	for (size_t i = 0; i < COUNT(bad); i++) {
		cr_expect_eq(LOAD(bad[i].argument, bad[i].value), STATUS_USAGE, "%s",
			     bad[i].argument);
		EXPECT_MESSAGE(bad[i].message);
		EXPECT_NO_MESSAGE("hunter2");
		cr_expect_eq(lines_of(messages), 1, "%s", messages);
	}
}

Test(config_sources, empty_variables_count_as_not_set)
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
	/* The variable for profiles is empty, so the generic one is used. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=",
				    "OTEL_EXPORTER_OTLP_ENDPOINT=https://generic\n"),
		     0);
	cr_assert_str_eq(config.endpoint, "https://generic");
	cr_assert_eq(load(NULL, NULL), 0);
}

Test(config_sources, boolean_variables_are_true_only_for_true)
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

	/* Every value but "true" is false, and overrides the file. */
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
	EXPECT_MESSAGE("OTEL_SDK_DISABLED: warning: ");
}

Test(config_sources, timeout_variables_are_milliseconds)
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
		EXPECT_MESSAGE("OTEL_EXPORTER_OTLP_TIMEOUT: warning: must be ");
		EXPECT_MESSAGE("; it is ignored\n");
		cr_expect_eq(lines_of(messages), 1);
	}
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_TIMEOUT=2500"), 0);
	cr_assert_eq(config.timeout_ns, 2500000000);
	cr_assert_str_empty(messages);
	/* 0 means no limit: the greatest value is used. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_TIMEOUT=0"), 0);
	cr_assert_eq(config.timeout_ns, 300000000000);
	/* An ignored variable counts as not set, so the generic one is used. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT=x",
				    "OTEL_EXPORTER_OTLP_TIMEOUT=3000"),
		     0);
	cr_assert_eq(config.timeout_ns, 3000000000);
}

Test(config_sources, wrong_words_in_variables_are_ignored)
{
	write_file(MAIN_FILE, "[export]\ncompression = gzip\n");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_COMPRESSION=zstd"), 0);
	cr_assert(config.gzip);
	EXPECT_MESSAGE(
	    "OTEL_EXPORTER_OTLP_COMPRESSION: warning: must be none or gzip; it is ignored\n");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_COMPRESSION=none"), 0);
	cr_assert_not(config.gzip);
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"), 0);
	EXPECT_MESSAGE("OTEL_EXPORTER_OTLP_PROTOCOL: warning: only grpc is supported");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
				    "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=grpc"),
		     0);
	cr_assert_str_empty(messages);
}

Test(config_sources, service_name_comes_from_the_attributes_if_it_is_not_set)
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
	/* The whole variable is ignored. */
	cr_assert_eq(LOAD_VARIABLES("OTEL_RESOURCE_ATTRIBUTES=x=y,service.name"), 0);
	cr_assert_str_empty(config.resource_attributes);
	EXPECT_MESSAGE(
	    "OTEL_RESOURCE_ATTRIBUTES: warning: pair 2: the = is missing; it is ignored\n");
}

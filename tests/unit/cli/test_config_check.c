/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cli/config_fixture.h"

TestSuite(config_check, .init = config_set_up, .fini = config_tear_down);

Test(config_check, secrets_are_never_shown)
{
	write_file(MAIN_FILE, "[export]\nheaders = authorization=hunter2\nendpoint = https://h\n");
	cr_assert_eq(LOAD("--dump"), -1);
	EXPECT_PRINTED("export.headers = (set) # main.conf:2\n");
	cr_expect(!strstr(output, "hunter2"));
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--dump", "--export.endpoint=https://h/?key=hunter2"), -1);
	EXPECT_PRINTED("export.endpoint = https://h/ # flag");
	cr_expect(!strstr(output, "hunter2"));
	EXPECT_NO_MESSAGE("hunter2");
	cr_assert_eq(LOAD_VARIABLES("OTEL_EXPORTER_OTLP_HEADERS=authorization=hunter2%"),
		     STATUS_USAGE);
	EXPECT_MESSAGE("OTEL_EXPORTER_OTLP_HEADERS: export.headers: pair 1: ");
	EXPECT_NO_MESSAGE("hunter2");
}

Test(config_check, readable_secrets_cause_a_warning)
{
	static const char secret[] = "[export]\nheaders = a=hunter2\nendpoint = https://h\n";

	write_file(MAIN_FILE, secret);
	cr_assert_eq(chmod(MAIN_FILE, 0644), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_eq(messages, MAIN_FILE ":2: warning: export.headers is secret, and everyone "
					     "may read this file; change its mode to 0600\n");
	cr_assert_eq(chmod(MAIN_FILE, 0640), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_empty(messages);
	write_file(MAIN_FILE, "[export]\nheaders =\nheaders_file = /x\nendpoint = https://h\n");
	cr_assert_eq(chmod(MAIN_FILE, 0644), 0);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_str_empty(messages);
}

Test(config_check, options_without_effect_cause_a_warning)
{
	write_file(MAIN_FILE, "[export]\nendpoint = http://h:4318/v1/profiles\nca_file = /ca\n"
			      "certificate_file = /c\nkey_file = /k\n");
	cr_assert_eq(load(no_environment, NULL), 0);
	EXPECT_MESSAGE(MAIN_FILE
		       ":2: warning: export.endpoint: the path after host and port is ignored");
	EXPECT_MESSAGE(MAIN_FILE ":2: warning: export.endpoint: port 4318 is usually OTLP/HTTP");
	EXPECT_MESSAGE(MAIN_FILE ":3: warning: export.ca_file is not used");
	EXPECT_MESSAGE(MAIN_FILE ":4: warning: export.certificate_file is not used");
	EXPECT_MESSAGE(MAIN_FILE ":2: warning: export.endpoint: without TLS, everybody");
	cr_assert_eq(lines_of(messages), 5, "%s", messages);
	cr_assert_eq(LOAD("--export.endpoint=https://h"), 0);
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--export.endpoint=h"), 0);
	cr_assert_str_empty(messages);
	cr_assert_eq(LOAD("--export.endpoint=h", "--export.insecure=true"), 0);
	cr_assert_eq(lines_of(messages), 3, "%s", messages);
}

Test(config_check, headers_are_not_sent_without_tls_unless_that_is_wanted)
{
	static const char *const both[] = {"headers = a=hunter2", "headers_file = /x"};

	for (size_t i = 0; i < COUNT(both); i++) {
		char text[128];

		/* The built-in endpoint has no TLS. */
		snprintf(text, sizeof(text), "[export]\n%s\n", both[i]);
		write_file(MAIN_FILE, text);
		cr_assert_eq(load(no_environment, NULL), STATUS_USAGE);
		EXPECT_MESSAGE(MAIN_FILE ":2: headers are usually secret");
		cr_assert_eq(LOAD("--export.endpoint=http://h"), STATUS_USAGE);
		cr_assert_eq(LOAD("--export.endpoint=h", "--export.insecure"), STATUS_USAGE);
		cr_assert_eq(LOAD("--export.plaintext_headers=yes"), 0);
		cr_assert_str_empty(messages);
		cr_assert_eq(LOAD("--export.endpoint=https://h"), 0);
		cr_assert_str_empty(messages);
	}
}

Test(config_check, plaintext_to_another_machine_causes_a_warning)
{
	static const char *const here[] = {"http://localhost", "http://127.1.2.3:1",
					   "http://[::1]:1", "https://h"};

	write_file(MAIN_FILE, "");
	for (size_t i = 0; i < COUNT(here); i++) {
		char flag[64];

		snprintf(flag, sizeof(flag), "--export.endpoint=%s", here[i]);
		cr_assert_eq(LOAD(flag), 0);
		cr_expect_str_empty(messages, "%s: %s", here[i], messages);
	}
	cr_assert_eq(LOAD("--export.endpoint=http://10.0.0.1"), 0);
	EXPECT_MESSAGE("warning: export.endpoint: without TLS, everybody");
}

Test(config_check, spool_limits_do_not_matter_without_a_directory)
{
	cr_assert_eq(LOAD_FILE("[spool]\nmax_bytes = 1MiB\ndirectory =\n"), 0, "%s", messages);
}

Test(config_check, check_opens_the_files_that_options_name)
{
	write_file(MAIN_FILE, "[export]\nendpoint = https://h\nca_file = ca\ncertificate_file = c\n"
			      "key_file = k\nheaders_file = h\n");
	/* Only --check opens the files. */
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_MESSAGE(MAIN_FILE ":3: export.ca_file: cannot be read: No such file");
	EXPECT_MESSAGE(MAIN_FILE ":4: export.certificate_file: cannot be read");
	EXPECT_MESSAGE(MAIN_FILE ":5: export.key_file: cannot be read");
	EXPECT_MESSAGE("h: cannot be read");
	write_file("ca", "");
	write_file("c", "");
	write_file("k", "");
	write_file("h", "a: b\nauthorization hunter2\n");
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_str_eq(messages, "h:2: the : is missing\n");
	write_file("h", "authorization: hunter2\n");
	cr_assert_eq(LOAD("--check"), -1);
	cr_assert_str_empty(messages);
	cr_assert_str_eq(output, "the configuration is valid\n");
	cr_assert_eq(chmod("h", 0644), 0);
	cr_assert_eq(LOAD("--check"), -1);
	cr_assert_str_eq(messages, "h: warning: headers are secret, and everyone may read this "
				   "file; change its mode to 0600\n");
}

Test(config_check, strict_memory_warns_if_environments_are_wanted)
{
	cr_assert_eq(LOAD_FILE("[runtimes]\nstrict_memory = yes\nenabled = none\n"), 0);
	cr_expect(config.strict_memory);
	cr_expect_eq(config.runtimes, 0);
	cr_expect_str_empty(messages);
	cr_assert_eq(LOAD_FILE("[runtimes]\nstrict_memory = yes\n"
			       "[identity]\nenvironment_variables = A\n"),
		     0);
	EXPECT_MESSAGE(MAIN_FILE ":2: warning: runtimes.strict_memory: ");
	cr_expect_eq(lines_of(messages), 1);
	cr_assert_eq(LOAD_FILE("[identity]\nenvironment_variables = A\n"), 0);
	cr_expect_str_empty(messages);
}

Test(config_check, sample_is_a_valid_configuration_of_the_defaults)
{
	static char text[OUTPUT_BYTES], dump[OUTPUT_BYTES];
	size_t used = 0;

	cr_assert_eq(LOAD("--sample"), -1);
	write_file(MAIN_FILE, output);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	cr_assert_eq(LOAD("--dump"), -1);
	memcpy(dump, output, sizeof(dump));
	/* The sample with every # before a key removed: only the source of each value changes. */
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

Test(config_check, help_lists_all_options_but_secrets)
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

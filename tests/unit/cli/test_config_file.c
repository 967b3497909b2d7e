/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cli/config_fixture.h"
#include "config/config_file.h"

TestSuite(config_file, .init = config_set_up, .fini = config_tear_down);

Test(config_file, spaces_comments_and_line_ends_are_accepted)
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

/* Texts with one fault each, and the line of the fault. */
static const struct {
	const char *text;
	unsigned int line;
	const char *message;
} wrong_files[] = {
    {"[agent]\nfreqency = 1\n", 2, "unknown key: agent.freqency; did you mean agent.frequency?"},
    {"[agent]\n\n# x\nmax_bytes = 1\n", 4, "did you mean spool.max_bytes?"},
    {"[agent]\nwhatever_it_is = 1\n", 2, "unknown key: agent.whatever_it_is\n"},
    {"[agent]\nFrequency = 30\n", 2, "unknown key in [agent]; did you mean agent.frequency?"},
    {"frequency = 1\n", 1, "the key has no [section] above it; did you mean agent.frequency?"},
    {"[exporter]\nendpoint = x\nfoo = bar\n", 1,
     "unknown section: [exporter]; did you mean [export]?"},
    {"[hunter2 ]\nendpoint = x\n", 1, "unknown section\n"},
    {"[]\nendpoint = x\n", 1, "unknown section\n"},
    {"[agent\nfrequency = 1000\n", 1, "a section must be [NAME]"},
    {"[agent] # x\nfrequency = 1000\n", 1, "a section must be [NAME]"},
    {"[agent]]\nfrequency = 1000\n", 1, "a section must be [NAME]"},
    {"[agent]\nfrequency\n", 2, "the line has no ="},
    {"[agent]\nfrequency: 30\n", 2, "the line has no ="},
    {"[agent]\nhunter2", 2, "the line has no ="},
    {"[agent]\n= hunter2\n", 2, "the line has no key"},
    {"[agent]\nfrequency = 30 # often\n", 2, "a comment must be on a line of its own"},
    {"[agent]\nfrequency = 30 ; often\n", 2, "a comment must be on a line of its own"},
    {"[agent]\nfrequency = ; 30\n", 2, "a comment must be on a line of its own"},
    {"[agent]\nfrequency = 1\nwatchdog = 3s\nfrequency = 2\n", 4,
     "agent.frequency was already given in line 2"},
    {"[agent]\nfrequency = 1\n[export]\n[agent]\nfrequency = 1\n", 5,
     "agent.frequency was already given in line 2"},
    {"[agent]\nfrequency = 0\n", 2, "agent.frequency: must be a whole number"},
    {"[agent]\nfrequency =\n", 2, "agent.frequency: must be a whole number"},
    {"[agent]\nfrequency = 30\n  40 =\n", 3, "unknown key: agent.40\n"},
    {"[export]\nheaders = authorization=hunter2,\n  aHVudGVyMg=\nendpoint = https://h\n", 3,
     "unknown key in [export]\n"},
    {"[export]\nheaders = authorization=hunter2%\n", 2, "export.headers: pair 1: "},
    {"[export]\nendpoint = http://x:hunter2@h\n", 2, "export.endpoint: "},
    {"[export]\nkey_file = /k\n", 2, "export.key_file needs"},
    {"[export]\ncertificate_file = /k\n", 2, "export.certificate_file needs"},
    {"[export]\nmax_request_bytes = 9MiB\n", 2, "spool.memory_max_bytes must not be less than"},
    {"[spool]\nmemory_max_bytes = 2MiB\n", 2, "spool.memory_max_bytes must not be less than"},
    {"[spool]\nmax_bytes = 2MiB\n", 2, "spool.max_bytes must not be less than"},
    {"[agent]\nfrequency = 3\x01\n", 2, "the line has a control character"},
    {"[agent]\nfrequency = 3\rwatchdog = 2s\n", 2, "the line has a control character"},
};

Test(config_file, each_fault_is_reported_with_its_line)
{
	char where[32];

	for (size_t i = 0; i < COUNT(wrong_files); i++) {
		memset(&config, 0x55, sizeof(config));
		cr_expect_eq(LOAD_FILE(wrong_files[i].text), STATUS_USAGE, "%s",
			     wrong_files[i].text);
		snprintf(where, sizeof(where), MAIN_FILE ":%u: ", wrong_files[i].line);
		cr_expect(!strncmp(messages, where, strlen(where)), "%s: %s", wrong_files[i].text,
			  messages);
		EXPECT_MESSAGE(wrong_files[i].message);
		EXPECT_NO_MESSAGE("hunter2");
		EXPECT_NO_MESSAGE("aHVud");
		cr_expect_eq(lines_of(messages), 1, "%s", messages);
		cr_expect_eq(config.endpoint[0], 0x55, "written to although it failed");
	}
}

Test(config_file, lines_with_nul_bytes_are_refused)
{
	static const char text[] = "[agent]\nfrequency = 30\0secret\n[export]\nkey\0 = x\n";

	write_bytes(MAIN_FILE, text, sizeof(text) - 1);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_str_eq(messages, MAIN_FILE ":2: the line has a NUL byte\n" MAIN_FILE
					     ":4: the line has a NUL byte\n");
}

Test(config_file, long_lines_are_never_split)
{
	static const char head[] = "[identity]\nservice_name = ok\nresource_attributes = a=";
	static char text[CONFIG_LIST_BYTES + 1024];
	const size_t start = sizeof(head) - 1;

	/* A value of exactly the length that the member holds. inih would cut it at 200 bytes. */
	memset(text, 'x', sizeof(text));
	memcpy(text, head, start);
	write_bytes(MAIN_FILE, text, start - 2 + CONFIG_LIST_BYTES - 1);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	cr_assert_eq(load(no_environment, NULL), 0);
	cr_assert_eq(strlen(config.resource_attributes), CONFIG_LIST_BYTES - 1);
	write_bytes(MAIN_FILE, text, start - 2 + CONFIG_LIST_BYTES);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_MESSAGE(MAIN_FILE ":3: identity.resource_attributes: is longer than 8191 bytes");
	/* A line above the maximum length: no part of it is taken for a line of its own. */
	memcpy(text + sizeof(text) - 14, "=\n[agent]\nx=1\n", 14);
	write_bytes(MAIN_FILE, text, sizeof(text));
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_MESSAGE(MAIN_FILE ":3: the line is longer than");
	EXPECT_MESSAGE(MAIN_FILE ":5: unknown key: agent.x\n");
	cr_assert_eq(lines_of(messages), 2, "%s", messages);
	/* A comment may have any length. */
	text[0] = '#';
	memset(text + 1, 'x', sizeof(text) - 2);
	text[sizeof(text) - 1] = '\n';
	write_bytes(MAIN_FILE, text, sizeof(text));
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
}

Test(config_file, files_and_messages_are_limited)
{
	char *text = malloc(CONFIG_FILE_BYTES + 1);

	cr_assert_not_null(text);
	memset(text, '\n', CONFIG_FILE_BYTES + 1);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES);
	cr_assert_eq(LOAD("--check"), -1, "%s", messages);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES + 1);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	EXPECT_MESSAGE(MAIN_FILE ": the file is longer than");
	/* The largest possible number of faults: not all of them are printed. */
	for (size_t i = 0; i < CONFIG_FILE_BYTES; i += 2)
		memcpy(text + i, "x\n", 2);
	write_bytes(MAIN_FILE, text, CONFIG_FILE_BYTES);
	cr_assert_eq(LOAD("--check"), STATUS_USAGE);
	cr_assert_eq(lines_of(messages), CONFIG_FAULTS_SHOWN + 1);
	EXPECT_MESSAGE("524238 more faults are not shown");
	free(text);
}

Test(config_file, all_faults_are_reported_at_once)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	write_file("conf.d/b.conf", "[agent]\nfrequency = 2000\n");
	write_file("conf.d/a.conf", "[spool]\nmax_age = never\n");
	write_file(MAIN_FILE, "[agent]\nfoo = 1\nfrequency = x\n[export]\nendpoint\n");
	cr_assert_eq(load((char *[]){"OTEL_EXPORTER_OTLP_ENDPOINT=a b", NULL}, "--check",
			  "--spool.compression_level=20", NULL),
		     STATUS_USAGE);
	const char *const message[] = {
	    MAIN_FILE ":2: unknown key: agent.foo\n",
	    MAIN_FILE ":3: agent.frequency: must be a whole number: 1 ... 997\n",
	    MAIN_FILE ":5: the line has no =\n",
	    "conf.d/a.conf:2: spool.max_age: must be a time with ms, s, m, h or d: 1m ... 30d\n",
	    "conf.d/b.conf:2: agent.frequency: must be a whole number: 1 ... 997\n",
	    "OTEL_EXPORTER_OTLP_ENDPOINT: export.endpoint: the host has a character that is not "
	    "allowed\n",
	    "--spool.compression_level: must be a whole number: 1 ... 19\n",
	};
	const char *at = messages;
	for (size_t i = 0; i < COUNT(message); i++) {
		cr_assert(!strncmp(at, message[i], strlen(message[i])), "%s", at);
		at += strlen(message[i]);
	}
	cr_assert_str_empty(at);
	cr_assert_str_empty(output);
	/* The same without --check. */
	cr_assert_eq(load(no_environment, NULL), STATUS_USAGE);
	cr_assert_eq(LOAD("--dump"), STATUS_USAGE);
	cr_assert_str_empty(output);
}

Test(config_file, fragments_apply_in_the_order_of_their_names)
{
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	cr_assert_eq(mkdir("conf.d/50.conf", 0700), 0);
	cr_assert_eq(mkfifo("conf.d/60.conf", 0600), 0);
	write_file(MAIN_FILE, "[agent]\nfrequency = 1\n");
	write_file("conf.d/10.conf", "[agent]\nfrequency = 10\nprobability = 10\n");
	write_file("conf.d/9.conf", "[agent]\nfrequency = 9\n");
	write_file("conf.d/B.conf", "[agent]\nwatchdog = 3s\n");
	write_file("conf.d/a.conf", "[agent]\nwatchdog = 4s\n");
	/* None of these files is read. */
	write_file("conf.d/99.conf.rpmsave", "wrong");
	write_file("conf.d/99.conf~", "wrong");
	write_file("conf.d/.99.conf", "wrong");
	write_file("conf.d/.conf", "wrong");
	write_file("conf.d/README", "wrong");
	write_file("target", "[spool]\ncompression_level = 7\n");
	/* A symbolic link, as Kubernetes mounts files. */
	cr_assert_eq(symlink("../target", "conf.d/70.conf"), 0);
	cr_assert_eq(load(no_environment, NULL), 0, "%s", messages);
	cr_assert_str_empty(messages);
	cr_assert_eq(config.frequency_hz, 9);
	cr_assert_eq(config.probability_percent, 10);
	cr_assert_eq(config.watchdog_ns, 4000000000);
	cr_assert_eq(config.spool_compression_level, 7);
	cr_assert_eq(unlink("target"), 0);
	cr_assert_eq(load(no_environment, NULL), STATUS_USAGE);
	EXPECT_MESSAGE("conf.d/70.conf: cannot be read: No such file or directory\n");
}

Test(config_file, only_the_default_file_may_be_missing)
{
	char reason[] = "absent/main.conf: cannot be read: No such file or directory\n";
	char *argv[] = {"run", "--config", "absent/main.conf", "--check"};

	cr_assert_eq(load_with(no_environment, 4, argv), STATUS_USAGE);
	cr_assert_str_eq(messages, reason);
	argv[2] = ".";
	cr_assert_eq(load_with(no_environment, 4, argv), STATUS_USAGE);
	EXPECT_MESSAGE(".: cannot be read: Is a directory\n");
	/* The default file may be missing. The files in conf.d are read nevertheless. */
	struct config_state *l = calloc(1, sizeof(*l));
	cr_assert_not_null(l);
	cr_assert_eq(mkdir("conf.d", 0700), 0);
	write_file("conf.d/1.conf", "[agent]\nfrequency = 5\n");
	config_files_apply(l, "bulkhead.conf", false);
	cr_assert_eq(l->faults, 0);
	cr_assert_eq(l->config.frequency_hz, 5);
	free(l->paths[0]);
	free(l);
}

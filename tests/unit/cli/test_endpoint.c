/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "config/endpoint.h"

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

Test(endpoint, scheme_host_and_port_are_parsed)
{
	static const struct {
		const char *text;
		bool insecure;
		const char *target;
		uint16_t port;
		bool tls, path_ignored;
	} good[] = {
	    {"http://localhost:4317", false, "localhost:4317", 4317, false, false},
	    {"https://localhost:4317", true, "localhost:4317", 4317, true, false},
	    {"http://collector", false, "collector:4317", 4317, false, false},
	    {"https://collector.example.com", false, "collector.example.com:4317", 4317, true,
	     false},
	    {"HTTPS://Collector:443", false, "Collector:443", 443, true, false},
	    {"collector", false, "collector:4317", 4317, true, false},
	    {"collector", true, "collector:4317", 4317, false, false},
	    {"collector:1", true, "collector:1", 1, false, false},
	    {"collector:65535", false, "collector:65535", 65535, true, false},
	    {"my_service.namespace.svc.:04317", true, "my_service.namespace.svc.:4317", 4317, false,
	     false},
	    {"dns:///collector:9", true, "collector:9", 9, false, false},
	    {"127.0.0.1", true, "127.0.0.1:4317", 4317, false, false},
	    {"http://10.0.0.1:80/", false, "10.0.0.1:80", 80, false, false},
	    {"http://[::1]", false, "[::1]:4317", 4317, false, false},
	    {"https://[2001:db8::1]:443", false, "[2001:db8::1]:443", 443, true, false},
	    {"[fe80::1]:5", true, "[fe80::1]:5", 5, false, false},
	    {"http://h/", false, "h:4317", 4317, false, false},
	    {"http://h/v1development/profiles", false, "h:4317", 4317, false, true},
	    {"http://h:1?key=secret", false, "h:1", 1, false, true},
	    {"http://h:1#x", false, "h:1", 1, false, true},
	    {"h/a://b@c", false, "h:4317", 4317, true, true},
	    {"http://h//", false, "h:4317", 4317, false, true},
	    {"http://LOCALHOST.", false, "LOCALHOST.:4317", 4317, false, false},
	    {"http://128.0.0.1", false, "128.0.0.1:4317", 4317, false, false},
	};

	for (size_t i = 0; i < COUNT(good); i++) {
		struct endpoint e;

		memset(&e, 0xff, sizeof(e));
		cr_assert_null(endpoint_parse(good[i].text, good[i].insecure, &e), "%s",
			       good[i].text);
		cr_expect_str_eq(e.target, good[i].target);
		cr_expect_eq(e.port, good[i].port, "%s", good[i].text);
		cr_expect_eq(e.tls, good[i].tls, "%s", good[i].text);
		cr_expect_eq(e.path_ignored, good[i].path_ignored, "%s", good[i].text);
		cr_expect_eq(e.loopback,
			     strcasestr(e.target, "localhost") || strstr(e.target, "127.") ||
				 strstr(e.target, "[::1]"),
			     "%s", good[i].text);
	}
}

static const char *const wrong_endpoints[] = {
    "",
    "http://",
    "https:///path",
    "http://:4317",
    "http:host",
    "http:/host",
    "://host",
    "grpc://host:1",
    "ftp://host",
    "ipv4://1.2.3.4",
    "unix:",
    "unix:x",
    "unix:./x",
    "UNIX:x",
    "unix://host/x",
    "unix:////x",
    "unix:/run/\n",
    "unix-abstract:x",
    "http://user:secret@host",
    "user@host:1",
    "host:",
    "host:0",
    "host:65536",
    "host:-1",
    "host:+1",
    "host: 1",
    "host:1x",
    "host:000001",
    "host:99999999999999999999",
    "ho st",
    " host",
    "host ",
    "ho\tst",
    "h\xc3\xb6st",
    "h%20st",
    "host\\x",
    ".host",
    "-host",
    "a..b",
    "256.1.1.1",
    "1.2.3",
    "4317",
    "::1",
    "::1:4317",
    "fe80::1:4317",
    "[::1",
    "[::1]x",
    "[::1]:",
    "[::1]:0",
    "[]",
    "[::1%eth0]",
    "[1.2.3.4]",
    "[host]:1",
    "a,b:1",
};

Test(endpoint, wrong_endpoints_are_refused)
{

	for (size_t i = 0; i < COUNT(wrong_endpoints); i++) {
		struct endpoint e = {.target = "untouched", .port = 77};
		const char *fault = endpoint_parse(wrong_endpoints[i], true, &e);

		cr_expect_not_null(fault, "'%s'", wrong_endpoints[i]);
		cr_expect(!fault || !strstr(fault, "secret"));
		cr_expect_str_eq(e.target, "untouched");
		cr_expect_eq(e.port, 77);
	}
}

Test(endpoint, messages_name_the_supported_form)
{
	struct endpoint e;

	cr_assert(strstr(endpoint_parse("http://user:secret@host", true, &e), "use headers"));
	cr_assert(strstr(endpoint_parse("unix:x", true, &e), "unix:///run/otel.sock"));
	cr_assert(strstr(endpoint_parse("unix-abstract:x", true, &e), "abstract Unix sockets"));
	cr_assert(strstr(endpoint_parse("::1", true, &e), "needs brackets"));
	cr_assert(strstr(endpoint_parse("grpc://h", true, &e), "must be http or https"));
}

Test(endpoint, unix_sockets_have_a_path)
{
	static const char *const texts[] = {"unix:///run/a b?#.sock", "unix:/run/a b?#.sock",
					    "UNIX:/run/a b?#.sock"};
	struct endpoint e;
	char text[128] = "unix:/";

	for (size_t i = 0; i < COUNT(texts); i++) {
		memset(&e, 0xff, sizeof(e));
		cr_assert_null(endpoint_parse(texts[i], false, &e), "%s", texts[i]);
		cr_expect_str_eq(e.target, "unix:/run/a b?#.sock");
		cr_expect_str_eq(endpoint_local_path(e.target), "/run/a b?#.sock");
		cr_expect(e.local && e.loopback && !e.tls && !e.path_ignored);
		cr_expect_eq(e.port, 0);
	}
	cr_expect_null(endpoint_local_path("localhost:4317"));
	cr_assert_null(endpoint_parse("http://unix", false, &e));
	cr_expect_str_eq(e.target, "unix:4317");
	cr_expect_null(endpoint_local_path(e.target), "a host with this name is no socket");
	/* What fits into an address of the kernel with its NUL, and one character more. */
	memset(text + 6, 'a', 106);
	text[6 + 106] = 0;
	cr_expect_null(endpoint_parse(text, false, &e));
	text[6 + 106] = 'a';
	text[6 + 107] = 0;
	cr_expect_not_null(endpoint_parse(text, false, &e));
}

Test(endpoint, hosts_are_limited_in_length)
{
	struct endpoint e;
	char text[600];

	/* A label of 63 characters, then of 64. */
	memset(text, 'a', sizeof(text));
	text[63] = 0;
	cr_assert_null(endpoint_parse(text, true, &e));
	text[63] = 'a';
	text[64] = 0;
	cr_assert_not_null(endpoint_parse(text, true, &e));
	/* A name of 253 characters, then of 254, with the longest port. */
	for (size_t i = 63; i < sizeof(text); i += 64)
		text[i] = '.';
	memcpy(text + 64, "aaaaaaaa", 8);
	memcpy(text + 253, ":65535", 7);
	cr_assert_null(endpoint_parse(text, true, &e));
	cr_assert_str_eq(e.target, text);
	text[253] = 'a';
	memcpy(text + 254, ":65535", 7);
	cr_assert_str_eq(endpoint_parse(text, true, &e), "the host is too long");
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	cr_assert_not_null(endpoint_parse(text, true, &e));
}

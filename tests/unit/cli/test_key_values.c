/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/key_values.h"

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static struct key_values list;
static char reason[KEY_VALUES_REASON_BYTES];
static char path[] = "/tmp/bulkhead-headers-XXXXXX";

static const char *parse(enum key_values_kind kind, const char *text)
{
	memset(&list, 0, sizeof(list));
	return key_values_parse(kind, text, &list, reason);
}

static const char *headers(const char *text)
{
	return parse(KEY_VALUES_HEADERS, text);
}

static const char *attributes(const char *text)
{
	return parse(KEY_VALUES_ATTRIBUTES, text);
}

#define EXPECT_VALUE(key, value)                                                                   \
	do {                                                                                       \
		const char *_found = key_values_get(&list, (key));                                 \
		cr_assert_not_null(_found, "%s", (key));                                           \
		cr_expect_str_eq(_found, (value));                                                 \
	} while (0)

Test(key_values, lists_of_headers_are_parsed)
{
	cr_assert_null(headers(""));
	cr_assert_eq(list.count, 0);
	cr_assert_null(headers("a=b"));
	cr_assert_eq(list.count, 1);
	cr_assert_str_eq(key_values_key(&list, 0), "a");
	cr_assert_str_eq(key_values_value(&list, 0), "b");
	cr_assert_null(headers(" Authorization = Bearer%20x%2Cy%3d , ,X-Scope-OrgID=t=1=,e=,"));
	cr_assert_eq(list.count, 3);
	EXPECT_VALUE("authorization", "Bearer x,y=");
	EXPECT_VALUE("x-scope-orgid", "t=1=");
	EXPECT_VALUE("e", "");
	cr_assert_null(key_values_get(&list, "Authorization"));
	/* Values that are not encoded, as many SDKs write them. */
	cr_assert_null(headers("authorization=Basic dXNlcjpwYXNz==,cookie=a;b"));
	EXPECT_VALUE("authorization", "Basic dXNlcjpwYXNz==");
	EXPECT_VALUE("cookie", "a;b");
	/* A plus sign does not stand for a space. */
	cr_assert_null(headers("a=1+2"));
	EXPECT_VALUE("a", "1+2");
}

Test(key_values, the_last_value_of_a_name_counts)
{
	cr_assert_null(headers("a=1,b=2,A=3"));
	cr_assert_eq(list.count, 2);
	EXPECT_VALUE("a", "3");
	cr_assert_null(key_values_parse(KEY_VALUES_HEADERS, "b=4,c=5", &list, reason));
	cr_assert_eq(list.count, 3);
	EXPECT_VALUE("b", "4");
}

Test(key_values, attributes_may_be_utf8)
{
	cr_assert_null(
	    attributes("service.name=my%20shop,Deployment.Environment=pr\xc3\xb6%64,k%3D=%2C"));
	EXPECT_VALUE("service.name", "my shop");
	EXPECT_VALUE("Deployment.Environment", "pr\xc3\xb6\x64");
	EXPECT_VALUE("k=", ",");
	cr_assert_null(attributes("name=%E2%82%AC"));
	EXPECT_VALUE("name", "\xe2\x82\xac");
}

Test(key_values, wrong_pairs_are_refused_by_position)
{
	static const char *const headers_only[] = {
	    "s\xc3\xb6=secret",	   "a=secret\xc3\xb6", "a b=secret",   "a:=secret",
	    ":a=secret",	   "a%20b=secret",     "x-bin=secret", "-bin=secret",
	    "grpc-timeout=secret", "GRPC-x=secret",    "te=secret",    "Content-Type=secret",
	    "user-agent=secret",   "host=secret",
	};
	static const char *const both[] = {
	    "secret",
	    "a=1,secret",
	    "=secret",
	    "%20%=secret",
	    "a=secret%",
	    "a=secret%2",
	    "a=secret%zz",
	    "a=secret%%41",
	    "a=secret%00",
	    "a=secret%0a",
	    "a=secret%0D%0Ax: y",
	    "a=secret%7f",
	    "a=secret\x01",
	    "a=secret%80",
	    "a=secret%c0%80",
	    "a=secret%e0%80%80",
	    "a=secret%f0%80%80%80",
	    "a=secret%f5%80%80%80",
	    "a=secret%ed%a0%80",
	    "a=secret%f4%90%80%80",
	    "a=secret%e2%82",
	};

	for (size_t i = 0; i < COUNT(both) + COUNT(headers_only); i++) {
		const char *text = i < COUNT(both) ? both[i] : headers_only[i - COUNT(both)];
		const char *fault = headers(text);

		cr_assert_not_null(fault, "'%s'", text);
		cr_expect(strstr(fault, "pair "), "%s", fault);
		cr_expect(!strstr(fault, "secret"), "%s", fault);
		if (i >= COUNT(both))
			continue;
		fault = attributes(text);
		cr_assert_not_null(fault, "'%s'", text);
		cr_expect(!strstr(fault, "secret"), "%s", fault);
	}
	cr_assert_str_eq(headers("a=1,,b"), "pair 3: the = is missing");
}

Test(key_values, count_and_size_are_limited)
{
	char text[KEY_VALUES_BYTES + 16];
	size_t used = 0;

	for (unsigned int i = 0; i <= KEY_VALUES_MAX; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "k%u=v,", i);
		cr_expect_eq(!headers(text), i < KEY_VALUES_HEADERS_MAX, "%u", i);
		cr_expect_eq(!attributes(text), i < KEY_VALUES_MAX, "%u", i);
	}
	/* The list is full: another value for one of its names is still possible. */
	*strrchr(text, 'k') = 0;
	memcpy(text + strlen(text), "k3=w", 5);
	cr_assert_null(attributes(text));
	EXPECT_VALUE("k3", "w");

	memset(text, 'x', sizeof(text));
	text[1] = '=';
	text[KEY_VALUES_BYTES] = 0;
	cr_assert_not_null(attributes(text));
	text[KEY_VALUES_BYTES - 1] = 0;
	cr_assert_null(attributes(text));
	cr_assert_eq(list.used, KEY_VALUES_BYTES);
	cr_assert_not_null(key_values_parse(KEY_VALUES_ATTRIBUTES, "b=c", &list, reason));
	memset(text, ',', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	cr_assert_not_null(attributes(text));
}

Test(key_values, secrets_are_wiped)
{
	cr_assert_null(headers("a=secret"));
	key_values_fini(&list);
	cr_assert_null(memmem(&list, sizeof(list), "secret", 6));
	cr_assert_eq(list.count, 0);
}

/* ---- files ---- */

static unsigned int line;
static bool exposed;

static void remove_file(void)
{
	unlink(path);
}

TestSuite(headers_file, .fini = remove_file);

static const char *read_file(const char *text, size_t length)
{
	int fd = *path && strstr(path, "XXXXXX") ? mkstemp(path) : creat(path, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, length), (ssize_t)length);
	close(fd);
	memset(&list, 0, sizeof(list));
	return key_values_read_headers(path, &list, &line, &exposed, reason);
}

#define READ(text) read_file(text, sizeof(text) - 1)

Test(headers_file, spaces_and_comments_are_skipped)
{
	cr_assert_null(READ(""));
	cr_assert_eq(list.count, 0);
	cr_assert_null(READ("\xef\xbb\xbf# comment\r\n\r\n  Authorization :  Bearer a%20b: c  \r\n"
			    "\t# another\nx-empty:\nlast: #1"));
	cr_assert_eq(list.count, 3);
	EXPECT_VALUE("authorization", "Bearer a%20b: c");
	EXPECT_VALUE("x-empty", "");
	EXPECT_VALUE("last", "#1");
	cr_assert_not(exposed);
}

Test(headers_file, wrong_pairs_are_refused_by_position)
{
	static const struct {
		const char *text;
		size_t length;
		unsigned int line;
	} bad[] = {
#define BAD(text, line) {text, sizeof(text) - 1, line}
	    BAD("secret", 1),
	    BAD("a: b\n\n# x\nsecret\n", 4),
	    BAD("a: secret\nb: secret\nA: secret\n", 3),
	    BAD(": secret\n", 1),
	    BAD("a b: secret\n", 1),
	    BAD("x: 1\nx-bin: secret\n", 2),
	    BAD("grpc-x: secret\n", 1),
	    BAD("a: secret\0more\n", 1),
	    BAD("a: 1\nb: secret\x1b[0m\n", 2),
	    BAD("a: secret\xc3\xb6\n", 1),
	    BAD("a: secret\rb: c\n", 1),
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *fault = read_file(bad[i].text, bad[i].length);

		cr_assert_not_null(fault, "%zu", i);
		cr_expect_eq(line, bad[i].line, "%zu: line %u", i, line);
		cr_expect(!strstr(fault, "secret"), "%s", fault);
	}
}

Test(headers_file, count_and_size_are_limited)
{
	static char text[KEY_VALUES_FILE_BYTES + 1];
	size_t used = 0;

	for (unsigned int i = 0; i <= KEY_VALUES_HEADERS_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "k%u: v\n", i);
	cr_assert_not_null(read_file(text, used));
	cr_assert_eq(line, KEY_VALUES_HEADERS_MAX + 1);
	memset(text, '#', sizeof(text));
	cr_assert_null(read_file(text, KEY_VALUES_FILE_BYTES));
	cr_assert_not_null(read_file(text, sizeof(text)));
	cr_assert_eq(line, 0);
}

Test(headers_file, a_file_adds_to_a_list)
{
	cr_assert_null(READ("a: 1\nb: 2\n"));
	cr_assert_null(key_values_read_headers(path, &list, &line, &exposed, reason));
	cr_assert_eq(list.count, 2);
	cr_assert_null(key_values_parse(KEY_VALUES_HEADERS, "b=3", &list, reason));
	EXPECT_VALUE("b", "3");
}

Test(headers_file, files_that_others_may_read_are_reported)
{
	cr_assert_null(READ("a: 1\n"));
	cr_assert_eq(chmod(path, 0640), 0);
	cr_assert_null(key_values_read_headers(path, &list, &line, &exposed, reason));
	cr_assert_not(exposed);
	cr_assert_eq(chmod(path, 0604), 0);
	cr_assert_null(key_values_read_headers(path, &list, &line, &exposed, reason));
	cr_assert(exposed);
}

Test(headers_file, a_missing_file_is_reported)
{
	cr_assert_not_null(
	    key_values_read_headers("/nonexistent/file", &list, &line, &exposed, reason));
	cr_assert_eq(line, 0);
	cr_assert_not_null(key_values_read_headers("/", &list, &line, &exposed, reason));
}

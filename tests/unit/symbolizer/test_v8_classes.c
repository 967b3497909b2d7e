/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which class a method is found to belong to, by its place in the source. */
#include "symbolizer/runtime/v8_classes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"

static int read_source(const char *source, size_t length, struct v8_methods *methods)
{
	struct v8_classes *classes = v8_classes_new();

	cr_assert_not_null(classes);
	for (size_t i = 0; i < length; i++)
		v8_classes_read(classes, (unsigned char)source[i]);
	int r = v8_classes_end(classes, methods);
	v8_classes_free(classes);
	return r;
}

/* Writes the class of the method whose parameters are "(@)" in the source, or "-". */
static void class_of(const char *source, char *text, size_t size)
{
	const char *at = strstr(source, "(@)");
	struct v8_methods methods = {0};
	struct v8_span name;

	cr_assert_not_null(at, "%s", source);
	int r = read_source(source, strlen(source), &methods);
	if (r < 0)
		snprintf(text, size, "refused");
	else if (v8_methods_find(&methods, (uint32_t)(at - source), &name))
		snprintf(text, size, "%.*s", (int)name.length, source + name.start);
	else
		snprintf(text, size, "-");
	free(methods.methods);
}

static const struct {
	const char *source, *class_name;
} cases[] = {
    {"class A { m(@) {} }", "A"},
    {"class A{static async*m(@){}}", "A"},
    {"class A { get x(@) { return 1; } }", "A"},
    {"class A { #p(@) {} }", "A"},
    {"class A { [a + (b)](@) {} }", "A"},
    {"class A { 'a }'(@) {} }", "A"},
    {"class A extends B { m(@) {} }", "A"},
    {"class A extends b.c(class { n() {} }, {}) { m(@) {} }", "A"},
    {"class extends B { m(@) {} }", "-"},
    {"const A = class { m(@) {} }", "A"},
    {"const A = class B { m(@) {} }", "B"},
    {"const A = class extends B { m(@) {} }", "A"},
    {"exports.a.A = class { m(@) {} }", "exports.a.A"},
    {"a[0].A = class { m(@) {} }", "-"},
    {"a() .A = class { m(@) {} }", "-"},
    {"this.A = class { m(@) {} }", "-"},
    {"a == class { m(@) {} }", "-"},
    {"A => class { m(@) {} }", "-"},
    {"f(class { m(@) {} })", "-"},
    {"x = { class: 1, m(@) {} }", "-"},
    {"x = { class(a) {}, m(@) {} }", "-"},
    {"x.class; class A { class() {} m(@) {} }", "A"},
    {"class A { m() { return { n(@) {} }; } }", "-"},
    {"class A { m() { class B { n(@) {} } } }", "B"},
    {"class A { m() { class B { n() {} } } o(@) {} }", "A"},
    {"class A { x = class { n() {} }; o(@) {} }", "A"},
    {"class A { static { f(); } o(@) {} }", "A"},
    {"class A { x = () => { f(); }; o(@) {} }", "A"},
    {"class A { x = `}${ {a: `${1}}`} }}`; o(@) {} }", "A"},
    {"class A { x = \"}\\\"\\\n}\"; y = '\\\r\n'; o(@) {} }", "A"},
    {"class A { /* } * */ // }\n m(@) {} }", "A"},
    {"class A { x = /}/; m(@) {} }", "A"},
    {"class A { x = /[/}]\\/}/g.test(1); m(@) {} }", "A"},
    {"class A { m() { if (a) /}/.test(b); } n(@) {} }", "A"},
    {"class A { m() { return /}/; } n(@) {} }", "A"},
    {"class A { m() { (a) / 2; b[0] / 2; c++ / 2; x.if / 2; } n(@) {} } // '/", "A"},
    {"class A { m() { {} /}/.test(a); } n(@) {} }", "A"},
    {"class A { m() { f(); {} /}/.test(a); } n(@) {} }", "A"},
    {"class A { m() { c++ / 2; } n(@) {} }", "A"},
    {"class A {} x = { m(@) {} }", "-"},
    {"class A { m() { x = {} / 2; y = 1 / 2; } n(@) {} }", "A"},
    {"class A { m() { [.../}/.exec(a)]; } n(@) {} }", "A"},
    {"#!/it's\nclass A { m(@) {} }", "A"},
    {"class A { m(@) {} ", "refused"},
    {"class A { m(@) {} } }", "refused"},
    {"class A { m(@) {} ]", "refused"},
    {"class A { m(@) {} } '", "refused"},
    {"class A { m(@) {} } 'a\n'", "refused"},
    {"class A { m(@) {} } `a", "refused"},
    {"class A { m(@) {} } /a\n/", "refused"},
    {"class A { m(@) {} } /* ", "refused"},
    {"class A extends class {} { m(@) {} }", "refused"},
};

Test(v8_classes, methods)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		class_of(cases[i].source, text, sizeof(text));
		cr_expect_str_eq(text, cases[i].class_name, "%s: %s, not %s", cases[i].source, text,
				 cases[i].class_name);
	}
}

/* No prefix of a source, and no source with one character replaced, makes it read beyond its
 * arrays, which the sanitizers would find. */
Test(v8_classes, any_characters)
{
	static const char characters[] = "(){}[]/'\"`$\\=.+a*\n";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char source[128];
		const size_t length = strlen(cases[i].source);

		for (size_t at = 0; at < length; at++) {
			for (size_t k = 0; k < sizeof(characters); k++) {
				struct v8_methods methods = {0};

				memcpy(source, cases[i].source, length);
				source[at] = characters[k];
				read_source(source, length, &methods);
				free(methods.methods);
			}
		}
	}
}

Test(v8_classes, limits)
{
	const size_t length = V8_METHODS_MAX + 16;
	struct v8_methods methods = {0};
	char *source = malloc(2 * length);

	cr_assert_not_null(source);
	memset(source, '(', length);
	cr_expect_eq(read_source(source, length, &methods), -EINVAL, "brackets");
	memset(source, ')', length);
	cr_expect_eq(read_source(source, length, &methods), -EINVAL, "closed");
	memcpy(source, "class A {", 9);
	for (size_t i = 9; i + 2 < 2 * length; i += 2)
		memcpy(source + i, "()", 2);
	cr_expect_eq(read_source(source, 2 * length - 1, &methods), -EINVAL, "methods");
	free(source);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples are kept, by the labels that they must have. */
#include "exporter/model/label_filter.h"

#include "tests/unit/exporter/sinks_fixture.h"

TestSuite(label_filter, .init = setup, .fini = teardown);

/* Adds `count` samples with up to two labels. */
static void add_labelled(uint64_t count, const char *key, const char *value, const char *other_key,
			 const char *other_value)
{
	const uint32_t main_thread = thread(1, 1, "program", "program");
	const uint32_t leaf = frame("native", "/bin/program", "work", 0x10);
	uint32_t labels[2], label_count = 0, set = 0, stack, labelled;

	if (key)
		cr_assert_eq(
		    profile_label(&p, key, strlen(key), string(value), &labels[label_count++]), 0);
	if (other_key)
		cr_assert_eq(profile_label(&p, other_key, strlen(other_key), string(other_value),
					   &labels[label_count++]),
			     0);
	if (label_count)
		cr_assert_eq(profile_label_set(&p, labels, label_count, &set), 0);
	cr_assert_eq(profile_stack(&p, &leaf, 1, &stack), 0);
	cr_assert_eq(profile_labelled_stack(&p, stack, set, &labelled), 0);
	cr_assert_eq(profile_add(&p, main_thread, labelled, count), 0);
}

static void fill(void)
{
	add_labelled(1, NULL, NULL, NULL, NULL);
	add_labelled(2, "request", "checkout", NULL, NULL);
	add_labelled(4, "request", "search", "tenant", "a=b");
	add_labelled(8, "request", "checkout", "tenant", "c");
	add_labelled(16, "requests", "checkout", NULL, NULL);
	add_labelled(32, "", "checkout", NULL, NULL);
}

static void expect_kept(uint64_t expected, const char *first, const char *second)
{
	char *filters[] = {(char *)first, (char *)second};
	uint64_t sum = 0;

	teardown();
	setup();
	fill();
	cr_assert_eq(label_filter_apply(&p, filters, second ? 2 : 1), 0);
	cr_expect_eq(p.sample_count, expected, "%s: %lu", first, (unsigned long)p.sample_count);
	for (uint32_t i = 0; i < p.samples_count; i++)
		sum += p.samples[i].count;
	cr_expect_eq(sum, expected);
}

Test(label_filter, keeps_what_has_all_labels)
{
	expect_kept(2 + 8, "request=checkout", NULL);
	expect_kept(2 + 4 + 8, "request", NULL);
	expect_kept(4 + 8, "tenant", NULL);
	expect_kept(8, "request=checkout", "tenant");
	expect_kept(4, "tenant=a=b", "request=search");
	expect_kept(16, "requests=checkout", NULL);
	expect_kept(0, "request=check", NULL);
	expect_kept(0, "request=checkouts", NULL);
	expect_kept(0, "request=", NULL);
	expect_kept(0, "tenant=c", "request=search");
	expect_kept(0, "nothing", NULL);
}

/* What is left is a whole profile. */
Test(label_filter, leaves_a_profile_that_can_be_written)
{
	static const char *const formats[] = {"html",	    "folded", "pprof",
					      "speedscope", "otlp",   "tree"};
	char *none = "nothing", *one = "request=search";

	fill();
	cr_assert_eq(label_filter_apply(&p, &one, 1), 0);
	for (unsigned int i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t length;
		char *text = render(formats[i], &length);

		cr_expect_gt(length, 0, "%s", formats[i]);
		if (!strcmp(formats[i], "folded"))
			cr_expect_str_eq(text, "program;work 4\n");
		free(text);
	}
	cr_assert_eq(label_filter_apply(&p, &none, 1), 0);
	cr_expect_eq(p.samples_count, 0);
}

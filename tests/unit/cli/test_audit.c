/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers and comparisons of `bulkhead audit`. tests/e2e/test_audit.py tries them on real
 * roles. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/audit_files.h"
#include "cli/audit_judge.h"
#include "cli/audit_process.h"
#include "cli/audit_report.h"
#include "loader/policy.h"

#define STATUS(uid, groups, caps, filters)                                                         \
	"Name:\tx\\nUid:\t0\t0\t0\t0\nUmask:\t0022\nPPid:\t41\nTracerPid:\t0\nUid:\t" uid          \
	"\nGid:\t61184\t61184\t61184\t61184\nFDSize:\t64\nGroups:\t" groups                        \
	" \nCapInh:\t0000000000000000\nCapPrm:\t" caps "\nCapEff:\t" caps                          \
	"\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:"         \
	"\t2\n" filters

#define UIDS "61184\t61184\t61184\t61184"
#define LOADER_CAPS "000000c000000000" /* CAP_PERFMON and CAP_BPF */
#define FILTERS "Seccomp_filters:\t1\n"

static const struct audit_subject subject = {.name = "loader", .pid = 42};
static struct audit_report report;
static struct audit_process supervisor, role;
static const struct audit_expectation expected = {
    .role = ROLE_LOADER, .policy = &loader_policy, .supervisor = &supervisor};

static void fini(void)
{
	audit_report_fini(&report);
}

TestSuite(audit, .fini = fini);

/* The only result that is no agreement. */
static const struct audit_result *difference(void)
{
	const struct audit_result *found = NULL;

	for (size_t i = 0; i < report.count; i++) {
		if (report.results[i].status == AUDIT_OK)
			continue;
		cr_expect_null(found, "%s", report.results[i].found);
		found = &report.results[i];
	}
	return found;
}

static void expect_difference(const char *property, const char *found)
{
	const struct audit_result *result = difference();

	cr_assert_not_null(result, "%s", property);
	cr_expect_str_eq(result->property, property);
	cr_expect_str_eq(result->found, found);
	cr_expect_eq(result->status, AUDIT_DIFFERENCE);
	audit_report_fini(&report);
}

static void judge_status(const char *text)
{
	cr_assert_eq(audit_credentials_parse(text, &role.credentials), 0);
	audit_judge_credentials(&report, &subject, &role.credentials, &expected);
}

Test(audit, credentials_are_read)
{
	struct audit_credentials c;

	cr_assert_eq(audit_credentials_parse(STATUS("1\t2\t3\t4", "5 6", "ff", FILTERS), &c), 0);
	cr_expect_eq(c.parent, 41);
	cr_expect_eq(c.uids[0], 1);
	cr_expect_eq(c.uids[3], 4);
	cr_expect_str_eq(c.groups, "5 6");
	cr_expect_eq(c.capabilities[AUDIT_EFFECTIVE], 0xff);
	cr_expect_eq(c.seccomp_filters, 1);
}

Test(audit, malformed_credentials_are_refused)
{
	static const char *const texts[] = {
	    "",
	    "Uid:\n",
	    STATUS("1\t2\t3", "", "0", FILTERS),
	    STATUS("1\t2\t3\t-4", "", "0", FILTERS),
	    STATUS("1\t2\t3\t4294967296", "", "0", FILTERS),
	    STATUS(UIDS, "", "0x", FILTERS),
	    STATUS(UIDS, "", "", FILTERS),
	    STATUS(UIDS, "", "10000000000000000", FILTERS),
	};
	struct audit_credentials c = {.parent = 7};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(audit_credentials_parse(texts[i], &c), -EBADMSG, "%zu", i);
	cr_expect_eq(c.parent, 7);
}

Test(audit, each_credential_is_compared)
{
	judge_status(STATUS(UIDS, "", LOADER_CAPS, FILTERS));
	cr_expect_null(difference());
	audit_report_fini(&report);
	judge_status(STATUS("61184\t61184\t61184\t0", "", LOADER_CAPS, FILTERS));
	expect_difference("uids", "61184 61184 61184 0");
	judge_status(STATUS(UIDS, "4", LOADER_CAPS, FILTERS));
	expect_difference("groups", "4");
	judge_status(STATUS(UIDS, "", LOADER_CAPS, "Seccomp_filters:\t3\n"));
	expect_difference("seccomp", "mode 2, filters: 3");
	/* Before Linux 5.9 the number is not reported. */
	judge_status(STATUS(UIDS, "", LOADER_CAPS, ""));
	cr_expect_null(difference());
}

Test(audit, a_missing_capability_is_a_difference_too)
{
	judge_status(STATUS(UIDS, "", "0000008000000000", FILTERS));
	cr_expect_eq(report.results[3].status, AUDIT_DIFFERENCE);
	cr_expect_str_eq(report.results[3].found, "permitted: cap_bpf");
	cr_expect_str_eq(report.results[3].expected, "cap_perfmon, cap_bpf");
}

Test(audit, other_facts_are_compared_with_the_supervisor)
{
	memset(&supervisor, 0, sizeof(supervisor));
	role = supervisor;
	audit_judge_process(&report, &subject, &role, &expected);
	cr_expect_null(difference());
	audit_report_fini(&report);
	role.namespaces[3] = 4026531840;
	audit_judge_process(&report, &subject, &role, &expected);
	expect_difference("namespaces", "net:[4026531840]");
	role = supervisor;
	snprintf(role.label, sizeof(role.label), "bulkhead_loader_t");
	audit_judge_process(&report, &subject, &role, &expected);
	expect_difference("label", "bulkhead_loader_t");
	role = supervisor;
	role.root.inode = 5;
	audit_judge_process(&report, &subject, &role, &expected);
	expect_difference("root", "another directory, inode 5");
	role = supervisor;
	role.limits[AUDIT_LIMIT_CORE] = 1;
	audit_judge_process(&report, &subject, &role, &expected);
	expect_difference("limits", "core file size: 1");
	role = supervisor;
	role.dumpable = true;
	audit_judge_process(&report, &subject, &role, &expected);
	expect_difference("dumpable", "yes");
}

Test(audit, what_cannot_be_read_is_no_agreement)
{
	memset(&supervisor, 0, sizeof(supervisor));
	role = supervisor;
	role.label_error = EACCES;
	audit_judge_process(&report, &subject, &role, &expected);
	const struct audit_result *result = difference();
	cr_assert_not_null(result);
	cr_expect_eq(result->status, AUDIT_UNVERIFIED);
	cr_expect_str_eq(result->found, "not verified: Permission denied");
	cr_expect_not(audit_report_agrees(&report, 0));
}

Test(audit, limits)
{
	static const char text[] =
	    "Limit                     Soft Limit           Hard Limit           Units     \n"
	    "Max data size             1                    unlimited            bytes     \n"
	    "Max stack size            2                    3                    bytes     \n"
	    "Max core file size        0                    0                    bytes     \n"
	    "Max processes             5                    4                    processes \n"
	    "Max open files            6                    6                    files     \n";
	uint64_t limits[AUDIT_LIMIT_COUNT];

	cr_assert_eq(audit_limits_parse(text, limits), 0);
	cr_expect_eq(limits[AUDIT_LIMIT_DATA], AUDIT_LIMIT_NONE);
	cr_expect_eq(limits[AUDIT_LIMIT_STACK], 3);
	cr_expect_eq(limits[AUDIT_LIMIT_PROCESSES], 5);
	cr_expect_eq(audit_limits_parse("Max data size  1\n", limits), -EBADMSG);
	cr_expect_eq(audit_limits_parse("", limits), -EBADMSG);
}

static void judge_maps(const char *text)
{
	audit_judge_mappings(&report, &subject, text, strlen(text));
}

#define CODE "1000-2000 r-xp 00000000 08:01 42 /usr/bin/bulkhead-loader\n"

Test(audit, mappings)
{
	judge_maps(CODE "2000-3000 rw-p 00000000 00:00 0 [heap]\n"
			"4000-5000 r-xp 00000000 00:00 0 [vdso]\n");
	cr_expect_null(difference());
	audit_report_fini(&report);
	judge_maps(CODE "2000-3000 rwxp 00000000 08:01 43 /usr/lib/x\n");
	expect_difference("mappings", "2000-3000 wx /usr/lib/x");
	judge_maps(CODE "2000-3000 r-xp 00000000 00:00 0\n");
	expect_difference("mappings", "2000-3000 x ");
	judge_maps(CODE "2000-3000 r-xs 00000000 00:01 9 /memfd:a (deleted)\n");
	expect_difference("mappings", "2000-3000 x /memfd:a (deleted)");
	judge_maps(CODE "nonsense\n");
	expect_difference("mappings", "/proc/PID/maps is not understood");
	judge_maps("");
	expect_difference("mappings", "/proc/PID/maps is not understood");
}

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(audit, manifest)
{
	char hash[AUDIT_HASH_BYTES];

	cr_expect(audit_manifest_find("x\n" HASH "  other\n" HASH "  name\n", "name", hash));
	cr_expect_str_eq(hash, HASH);
	cr_expect(audit_manifest_find(HASH " *name", "name", hash));
	cr_expect_not(audit_manifest_find(HASH "  name2\n", "name", hash));
	cr_expect_not(audit_manifest_find(HASH "0  name\n", "name", hash));
	cr_expect_not(audit_manifest_find("0123  name\n", "name", hash));
	cr_expect_not(audit_manifest_find("", "name", hash));
}

Test(audit, texts_of_others_are_escaped)
{
	static char text[4096];

	audit_difference(&report, &subject, "label", "a\"b", "c\x1b[2J\xff");
	for (int json = 0; json < 2; json++) {
		FILE *out = fmemopen(text, sizeof(text), "w");

		cr_assert_not_null(out);
		audit_report_print(&report, true, json, out);
		fclose(out);
		cr_expect_not(strchr(text, 0x1b));
		cr_expect(
		    strstr(text, json
				     ? "\"found\": \"c\\u001b[2J\\ufffd\", \"expected\": \"a\\\"b\""
				     : "c\\x1b[2J\\xff\n"),
		    "%s", text);
	}
	cr_expect(strstr(text, "\"agrees\": false"));
}

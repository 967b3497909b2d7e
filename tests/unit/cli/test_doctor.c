/* SPDX-License-Identifier: Apache-2.0 */
/* The report of `bulkhead doctor` on made hosts. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cli/doctor.h"
#include "common/exit_status.h"
#include "tests/unit/cli/host_fixture.h"

static const struct check_wants wants = {.frequency_hz = 99};
static char text[32768];

static int report(const struct host_facts *facts, bool json)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	text[0] = 0;
	cr_assert_not_null(out);
	const int status = doctor_report(facts, &wants, json, out);
	fclose(out);
	return status;
}

static void expect_text(const char *part)
{
	cr_expect(strstr(text, part), "%s\nis not in\n%s", part, text);
}

Test(doctor, a_good_host)
{
	const struct host_facts facts = host_good();

	cr_expect_eq(report(&facts, false), STATUS_DONE);
	expect_text("ok           user              root\n");
	cr_expect_str_eq(strrchr(text, '`') - strlen("bulkhead record") - 1,
			 "`bulkhead record` works here\n");
	cr_expect_not(strstr(text, "->"));
}

Test(doctor, restrictions_and_unknown_things_are_no_failure)
{
	struct host_facts facts = host_good();

	facts.sysctls.kptr_restrict = 2;
	facts.trials.kernel_addresses = ENODATA;
	facts.pid_namespace = HOST_NAMESPACE_UNKNOWN;
	cr_expect_eq(report(&facts, false), STATUS_DONE);
	expect_text("\nrestriction  kernel-symbols    kernel.kptr_restrict is 2, so kernel frames "
		    "have no names\n                               -> run sysctl "
		    "kernel.kptr_restrict=1\n");
	expect_text("\n`bulkhead record` works here; restrictions: 1; not known: 1\n");
}

Test(doctor, the_first_fault_decides)
{
	struct host_facts facts = host_good();

	facts.run_error = EROFS;
	facts.btf_error = ENOENT;
	facts.trials.bpf_map = EPERM;
	cr_expect_eq(report(&facts, false), STATUS_KERNEL);
	expect_text("\nfault        btf ");
	expect_text("\nfault        run-directory ");
	expect_text("\nfault        bpf ");
	expect_text("\n`bulkhead record` would fail here with exit status 3: the kernel has no BTF "
		    "(/sys/kernel/btf/vmlinux)\n");
}

Test(doctor, json_has_the_same)
{
	struct host_facts facts = host_good();

	facts.trials.bpf_map = EACCES;
	cr_expect_eq(report(&facts, true), STATUS_NOT_PERMITTED);
	cr_expect_eq(strncmp(text, "{\n  \"version\": \"", 16), 0);
	expect_text("\"works\": false,\n  \"exit_status\": 4,\n");
	expect_text("    {\"name\": \"user\", \"status\": \"ok\", \"found\": \"root\", \"remedy\": "
		    "null, \"exit_status\": null},\n");
	expect_text("{\"name\": \"bpf\", \"status\": \"fault\", \"found\": \"a security module "
		    "refuses BPF to unconfined\", \"remedy\": \"");
	facts.trials.bpf_map = 0;
	cr_expect_eq(report(&facts, true), STATUS_DONE);
	expect_text("\"works\": true,\n  \"exit_status\": 0,\n");
}

Test(doctor, texts_of_the_host_are_escaped)
{
	struct host_facts facts = host_good();

	memcpy(facts.lsm_label, "a\"\x1b[2J\xff", sizeof("a\"\x1b[2J\xff"));
	facts.trials.bpf_map = EACCES;
	report(&facts, false);
	expect_text("refuses BPF to a\"\\x1b[2J\\xff\n");
	cr_expect_not(strchr(text, 0x1b));
	report(&facts, true);
	expect_text("refuses BPF to a\\\"\\u001b[2J\\ufffd\"");
}

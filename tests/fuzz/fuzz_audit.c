/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what `bulkhead audit` reads of a role: texts of /proc, in which a role chooses its name
 * and the paths of its mappings, and the manifest. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/audit_files.h"
#include "cli/audit_judge.h"
#include "cli/audit_process.h"
#include "cli/audit_report.h"
#include "loader/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void judge(const char *text, size_t size)
{
	static const struct audit_subject subject = {.name = "loader", .pid = 1};
	static const struct audit_process supervisor;
	const struct audit_expectation expected = {
	    .role = ROLE_LOADER, .policy = &loader_policy, .supervisor = &supervisor};
	struct audit_process role = {0};
	struct audit_report report = {0};

	if (!audit_credentials_parse(text, &role.credentials)) {
		check(memchr(role.credentials.groups, 0, sizeof(role.credentials.groups)) != NULL);
		audit_judge_credentials(&report, &subject, &role.credentials, &expected);
		check(report.count > 0);
	}
	if (!audit_limits_parse(text, role.limits))
		audit_judge_process(&report, &subject, &role, &expected);
	audit_judge_mappings(&report, &subject, text, size);
	/* Something is always said, and all texts have an end. */
	check(report.count > 0);
	for (size_t i = 0; i < report.count; i++) {
		check(memchr(report.results[i].found, 0, AUDIT_TEXT_BYTES) != NULL);
		check(memchr(report.results[i].expected, 0, AUDIT_TEXT_BYTES) != NULL);
	}
	audit_report_fini(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char hash[AUDIT_HASH_BYTES], *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	judge(text, size);
	if (audit_manifest_find(text, "bulkhead", hash))
		check(strlen(hash) == AUDIT_HASH_BYTES - 1);
	free(text);
	return 0;
}

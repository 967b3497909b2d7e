/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the facts of a process with the policy of its role. The policy is the constant that the
 * role's own sandbox uses (common/sandbox.h), so that the two cannot disagree. */
#ifndef CLI_AUDIT_JUDGE_H
#define CLI_AUDIT_JUDGE_H

#include "cli/audit_process.h"
#include "cli/audit_report.h"
#include "common/roles.h"
#include "common/sandbox.h"

/* What a role has to be like. What the policy does not say, it inherits from the supervisor, which
 * started it. A service may differ in that from others: who started it has decided. */
struct audit_expectation {
	enum role_id role;
	const struct sandbox_policy *policy;
	const struct audit_process *supervisor;
	bool service;
};

/* Judges the credentials of one thread: ids, capabilities, no_new_privs, seccomp and tracer. */
void audit_judge_credentials(struct audit_report *report, const struct audit_subject *subject,
			     const struct audit_credentials *credentials,
			     const struct audit_expectation *expected);

/* Judges everything else of the facts: namespaces, root, label, limits, and whether the memory of
 * the process can be dumped. */
void audit_judge_process(struct audit_report *report, const struct audit_subject *subject,
			 const struct audit_process *process,
			 const struct audit_expectation *expected);

/* Judges the mappings of a process by the text of /proc/PID/maps: none may be writable and
 * executable, and what is executable comes from files. */
void audit_judge_mappings(struct audit_report *report, const struct audit_subject *subject,
			  const char *text, size_t length);

#endif

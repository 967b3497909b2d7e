/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/security/attempt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "control/policy.h"
#include "exporter/delivery/policy.h"
#include "exporter/policy.h"
#include "loader/policy.h"
#include "symbolizer/opener/policy.h"
#include "symbolizer/worker/policy.h"
#include "unwinder-mgr/policy.h"

const struct sandbox_policy *const policies[ROLES] = {
    [LOADER] = &loader_policy,
    [MANAGER] = &manager_policy,
    [OPENER] = &opener_policy,
    [WORKER] = &worker_policy,
    [EXPORTER] = &exporter_policy,
    [OTLP] = &otlp_exporter_policy,
    [STRICT_OPENER] = &opener_strict_policy,
    [STRICT_WORKER] = &worker_strict_policy,
    [CONTROL] = &control_policy,
    [LOCAL_OTLP] = &otlp_local_exporter_policy,
    [CONNECTOR] = &otlp_connector_policy,
};

const char *const titles[ROLES] = {
    [LOADER] = "bulkhead-loader",   [MANAGER] = "bulkhead-mgr",
    [OPENER] = "bulkhead-sym",	    [WORKER] = "bulkhead-symw",
    [EXPORTER] = "bulkhead-exp",    [OTLP] = "bulkhead-exp-otlp",
    [STRICT_OPENER] = "strict sym", [STRICT_WORKER] = "strict symw",
    [CONTROL] = "bulkhead-ctl",	    [LOCAL_OTLP] = "bulkhead-exp-unix",
    [CONNECTOR] = "bulkhead-exph",
};

static int attempt_make(const struct attempt *a, const struct fixture *fixture)
{
	if (a->fn)
		return a->fn(fixture);
	return syscall(a->number, a->args[0], a->args[1], a->args[2], a->args[3], a->args[4],
		       a->args[5]) < 0
		   ? errno
		   : 0;
}

int attempt_become(const struct sandbox_policy *policy, attempt_allow_fn allow,
		   const struct fixture *fixture)
{
	struct sandbox sandbox;

	log_init(policy->name);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	int r = sandbox_prepare(&sandbox, policy);
	if (!r)
		r = sandbox_drop(policy, TEST_UID, TEST_UID);
	if (!r && allow)
		r = allow(&sandbox, fixture);
	if (!r)
		r = sandbox_enter(&sandbox, policy);
	return r;
}

int attempt_outcome(const struct attempt *a, const struct sandbox_policy *policy,
		    attempt_allow_fn allow, const struct fixture *fixture)
{
	int status;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		alarm(ATTEMPT_SECONDS);
		dup2(a->stderr_is_file ? fixture->regular : fixture->null, STDERR_FILENO);
		if (attempt_become(policy, allow, fixture))
			_exit(EXIT_NOT_SANDBOXED);
		_exit(attempt_make(a, fixture));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return BROKEN;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? KILLED : OTHER_SIGNAL - WTERMSIG(status);
	return WEXITSTATUS(status) == EXIT_NOT_SANDBOXED ? BROKEN : WEXITSTATUS(status);
}

static const char *outcome_name(int outcome)
{
	switch (outcome) {
	case WORKS:
		return "works";
	case KILLED:
		return "killed";
	case KNOWN_GAP:
		return "KNOWN_GAP";
	case SKIPPED:
		return "skipped";
	case BROKEN:
		return "broken";
	case REFUSED:
		return "refused";
	default:
		return outcome > 0 ? strerrorname_np(outcome) : strsignal(OTHER_SIGNAL - outcome);
	}
}

static bool is_expected(int expected, int outcome)
{
	if (expected == REFUSED)
		return outcome == EACCES || outcome == EPERM || outcome == EXDEV;
	return outcome == (expected == KNOWN_GAP ? WORKS : expected);
}

void attempt_judge(struct tally *tally, const char *title, const struct attempt *a, int expected,
		   int outcome)
{
	const bool good = is_expected(expected, outcome);

	tally->cells++;
	tally->failures += !good;
	tally->gaps += good && expected == KNOWN_GAP;
	const char *mark = !good ? "FAIL" : expected == KNOWN_GAP ? "KNOWN_GAP" : "ok";
	if (!good || expected == KNOWN_GAP || tally->verbose)
		printf("%-5s %-17s %-36s expected: %-8s is: %s\n", mark, title, a->name,
		       outcome_name(expected), outcome_name(outcome));
}

void attempt_check_rows(struct tally *tally, const struct attempt *rows, size_t count,
			const struct fixture *fixture)
{
	for (size_t i = 0; i < count; i++) {
		for (unsigned int role = 0; role < ROLES; role++) {
			const int expected = role >= MATRIX_COLUMNS ? matrix_derived(role, &rows[i])
								    : rows[i].expected[role];

			if (expected == SKIPPED || (SANITIZED && rows[i].not_sanitized))
				continue;
			attempt_judge(tally, titles[role], &rows[i], expected,
				      attempt_outcome(&rows[i], policies[role], NULL, fixture));
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/capability.h>

#include "cli/host_checks_private.h"

const char *const check_status_names[CHECK_STATUS_COUNT] = {
    [CHECK_OK] = "ok",
    [CHECK_UNKNOWN] = "unknown",
    [CHECK_RESTRICTION] = "restriction",
    [CHECK_FAULT] = "fault",
};

/* What must hold for others to be tried comes first: privileges, then the kernel and its settings,
 * then the limits. */
const struct host_check host_checks[] = {
    {"user", check_judge_user},
    {"user-namespace", check_judge_user_namespace},
    {"capabilities", check_judge_capabilities},
    {"kernel", check_judge_kernel},
    {"btf", check_judge_btf},
    {"proc", check_judge_proc},
    {"programs", check_judge_programs},
    {"run-directory", check_judge_run_directory},
    {"lockdown", check_judge_lockdown},
    {"perf-events", check_judge_perf_events},
    {"sample-rate", check_judge_sample_rate},
    {"locked-memory", check_judge_locked_memory},
    {"bpf", check_judge_bpf},
    {"kernel-symbols", check_judge_kernel_symbols},
    {"processes", check_judge_processes},
    {"process-memory", check_judge_process_memory},
    {"sandbox", check_judge_sandbox},
    {"files", check_judge_files},
    {"process-limit", check_judge_process_limit},
    {"memory", check_judge_memory},
    {"pid-namespace", check_judge_pid_namespace},
    {"cgroups", check_judge_cgroups},
    {"security-modules", check_judge_security_modules},
    {"sysctls", check_judge_sysctls},
    {"bpffs", check_judge_bpffs},
};

const size_t host_check_count = sizeof(host_checks) / sizeof(host_checks[0]);

void host_check_judge(const struct host_check *check, const struct host_facts *facts,
		      const struct check_wants *wants, struct check_result *result)
{
	*result = (struct check_result){0};
	check->judge(facts, wants, result);
}

#define WRITE_FOUND(result, value)                                                                 \
	do {                                                                                       \
		va_list args;                                                                      \
                                                                                                   \
		va_start(args, format);                                                            \
		vsnprintf((result)->found, sizeof((result)->found), format, args);                 \
		va_end(args);                                                                      \
		(result)->status = (value);                                                        \
	} while (0)

void check_ok(struct check_result *result, const char *format, ...)
{
	WRITE_FOUND(result, CHECK_OK);
}

void check_unknown(struct check_result *result, const char *format, ...)
{
	WRITE_FOUND(result, CHECK_UNKNOWN);
}

void check_restriction(struct check_result *result, const char *format, ...)
{
	WRITE_FOUND(result, CHECK_RESTRICTION);
}

void check_fault(struct check_result *result, int exit_status, const char *format, ...)
{
	WRITE_FOUND(result, CHECK_FAULT);
	result->exit_status = exit_status;
}

void check_remedy(struct check_result *result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(result->remedy, sizeof(result->remedy), format, args);
	va_end(args);
}

void check_remedy_by_runtime(struct check_result *result, enum host_runtime runtime,
			     const char *docker, const char *kubernetes, const char *host)
{
	const char *const remedies[] = {
	    [HOST_RUNTIME_NONE] = host,
	    [HOST_RUNTIME_DOCKER] = docker,
	    [HOST_RUNTIME_KUBERNETES] = kubernetes,
	};

	check_remedy(result, "%s", remedies[runtime]);
}

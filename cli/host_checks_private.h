/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of checks share: how a result is written, and the judgements that host_checks.c
 * lists. */
#ifndef CLI_HOST_CHECKS_PRIVATE_H
#define CLI_HOST_CHECKS_PRIVATE_H

#include "cli/host_checks.h"

/* Each writes what was found. A fault also has the exit status of the command that fails. */
void check_ok(struct check_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void check_unknown(struct check_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void check_restriction(struct check_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void check_fault(struct check_result *result, int exit_status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the remedy. */
void check_remedy(struct check_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the remedy for a container of Docker, for one of Kubernetes, or for a host. */
void check_remedy_by_runtime(struct check_result *result, enum host_runtime runtime,
			     const char *docker, const char *kubernetes, const char *host);

/* A set of capabilities with one member. */
#define CHECK_CAPABILITY(capability) ((uint64_t)1 << (capability))

/* Returns whether a trial of something that needs these capabilities shows how it really is. It
 * does not if root lacks one of them, or in a user namespace. If not, the result is written. */
bool check_can_try(const struct host_facts *facts, uint64_t capabilities,
		   struct check_result *result);

#define CHECK_JUDGE(name)                                                                          \
	void check_judge_##name(const struct host_facts *facts, const struct check_wants *wants,   \
				struct check_result *result)

/* host_checks_process.c */
CHECK_JUDGE(user);
CHECK_JUDGE(user_namespace);
CHECK_JUDGE(capabilities);
CHECK_JUDGE(pid_namespace);
CHECK_JUDGE(cgroups);
CHECK_JUDGE(files);
CHECK_JUDGE(process_limit);
CHECK_JUDGE(memory);
CHECK_JUDGE(run_directory);
CHECK_JUDGE(programs);
/* host_checks_kernel.c */
CHECK_JUDGE(kernel);
CHECK_JUDGE(btf);
CHECK_JUDGE(proc);
CHECK_JUDGE(lockdown);
CHECK_JUDGE(locked_memory);
CHECK_JUDGE(perf_events);
CHECK_JUDGE(sample_rate);
CHECK_JUDGE(bpf);
CHECK_JUDGE(kernel_symbols);
CHECK_JUDGE(processes);
CHECK_JUDGE(process_memory);
CHECK_JUDGE(sandbox);
CHECK_JUDGE(security_modules);
CHECK_JUDGE(sysctls);
CHECK_JUDGE(bpffs);

#endif

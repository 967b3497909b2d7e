/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a host on which everything works. */
#ifndef TESTS_UNIT_CLI_HOST_FIXTURE_H
#define TESTS_UNIT_CLI_HOST_FIXTURE_H

#include <stdio.h>

#include "cli/host_checks.h"

static inline struct host_facts host_good(void)
{
	struct host_facts facts = {
	    .effective = UINT64_MAX,
	    .bounding = UINT64_MAX,
	    .user_namespace = HOST_NAMESPACE_INITIAL,
	    .pid_namespace = HOST_NAMESPACE_INITIAL,
	    .cgroup_namespace = HOST_NAMESPACE_INITIAL,
	    .release = "6.12.0-amd64",
	    .machine = "x86_64",
	    .cpus = 2,
	    .sudo = true,
	    .sysfs = true,
	    .lockdown = HOST_LOCKDOWN_INTEGRITY,
	    .lsms = "lockdown,capability,apparmor",
	    .lsm_label = "unconfined",
	    .limits = {.files = 524288,
		       .processes = 10000,
		       .locked_bytes = 65536,
		       .memory_bytes = HOST_LIMIT_NONE,
		       .cgroup_bytes = HOST_LIMIT_NONE},
	    .sysctls = {.perf_event_paranoid = 2,
			.perf_event_max_sample_rate = 100000,
			.kptr_restrict = 1,
			.unprivileged_bpf_disabled = 2,
			.bpf_jit_harden = 0,
			.ptrace_scope = 1},
	    .mounts = {.cgroup2 = {"/sys/fs/cgroup", "/"}, .proc = true},
	    .trials = {.maps = {80, 0}, .memory = {60, 0}},
	};

	return facts;
}

#endif

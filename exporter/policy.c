/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/policy.h"

#include <fcntl.h>

#include "common/base_policy.h"

static const cap_value_t none[] = {-1};

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    POLICY_LISTENER_SYSCALLS,
    POLICY_SHARED_MAPPINGS,
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    ALLOW(write, "output files received"),
    ALLOW(writev, "output files received"),
    ALLOW(read, "the recording that is converted"),
    ALLOW(lseek, "streams of stdio"),
    ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, F_GETFL), "fdopen"),
};

const struct sandbox_policy exporter_policy = {
    .name = "bulkhead-exp",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 64,
    /* `bulkhead report` needs most: a recording of LIMIT_REPORT_BYTES, its profile of
     * LIMIT_PROFILE_BYTES, and as much as the profile again to write it. */
    .memory_bytes_max = 2ull << 30,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) | DESCRIPTOR_BIT(DESCRIPTOR_OUTPUT),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_WORKER),
};

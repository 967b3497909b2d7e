/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/policy.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "common/base_policy.h"

static const cap_value_t none[] = {-1};

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    POLICY_LISTENER_SYSCALLS,
    /* The kernel asks who opens /proc/PID/environ, not who reads it. */
    ALLOW(pread64, "symbol tables, kallsyms, identity in /proc: read and never mapped"),
    ALLOW(newfstatat, "size of files received"),
    ALLOW(fstat, "size of files received"),
};

const struct sandbox_policy worker_policy = {
    .name = "bulkhead-symw",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 8192, /* one a module */
    .memory_bytes_max = 256 << 20,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/policy.h"

#include <fcntl.h>
#include <linux/bpf.h>

#include "common/base_policy.h"
#include "role/helper.h"
#include "unwinder-mgr/table_builds.h"

static const cap_value_t none[] = {-1};

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    POLICY_LISTENER_SYSCALLS,
    POLICY_SHARED_MAPPINGS,
    ALLOW(sysinfo, "qsort of glibc asks for the size of memory"),
    ALLOW(pread64, "ELF files and /proc/PID/maps received, read and never mapped"),
    ALLOW(read, "/proc/PID/stat and cgroup received"),
    ALLOW(fstat, "identity of files received"),
    /* A hostile file must not end or delay the manager, so a helper reads it (table_builds.h), and
     * another one what a process can make wait (role/process_reader.h). They have this filter, and
     * of what the manager has only the file. */
    POLICY_HELPER_SYSCALLS,
    POLICY_WORK_TIME,
};

enum {
	/* The manager, and for each lane and for maps a helper and those that hang. */
	PROCESSES_MAX = 1 + (BUILD_LANES + 1) * (1 + HELPERS_LEFT_MAX),
};

const struct sandbox_policy manager_policy = {
    .name = "bulkhead-mgr",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 8192,		   /* one per module, and the rings */
    .memory_bytes_max = 512 << 20, /* building the table of the largest module */
    .threads_max = PROCESSES_MAX,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_HELPER) | DESCRIPTOR_BIT(DESCRIPTOR_BPF_MAP) |
		   DESCRIPTOR_BIT(DESCRIPTOR_PERF_EVENT) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_OPENER) |
	     ROLE_BIT(ROLE_WORKER),
    .map_types = 1ull << BPF_MAP_TYPE_ARRAY | 1ull << BPF_MAP_TYPE_ARRAY_OF_MAPS |
		 1ull << BPF_MAP_TYPE_HASH | 1ull << BPF_MAP_TYPE_RINGBUF,
};

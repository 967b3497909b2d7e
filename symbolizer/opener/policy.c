/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/policy.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>

#include "common/base_policy.h"
#include "common/limits.h"
#include "symbolizer/opener/opener.h"

/*
 * SYS_PTRACE: /proc/PID/maps, map_files and environ of other uids (stat and cgroup need nothing).
 * DAC_READ_SEARCH: files that only their owners may read, environ among them. CHECKPOINT_RESTORE:
 * opening a link in map_files. Without it, a library that an upgrade has replaced could not be read
 * while old processes use it, and paths would have to be resolved in other roots (openat2, whose
 * flags a seccomp filter cannot check). It allows this process nothing that SYS_PTRACE does not
 * allow already.
 */
static const cap_value_t capabilities[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
					   CAP_CHECKPOINT_RESTORE, -1};

/*
 * SYS_PTRACE: /proc/PID/maps, exe and root of other uids. Without DAC_READ_SEARCH, nothing can be
 * opened that only its owner may read: neither files nor /proc/PID/mem or environ.
 * /proc/PID/map_files is such a directory too, so CHECKPOINT_RESTORE would be useless. Files are
 * found by their names in the process's root (open_file.c).
 */
static const cap_value_t strict_capabilities[] = {CAP_SYS_PTRACE, -1};

enum {
	WRITING = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND
};

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    POLICY_LISTENER_SYSCALLS,
    ALLOW_IF(openat, SCMP_A2_32(SCMP_CMP_MASKED_EQ, WRITING, O_RDONLY),
	     "/proc, mapped files and debug files, read-only"),
    /* By name too: it may open any name, which says more than this. */
    ALLOW(newfstatat, "device and inode of what was opened, uid of a process"),
    ALLOW(fstat, "device and inode of what was opened"),
    ALLOW(fstatfs, "kind of file system"),
    ALLOW_IF(ioctl, SCMP_A1_32(SCMP_CMP_EQ, FS_IOC_FIEMAP), "is a file of an overlay on a disk?"),
    ALLOW(getdents64, "list of processes, of threads"),
    ALLOW(read, "lines of /proc/PID/maps, size in statm"),
    ALLOW(lseek, "list of processes, from its start again"),
    ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, F_GETFL), "fdopen"),
    /* A bare fork gives nobody more than the opener has. Without CAP_KILL it can only end processes
     * of its own uid, which are its helpers. */
    POLICY_HELPER_SYSCALLS,
};

enum {
	/* Those that wait for the manager and for the worker, and those in use. */
	FILES_MAX = 2 * LIMIT_QUEUE_FDS + 64,
	MEMORY_BYTES_MAX = 64 << 20,
	/* The opener, and for each lane a helper and those that hang. */
	PROCESSES_MAX = 1 + LANE_COUNT * (1 + HELPERS_LEFT_MAX),
};

/* The system calls are those of the usual mode. The capabilities decide which files they reach. */
const struct sandbox_policy opener_strict_policy = {
    .name = "bulkhead-sym",
    .start_capabilities = strict_capabilities,
    .steady_capabilities = strict_capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = PROCESSES_MAX,
    .no_landlock = true, /* see opener_policy */
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_HELPER) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE) | DESCRIPTOR_BIT(DESCRIPTOR_DIRECTORY),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_WORKER),
    .needs = ROLE_BIT(ROLE_MANAGER),
};

const struct sandbox_policy opener_policy = {
    .name = "bulkhead-sym",
    .start_capabilities = capabilities,
    .steady_capabilities = capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = PROCESSES_MAX,
    .no_landlock = true, /* a process under Landlock may not access processes outside of it */
    .strict = &opener_strict_policy,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_HELPER) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE) | DESCRIPTOR_BIT(DESCRIPTOR_DIRECTORY) |
		   DESCRIPTOR_BIT(DESCRIPTOR_PROCESS_MEMORY),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_WORKER),
    .needs = ROLE_BIT(ROLE_MANAGER),
};

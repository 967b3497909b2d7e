/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/policy.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "common/base_policy.h"

/*
 * SYS_PTRACE: /proc/PID/maps, map_files and environ of other uids (stat and cgroup need nothing).
 * DAC_READ_SEARCH: files that their owners alone may read, environ among them. CHECKPOINT_RESTORE:
 * to open a link in map_files. Without it a library that was replaced by an upgrade could not be
 * read while old processes go on running it, and paths would have to be resolved in foreign roots
 * (openat2, whose flags no filter can see); with it this process can do nothing to others that
 * SYS_PTRACE does not allow already.
 */
static const cap_value_t capabilities[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
					   CAP_CHECKPOINT_RESTORE, -1};

/*
 * Without DAC_READ_SEARCH: nothing that only its owner may read, be it a file, /proc/PID/mem or
 * /proc/PID/environ. /proc/PID/map_files is such a directory too, so CHECKPOINT_RESTORE would be of
 * no use here, and files are found by their names in the process's root (open_file.c).
 * SYS_PTRACE: /proc/PID/maps, exe and root of other uids.
 */
static const cap_value_t strict_capabilities[] = {CAP_SYS_PTRACE, -1};

enum {
	WRITING = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND
};

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    ALLOW_IF(openat, SCMP_A2_32(SCMP_CMP_MASKED_EQ, WRITING, O_RDONLY),
	     "/proc and mapped files, read-only"),
    ALLOW(newfstatat, "device and inode of what was opened"),
    ALLOW(fstat, "device and inode of what was opened"),
    ALLOW(fstatfs, "kind of file system"),
    ALLOW(getdents64, "list of processes"),
    ALLOW(read, "lines of /proc/PID/maps"),
    ALLOW(lseek, "list of processes, from its begin again"),
    ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, F_GETFL), "fdopen"),
};

enum {
	FILES_MAX = 1024,
	MEMORY_BYTES_MAX = 64 << 20,
};

/* The system calls are the same: which files they reach is up to the capabilities. */
const struct sandbox_policy opener_strict_policy = {
    .name = "bulkhead-sym",
    .start_capabilities = strict_capabilities,
    .steady_capabilities = strict_capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .no_landlock = true, /* as below */
};

const struct sandbox_policy opener_policy = {
    .name = "bulkhead-sym",
    .start_capabilities = capabilities,
    .steady_capabilities = capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .no_landlock = true, /* a process under Landlock may not look into those outside of it */
    .strict = &opener_strict_policy,
};

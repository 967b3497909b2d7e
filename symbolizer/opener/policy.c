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

const struct sandbox_policy opener_policy = {
    .name = "bulkhead-sym",
    .start_capabilities = capabilities,
    .steady_capabilities = capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 1024,
    .memory_bytes_max = 64 << 20,
    .no_landlock = true, /* a process under Landlock may not look into those outside of it */
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/opener/policy.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "common/base_policy.h"

/* SYS_PTRACE: /proc/PID/maps, exe and root of other uids. DAC_READ_SEARCH: files and directories that their owners alone may read. */
static const cap_value_t capabilities[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, -1};

enum { WRITING = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND };

static const struct sandbox_syscall syscalls[] = {
	POLICY_LOOP_SYSCALLS,
	ALLOW_IF(openat, SCMP_A2_32(SCMP_CMP_MASKED_EQ, WRITING, O_RDONLY), "/proc, read-only"),
	/* Its flags lie behind a pointer, where no filter sees them; this process opens for reading only, and RLIMIT_FSIZE is 0. */
	ALLOW(openat2, "files inside a process's root"),
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/policy.h"

#include <fcntl.h>
#include <linux/bpf.h>

#include "common/base_policy.h"
#include "role/helper.h"
#include "role/process_work.h"
#include "symbolizer/worker/limits.h"

static const cap_value_t none[] = {-1};

/*
 * SYS_PTRACE: process_vm_readv of processes of other uids, which the kernel checks at each read.
 * The filter blocks what else the capability allows: no ptrace, no open (of /proc/PID/mem, for
 * example), no process_vm_writev, no pidfd_getfd, no kcmp.
 */
static const cap_value_t strict_capabilities[] = {CAP_SYS_PTRACE, -1};

/* pread64: for /proc/PID/environ and mem the kernel checks who opens them, not who reads them. A
 * process can make its readers wait: a helper reads files of /proc (role/process_reader.h), and
 * while memory is read, a second thread is ready to go on (role/process_work.h). */
#define WORKER_SYSCALLS                                                                            \
	POLICY_LOOP_SYSCALLS, ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),      \
	    POLICY_WORK_TIME, POLICY_SHARED_MAPPINGS, POLICY_LISTENER_SYSCALLS,                    \
	    ALLOW(pread64, "symbol tables, kallsyms, files of /proc: read and never mapped"),      \
	    ALLOW(fstat, "size of files received"), POLICY_HELPER_SYSCALLS,                        \
	    ALLOW_IF(clone, SCMP_A0_64(SCMP_CMP_EQ, PROCESS_WORK_THREAD_FLAGS),                    \
		     "start a thread that goes on if this one waits for a process"),               \
	    ALLOW(rt_sigprocmask, "change to another stack, with swapcontext(3)")

static const struct sandbox_syscall syscalls[] = {WORKER_SYSCALLS};

static const struct sandbox_syscall strict_syscalls[] = {
    WORKER_SYSCALLS,
    ALLOW(process_vm_readv, "memory of processes with a language runtime"),
};

enum {
	/* Files of modules, memory of processes with a language runtime, debug files, maps of
	 * generated code, answers on identity that are on their way, and what the role itself has
	 * and receives. */
	FILES_MAX = LIMIT_MODULES + LIMIT_RUNTIME_PROCESSES + LIMIT_DEBUG_FILES + LIMIT_JIT_MAPS +
		    3 * LIMIT_IDENTITY_REQUESTS + 128,
	MEMORY_BYTES_MAX = 256 << 20,
	THREADS_MAX = PROCESS_WORK_THREADS_MAX + 1 + HELPERS_LEFT_MAX, /* with helpers that hang */
};

const struct sandbox_policy worker_strict_policy = {
    .name = "bulkhead-symw",
    .start_capabilities = strict_capabilities,
    .steady_capabilities = strict_capabilities,
    .syscalls = strict_syscalls,
    .syscall_count = sizeof(strict_syscalls) / sizeof(strict_syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = THREADS_MAX,
    .no_landlock = true, /* a process under Landlock may not access processes outside of it */
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_BPF_MAP) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE) | DESCRIPTOR_BIT(DESCRIPTOR_HELPER),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_MANAGER) |
	     ROLE_BIT(ROLE_OPENER) | ROLE_BIT(ROLE_EXPORTER),
    .needs = ROLE_BIT(ROLE_MANAGER),
    .map_types = 1ull << BPF_MAP_TYPE_ARRAY | 1ull << BPF_MAP_TYPE_RINGBUF,
};

const struct sandbox_policy worker_policy = {
    .name = "bulkhead-symw",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = THREADS_MAX,
    .strict = &worker_strict_policy,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_BPF_MAP) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE) | DESCRIPTOR_BIT(DESCRIPTOR_PROCESS_MEMORY) |
		   DESCRIPTOR_BIT(DESCRIPTOR_HELPER),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_MANAGER) |
	     ROLE_BIT(ROLE_OPENER) | ROLE_BIT(ROLE_EXPORTER),
    .needs = ROLE_BIT(ROLE_MANAGER),
    .map_types = 1ull << BPF_MAP_TYPE_ARRAY | 1ull << BPF_MAP_TYPE_RINGBUF,
};

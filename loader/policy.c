/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/policy.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "common/base_policy.h"

/* CAP_SYSLOG: the kernel decides when /proc/kallsyms is opened whether it shows addresses. */
static const cap_value_t start_capabilities[] = {CAP_BPF, CAP_PERFMON, CAP_SYSLOG, -1};
/* CAP_BPF creates slabs, CAP_PERFMON opens events on a CPU that comes online, and together they
 * load the programs of language runtimes. Which programs these are is fixed: the request is a
 * number. */
static const cap_value_t steady_capabilities[] = {CAP_BPF, CAP_PERFMON, -1};

#define ALLOW_BPF(command, why) ALLOW_IF(bpf, SCMP_A0_32(SCMP_CMP_EQ, command), why)
#define ALLOW_IOCTL(request, why) ALLOW_IF(ioctl, SCMP_A1_32(SCMP_CMP_EQ, request), why)

static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    POLICY_LISTENER_SYSCALLS,
    ALLOW_BPF(BPF_MAP_CREATE, "add a slab"),
    ALLOW_BPF(BPF_MAP_UPDATE_ELEM, "put the slab into its map"),
    ALLOW_BPF(BPF_PROG_LOAD, "program of a language runtime that was found"),
    ALLOW_BPF(BPF_BTF_LOAD, "types of its functions, which the verifier needs"),
    ALLOW_BPF(BPF_OBJ_GET_INFO_BY_FD, "run time of the sampling program"),
    ALLOW_BPF(BPF_LINK_CREATE, "link that outlives the loader: of a CPU that came online"),
    ALLOW_BPF(BPF_OBJ_PIN, "the same, in the one directory that Landlock allows"),
    ALLOW_IF(unlinkat, SCMP_A2_32(SCMP_CMP_EQ, 0),
	     "end such a link: when sampling pauses, a CPU goes, or the role ends"),
    ALLOW(getdents64, "find all pins when the role ends"),
    ALLOW(lseek, "the same"),
    ALLOW(perf_event_open, "events of a CPU that came online"),
    ALLOW_IOCTL(PERF_EVENT_IOC_SET_BPF, "events of a CPU that came online"),
    ALLOW_IOCTL(PERF_EVENT_IOC_ENABLE, "start sampling"),
    ALLOW_IOCTL(PERF_EVENT_IOC_DISABLE, "stop sampling"),
    ALLOW(pread64, "list of online CPUs"),
};

const struct sandbox_policy loader_policy = {
    .name = "bulkhead-loader",
    .start_capabilities = start_capabilities,
    .steady_capabilities = steady_capabilities,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 4096,		   /* two events per CPU */
    .memory_bytes_max = 256 << 20, /* libbpf needs some 30 MiB for a moment; maps do not count */
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_BPF_PROGRAM) | DESCRIPTOR_BIT(DESCRIPTOR_BPF_MAP) |
		   DESCRIPTOR_BIT(DESCRIPTOR_BPF_TYPES) | DESCRIPTOR_BIT(DESCRIPTOR_BPF_LINK) |
		   DESCRIPTOR_BIT(DESCRIPTOR_PERF_EVENT) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_FILE) | DESCRIPTOR_BIT(DESCRIPTOR_PINS),
    .peers = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_WORKER) |
	     ROLE_BIT(ROLE_EXPORTER),
    .map_types = 1ull << BPF_MAP_TYPE_HASH | 1ull << BPF_MAP_TYPE_ARRAY |
		 1ull << BPF_MAP_TYPE_PROG_ARRAY | 1ull << BPF_MAP_TYPE_PERCPU_ARRAY |
		 1ull << BPF_MAP_TYPE_LRU_HASH | 1ull << BPF_MAP_TYPE_ARRAY_OF_MAPS |
		 1ull << BPF_MAP_TYPE_RINGBUF,
};

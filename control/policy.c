/* SPDX-License-Identifier: Apache-2.0 */
#include "control/policy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/base_policy.h"

static const cap_value_t none[] = {-1};

/* bulkhead-control reads no byte of a profiled process. What it reads are messages of fixed size
 * from the roles, and the page of statistics that the exporter writes. It opens no file: the
 * configuration and the directories of debug files are read and opened before. The sockets that it
 * makes can only be those of the roles and of the service manager, since AF_UNIX is the only
 * family. Landlock leaves one directory in which it may remove files, its own. */
static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    POLICY_SHARED_MAPPINGS,
    ALLOW(accept4, "connections of `bulkhead status`"),
    ALLOW_IF_BOTH(getsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),
		  SCMP_A2_32(SCMP_CMP_EQ, SO_PEERCRED), "uid and pid of a role"),
    ALLOW_IF_BOTH(getsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),
		  SCMP_A2_32(SCMP_CMP_EQ, SO_PEERSEC), "label of a role"),
    ALLOW_IF_BOTH(setsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),
		  SCMP_A2_32(SCMP_CMP_EQ, SO_SNDBUF), "buffer of a connection"),
    ALLOW_IF(socket, SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), "connect to a role that was started"),
    ALLOW(connect, "connect to a role that was started"),
    ALLOW(access, "is there a run directory?"),
    ALLOW_IF(sendto, WITHOUT_FASTOPEN(3), "answer to `bulkhead status`"),
    ALLOW(read, "signals, from a signalfd"),
    ALLOW(memfd_create, "the work page of a role that was started"),
    ALLOW(ftruncate, "its size"),
    ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, F_ADD_SEALS), "its size is fixed"),
    ALLOW(pread64, "copy the work page of the role that ended"),
    ALLOW(pwrite64, "copy the work page of the role that ended"),
    ALLOW(unlink, "remove the socket of `bulkhead status`"),
};

const struct sandbox_policy control_policy = {
    .name = "bulkhead-ctl",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 256,
    .memory_bytes_max = 16 << 20,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_STATUS) |
		   DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) | DESCRIPTOR_BIT(DESCRIPTOR_SIGNALFD) |
		   DESCRIPTOR_BIT(DESCRIPTOR_DIRECTORY) | DESCRIPTOR_BIT(DESCRIPTOR_OWN_FILE),
    .peers = ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_OPENER) |
	     ROLE_BIT(ROLE_WORKER) | ROLE_BIT(ROLE_EXPORTER),
};

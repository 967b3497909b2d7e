/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/base_policy.h"

enum {
	FILES_MAX = 256,
	MEMORY_BYTES_MAX = 512 << 20, /* mostly stacks of threads, which are never touched */
	/* gRPC starts 37 threads on 64 CPUs, and never more than twice 32 and a few. */
	THREADS_MAX = 128,
	PEERS = ROLE_BIT(ROLE_CONTROL) | ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_WORKER),
};

static const cap_value_t none[] = {-1};

/* The flags of a thread: it shares all of this and has no namespace of its own. */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define NAMESPACE_FLAGS                                                                            \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* Sockets of TCP and UDP only: the kernel has more protocols, and loads their modules on demand. */
#define ALLOW_SOCKET(family, protocol)                                                             \
	ALLOW_IF_BOTH(socket, SCMP_A0_32(SCMP_CMP_EQ, family), SCMP_A2_32(SCMP_CMP_EQ, protocol),  \
		      "the backend, name servers")

/* Socket options that the library sets, and similar ones. None of them attaches a program, installs
 * a protocol handler or joins a group. */
#define ALLOW_OPTIONS_BELOW(level, option, why)                                                    \
	ALLOW_IF_BOTH(setsockopt, SCMP_A1_32(SCMP_CMP_EQ, level), SCMP_A2_32(SCMP_CMP_LT, option), \
		      why)
#define ALLOW_OPTION(level, option, why)                                                           \
	ALLOW_IF_BOTH(setsockopt, SCMP_A1_32(SCMP_CMP_EQ, level), SCMP_A2_32(SCMP_CMP_EQ, option), \
		      why)

/* Allows opening files with one of the three access modes (3 is none of them), but not truncation,
 * O_PATH and O_TMPFILE. */
#define ALLOW_OPEN(mode)                                                                           \
	ALLOW_IF(openat,                                                                           \
		 SCMP_A2_32(SCMP_CMP_MASKED_EQ,                                                    \
			    (O_ACCMODE | O_TRUNC | O_PATH | (O_TMPFILE & ~O_DIRECTORY)), (mode)),  \
		 "spool, resolver files")

#define ALLOW_FCNTL(command, why) ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, command), why)

/* This is the only role with a network, so it holds nothing of value except the samples: no map but
 * the read-only counters, and no memory or file of other processes. gRPC's C core needs threads,
 * sockets and a few files. Landlock decides which files it may open (configure.c lists them),
 * and to which ports it may connect, because a system call filter cannot see a path or an address.
 * Where the kernel has no Landlock (before 5.13), the files' modes decide for this uid. Ports are
 * restricted from Linux 6.7 on, and only those of TCP.
 *
 * Where the backend listens on a Unix socket, the role has no network either, and makes no
 * connections: a helper does (connector.h). */
static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    ALLOW(accept4, "a role connects that was started later"),
    POLICY_SHARED_MAPPINGS,
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    /* Threads. */
    ALLOW_IF(clone, SCMP_A0(SCMP_CMP_MASKED_EQ, THREAD_FLAGS | NAMESPACE_FLAGS, THREAD_FLAGS),
	     "threads of gRPC and the sender, never a process"),
    REFUSE(clone3, ENOSYS, "a filter cannot see its flags; the C library then uses clone"),
    ALLOW(set_robust_list, "a thread's start"),
    ALLOW(rseq, "a thread's start"),
    ALLOW(rt_sigprocmask, "a thread's start"),
    ALLOW(rt_sigaction, "abort(3)"),
    ALLOW(gettid, "threads"),
    ALLOW(getpid, "abort(3)"),
    ALLOW_IF(tgkill, SCMP_A2_32(SCMP_CMP_EQ, SIGABRT), "abort(3)"),
    ALLOW(sched_yield, "spin locks of the library"),
    ALLOW(sched_getaffinity, "number of CPUs"),
    ALLOW(sched_getparam, "stack size of threads"),
    ALLOW(sched_getscheduler, "stack size of threads"),
    ALLOW_IF(prctl, SCMP_A0_32(SCMP_CMP_EQ, PR_SET_NAME), "names of threads"),
    ALLOW_IF(mprotect, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0), "guards of stacks"),
    ALLOW(gettimeofday, "time of gRPC and c-ares, where the vDSO has none"),
    ALLOW(time, "time of OpenSSL, where the vDSO has none"),
    ALLOW(clock_getres, "time, where the vDSO has none"),
    ALLOW(getcpu, "where the vDSO has none"),
    ALLOW(clock_nanosleep, "waiting"),
    /* Connections. */
    ALLOW(shutdown, "connections"),
    ALLOW_IF(sendto, WITHOUT_FASTOPEN(3), "connections"),
    ALLOW(recvfrom, "connections"),
    ALLOW_OPTIONS_BELOW(SOL_SOCKET, SO_ATTACH_FILTER, "reuse of addresses, buffers, keepalive"),
    ALLOW_OPTION(SOL_SOCKET, SO_TIMESTAMPING, "the library, if it traces"),
    ALLOW_OPTION(SOL_SOCKET, SO_ZEROCOPY, "the library, if it is told to"),
    ALLOW_OPTIONS_BELOW(IPPROTO_TCP, TCP_ULP, "TCP_NODELAY, TCP_USER_TIMEOUT, keepalive"),
    ALLOW_OPTION(IPPROTO_TCP, TCP_INQ, "the library: how much there is to read"),
    ALLOW_OPTIONS_BELOW(IPPROTO_IP, IP_MULTICAST_IF, "errors of name servers, type of service"),
    ALLOW_OPTION(IPPROTO_IPV6, IPV6_V6ONLY, "IPv4 by a socket of IPv6"),
    ALLOW_OPTION(IPPROTO_IPV6, IPV6_RECVERR, "errors of name servers"),
    ALLOW_OPTION(IPPROTO_IPV6, IPV6_TCLASS, "type of service"),
    ALLOW(getsockopt, "connections"),
    ALLOW(getsockname, "connections"),
    ALLOW(getpeername, "connections"),
    ALLOW_IF(ioctl, SCMP_A1_32(SCMP_CMP_EQ, FIONREAD), "name servers"),
    ALLOW(epoll_create1, "the library's own loop"),
    ALLOW(epoll_pwait, "the library's own loop"),
    ALLOW(eventfd2, "the library's own loop"),
    ALLOW(pipe2, "the library's own loop"),
    ALLOW_FCNTL(F_GETFL, "flags of sockets, fdopendir"),
    ALLOW_FCNTL(F_SETFL, "flags of sockets"),
    ALLOW_FCNTL(F_GETFD, "flags of sockets"),
    ALLOW_FCNTL(F_SETFD, "flags of sockets"),
    ALLOW(uname, "the library's user agent"),
    ALLOW(read, "sockets, resolver files"),
    ALLOW(write, "sockets"),
    ALLOW(writev, "sockets"),
    /* Files: those of the spool, and those that Landlock allows. */
    ALLOW_OPEN(O_RDONLY),
    ALLOW_OPEN(O_WRONLY),
    ALLOW_OPEN(O_RDWR),
    /* By name: the C library looks by that whether resolver files have changed. Landlock does not
     * restrict it, so the uid and modes decide what this role learns about other files: that they
     * exist, their size, owner and times, and nothing of what is in them. */
    ALLOW(newfstatat, "spool, resolver files"),
    ALLOW(fstat, "spool, resolver files"),
    ALLOW(lseek, "spool, resolver files"),
    ALLOW(readlink, "OpenSSL's own name"),
    ALLOW(pread64, "spool and journal"),
    ALLOW(pwrite64, "spool and journal"),
    ALLOW(ftruncate, "spool and journal"),
    ALLOW_IF(fallocate, SCMP_A1_32(SCMP_CMP_EQ, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE),
	     "memory of the spool given back"),
    ALLOW(fdatasync, "spool"),
    ALLOW_IF(unlinkat, SCMP_A2_32(SCMP_CMP_EQ, 0), "deletion of delivered segments of the spool"),
    ALLOW(getdents64, "segments of the spool"),
};

static const struct sandbox_syscall network_syscalls[] = {
    ALLOW_SOCKET(AF_INET, 0),
    ALLOW_SOCKET(AF_INET, IPPROTO_TCP),
    ALLOW_SOCKET(AF_INET, IPPROTO_UDP),
    ALLOW_SOCKET(AF_INET6, 0),
    ALLOW_SOCKET(AF_INET6, IPPROTO_TCP),
    ALLOW_SOCKET(AF_INET6, IPPROTO_UDP),
    REFUSE_IF(socket, SCMP_A0_32(SCMP_CMP_LT, AF_INET), EAFNOSUPPORT,
	      "nscd, which the C library would like to ask"),
    REFUSE_IF(socket, SCMP_A0_32(SCMP_CMP_GT, AF_INET6), EAFNOSUPPORT,
	      "netlink, for a list of addresses"),
    /* Landlock decides about the ports of TCP (configure.c). */
    ALLOW(connect, "the backend, name servers"),
    ALLOW(bind, "name servers: a source port; gRPC: is there IPv6?"),
};

static const struct sandbox_syscall local_syscalls[] = {
    REFUSE(socket, EAFNOSUPPORT, "the library: is there IPv6?"),
};

static const struct sandbox_syscall connector_syscalls[] = {
    ALLOW(recvmsg, "requests of the exporter"),
    ALLOW_IF(sendmsg, WITHOUT_FASTOPEN(2), "connections, for the exporter"),
    ALLOW_IF_BOTH(socket, SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX),
		  SCMP_A1_32(SCMP_CMP_EQ, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK),
		  "the backend"),
    ALLOW(connect, "the backend: no socket of another family can be made"),
    ALLOW(close, "connections that were passed on"),
    ALLOW(restart_syscall, "after SIGSTOP"),
    ALLOW(munmap, "memory of the filter given back"),
    ALLOW(brk, "memory of the filter given back"),
    ALLOW(exit_group, "exit"),
};

const struct sandbox_policy otlp_exporter_policy = {
    .name = "bulkhead-exp",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .more_syscalls = network_syscalls,
    .more_syscall_count = sizeof(network_syscalls) / sizeof(network_syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = THREADS_MAX,
    .descriptors = DESCRIPTOR_BIT(DESCRIPTOR_PEER) | DESCRIPTOR_BIT(DESCRIPTOR_LISTENER) |
		   DESCRIPTOR_BIT(DESCRIPTOR_NETWORK) | DESCRIPTOR_BIT(DESCRIPTOR_BACKEND) |
		   DESCRIPTOR_BIT(DESCRIPTOR_HELPER) | DESCRIPTOR_BIT(DESCRIPTOR_EPOLL) |
		   DESCRIPTOR_BIT(DESCRIPTOR_EVENTFD) | DESCRIPTOR_BIT(DESCRIPTOR_FILE) |
		   DESCRIPTOR_BIT(DESCRIPTOR_DIRECTORY) | DESCRIPTOR_BIT(DESCRIPTOR_OUTPUT) |
		   DESCRIPTOR_BIT(DESCRIPTOR_OWN_FILE),
    .peers = PEERS,
};

/* `bulkhead audit` expects otlp_exporter_policy of both, which have the same limits. */
const struct sandbox_policy otlp_local_exporter_policy = {
    .name = "bulkhead-exp",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .more_syscalls = local_syscalls,
    .more_syscall_count = sizeof(local_syscalls) / sizeof(local_syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = THREADS_MAX,
    .peers = PEERS,
};

/* The helper inherits user and limits from the exporter. */
const struct sandbox_policy otlp_connector_policy = {
    .name = "bulkhead-exph",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = connector_syscalls,
    .syscall_count = sizeof(connector_syscalls) / sizeof(connector_syscalls[0]),
    .files_max = FILES_MAX,
    .memory_bytes_max = MEMORY_BYTES_MAX,
    .threads_max = THREADS_MAX,
};

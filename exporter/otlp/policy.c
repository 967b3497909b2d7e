/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "common/base_policy.h"

static const cap_value_t none[] = {-1};

/*
 * The one role with a network, and so the one that holds nothing of value but the samples: no map
 * but the read-only counters, no memory and no file of others. gRPC C core wants threads, sockets
 * and a few files; what it may open is left to Landlock (configure.c names the files), since no
 * filter sees a path. Where the kernel has no Landlock (before 5.13) the modes of the files decide
 * for this uid.
 */
static const struct sandbox_syscall syscalls[] = {
    POLICY_LOOP_SYSCALLS,
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    /* Threads. */
    ALLOW_IF(clone, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM),
	     "threads of gRPC and the sender, never a process"),
    REFUSE(clone3, ENOSYS, "its flags are out of a filter's sight; the C library then uses clone"),
    ALLOW(set_robust_list, "a thread's start"),
    ALLOW(rseq, "a thread's start"),
    ALLOW(rt_sigprocmask, "a thread's start"),
    ALLOW(rt_sigaction, "abort(3)"),
    ALLOW(gettid, "threads"),
    ALLOW(getpid, "abort(3)"),
    ALLOW(tgkill, "abort(3)"),
    ALLOW(sched_yield, "spin locks of the library"),
    ALLOW(sched_getaffinity, "number of CPUs"),
    ALLOW(sched_getparam, "stack size of threads"),
    ALLOW(sched_getscheduler, "stack size of threads"),
    ALLOW_IF(prctl, SCMP_A0_32(SCMP_CMP_EQ, PR_SET_NAME), "names of threads"),
    ALLOW_IF(mprotect, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0), "guards of stacks"),
    ALLOW(clock_nanosleep, "waiting"),
    /* Connections. */
    ALLOW_IF(socket, SCMP_A0_32(SCMP_CMP_EQ, AF_INET), "the backend, name servers"),
    ALLOW_IF(socket, SCMP_A0_32(SCMP_CMP_EQ, AF_INET6), "the backend, name servers"),
    REFUSE_IF(socket, SCMP_A0_32(SCMP_CMP_LT, AF_INET), EAFNOSUPPORT,
	      "nscd, which the C library would like to ask"),
    REFUSE_IF(socket, SCMP_A0_32(SCMP_CMP_GT, AF_INET6), EAFNOSUPPORT,
	      "netlink, for a list of addresses"),
    ALLOW(connect, "the backend, name servers"),
    ALLOW(bind, "name servers: a source port"),
    ALLOW(shutdown, "connections"),
    ALLOW(sendto, "connections"),
    ALLOW(recvfrom, "connections"),
    ALLOW(setsockopt, "connections"),
    ALLOW(getsockopt, "connections"),
    ALLOW(getsockname, "connections"),
    ALLOW(getpeername, "connections"),
    ALLOW_IF(ioctl, SCMP_A1_32(SCMP_CMP_EQ, FIONREAD), "name servers"),
    ALLOW(epoll_create1, "the library's own loop"),
    ALLOW(epoll_pwait, "the library's own loop"),
    ALLOW(eventfd2, "the library's own loop"),
    ALLOW(pipe2, "the library's own loop"),
    ALLOW(fcntl, "flags of sockets"),
    ALLOW(uname, "the library's user agent"),
    ALLOW(read, "sockets, resolver files"),
    ALLOW(write, "sockets"),
    ALLOW(writev, "sockets"),
    ALLOW(close, "sockets, files"),
    /* Files: the spool's, and what Landlock lets through. */
    ALLOW(openat, "spool, resolver files"),
    ALLOW(newfstatat, "spool, resolver files"),
    ALLOW(fstat, "spool, resolver files"),
    ALLOW(lseek, "spool, resolver files"),
    ALLOW(readlink, "OpenSSL's own name"),
    ALLOW(pread64, "spool and journal"),
    ALLOW(pwrite64, "spool and journal"),
    ALLOW(ftruncate, "spool and journal"),
    ALLOW(fallocate, "memory of the spool given back"),
    ALLOW(fdatasync, "spool"),
    ALLOW(unlinkat, "segments of the spool that are done with"),
    ALLOW(getdents64, "segments of the spool"),
};

const struct sandbox_policy otlp_exporter_policy = {
    .name = "bulkhead-exp",
    .start_capabilities = none,
    .steady_capabilities = none,
    .syscalls = syscalls,
    .syscall_count = sizeof(syscalls) / sizeof(syscalls[0]),
    .files_max = 256,
    .memory_bytes_max = 512 << 20, /* mostly stacks of threads, never touched */
    .threads_max = 128, /* gRPC: 37 on 64 CPUs; they are never more than twice 32 and a few */
};

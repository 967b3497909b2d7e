/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that the event loop of every role makes. Each role's policy starts with them. */
#ifndef COMMON_BASE_POLICY_H
#define COMMON_BASE_POLICY_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/sandbox.h"

/* Allows closing descriptors with this bit set. Together the bits below allow 3 to 8191. 0, 1 and
 * 2 must stay open: log lines go to 2, and no other file may take its place. */
#define CLOSE_IF_BIT(n)                                                                            \
	ALLOW_IF(close, SCMP_A0_32(SCMP_CMP_MASKED_EQ, 1u << (n), 1u << (n)),                      \
		 "descriptors received")

/*
 * RLIMIT_DATA bounds the memory of a role. It counts brk, private mappings that can be written to,
 * and what mremap adds to them (is_data_mapping in mm/internal.h of Linux). It counts neither
 * shared mappings nor stacks, so a role may not create them:
 *
 * - A shared mapping must be that of a descriptor. Only bulkhead-control may call memfd_create, so
 *   for the others its memory is that of a file or BPF map that exists already. Only control and
 *   the agent's exporter can enlarge files.
 * - A mapping with MAP_GROWSDOWN counts as a stack, and no role needs one. RLIMIT_STACK bounds the
 *   stack of the first thread. Those of other threads are private mappings.
 */
#define ALLOW_MAPPING(flags, value, why)                                                           \
	ALLOW_IF_BOTH(mmap, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),                          \
		      SCMP_A3_32(SCMP_CMP_MASKED_EQ, (flags) | MAP_GROWSDOWN, value), why)

/* For roles that map memory of other roles after they have entered the sandbox. */
#define POLICY_SHARED_MAPPINGS                                                                     \
	ALLOW_MAPPING(MAP_TYPE | MAP_ANONYMOUS, MAP_SHARED, "maps, rings and memory received")

/* With MSG_FASTOPEN (TCP Fast Open), sending also connects, and Landlock does not check that. The
 * argument with the flags is the third of sendmsg and the fourth of sendto. */
#define WITHOUT_FASTOPEN(argument) SCMP_CMP32(argument, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0)

#define POLICY_LOOP_SYSCALLS                                                                       \
	ALLOW(epoll_wait, "event loop"), ALLOW(epoll_ctl, "event loop"),                           \
	    ALLOW(poll, "wait for a peer"), ALLOW(recvmsg, "messages"),                            \
	    ALLOW_IF(sendmsg, WITHOUT_FASTOPEN(2), "messages"),                                    \
	    ALLOW_IF(fcntl, SCMP_A1_32(SCMP_CMP_EQ, F_DUPFD_CLOEXEC),                              \
		     "descriptors queued for a peer"),                                             \
	    CLOSE_IF_BIT(2), CLOSE_IF_BIT(3), CLOSE_IF_BIT(4), CLOSE_IF_BIT(5), CLOSE_IF_BIT(6),   \
	    CLOSE_IF_BIT(7), CLOSE_IF_BIT(8), CLOSE_IF_BIT(9), CLOSE_IF_BIT(10), CLOSE_IF_BIT(11), \
	    CLOSE_IF_BIT(12), ALLOW_IF(close, SCMP_A0_32(SCMP_CMP_EQ, 3), "descriptors received"), \
	    ALLOW(clock_gettime, "time, where the vDSO has no clock"),                             \
	    ALLOW(restart_syscall, "after SIGSTOP"),                                               \
	    ALLOW_IF(write, SCMP_A0_32(SCMP_CMP_EQ, 2), "log lines"), ALLOW(brk, "memory"),        \
	    ALLOW_MAPPING(MAP_TYPE, MAP_PRIVATE, "memory, never executable"),                      \
	    ALLOW(munmap, "memory"), ALLOW(mremap, "memory"), ALLOW(madvise, "memory given back"), \
	    ALLOW(futex, "locks of the C library"),                                                \
	    ALLOW(getrandom, "the C library's allocator, hash seeds"),                             \
	    ALLOW(rt_sigreturn, "signal handlers"), ALLOW(exit_group, "exit"), ALLOW(exit, "exit")

/* For roles that find out how long work took (common/work_time.h). */
#define POLICY_WORK_TIME                                                                           \
	ALLOW_IF(getrusage, SCMP_A0_32(SCMP_CMP_EQ, RUSAGE_THREAD),                                \
		 "its own CPU time, and how often it had to wait for a process")

/* For roles with helpers (role/helper.h). */
#define POLICY_HELPER_SYSCALLS                                                                     \
	ALLOW_IF(socketpair, SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), "requests to a helper"),            \
	    ALLOW_IF(clone, SCMP_A0_64(SCMP_CMP_EQ, SIGCHLD), "start a helper"),                   \
	    ALLOW_IF(kill, SCMP_A1_32(SCMP_CMP_EQ, SIGKILL), "end a helper that hangs"),           \
	    ALLOW(wait4, "collect a helper"),                                                      \
	    ALLOW_IF_BOTH(dup3, SCMP_A0_32(SCMP_CMP_EQ, STDIN_FILENO),                             \
			  SCMP_A1_32(SCMP_CMP_EQ, STDERR_FILENO), "a helper writes no log lines"), \
	    ALLOW_IF(close_range, SCMP_A0_32(SCMP_CMP_GT, STDERR_FILENO),                          \
		     "a helper keeps only its socket"),                                            \
	    ALLOW_IF(prctl, SCMP_A0_32(SCMP_CMP_EQ, PR_SET_NAME), "name of a helper")

/* For all roles but control. A role whose process was started again connects to the others. They
 * check its uid before they read anything, and under SELinux its label. */
#define POLICY_LISTENER_SYSCALLS                                                                   \
	ALLOW(accept4, "a role connects that was started later"),                                  \
	    ALLOW_IF_BOTH(getsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),                         \
			  SCMP_A2_32(SCMP_CMP_EQ, SO_PEERCRED), "uid of the peer"),                \
	    ALLOW_IF_BOTH(getsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),                         \
			  SCMP_A2_32(SCMP_CMP_EQ, SO_PEERSEC), "label of the peer"),               \
	    ALLOW_IF_BOTH(setsockopt, SCMP_A1_32(SCMP_CMP_EQ, SOL_SOCKET),                         \
			  SCMP_A2_32(SCMP_CMP_EQ, SO_SNDBUF), "buffer of its connection")

#endif

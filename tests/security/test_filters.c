/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role can do once it is sandboxed, one attempt at a time: the tables below are a matrix of
 * attempts and roles. Each cell is a child that becomes nobody exactly as the role does, under the
 * role's own policy, makes the attempt and tells what came of it. Needs root; exits with 77
 * without.
 *
 *	security_filters [-v]		-v prints every cell
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/security/attempt.h"

/* ---- Attempts of more than one call. ---- */

/* Another ABI, with a number that means a call every role may make in ours (3: close), and read in
 * that one. */
static int try_int80(const struct scene *scene)
{
	(void)scene;
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(3), "b"(-1), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? (int)-result : 0;
#else
	return EOPNOTSUPP;
#endif
}

static int try_openat2_read(const struct scene *scene)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};

	(void)scene;
	return syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how)) < 0 ? errno : 0;
}

/* The filter lets write to descriptor 2 pass, whatever that is by now. */
static int try_write_as_stderr(const struct scene *scene)
{
	close(2);
	if (fcntl(scene->pipe[1], F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

/* As above, with a file. */
static int try_write_file_as_stderr(const struct scene *scene)
{
	close(2);
	if (fcntl(scene->regular, F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

/* ---- The matrix. ---- */

#define ONLY_LOADER(outcome)                                                                       \
	{                                                                                          \
		outcome, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED                    \
	}
#define ONLY_OPENER(outcome)                                                                       \
	{                                                                                          \
		KILLED, KILLED, outcome, KILLED, KILLED, KILLED, outcome, KILLED                   \
	}
#define ONLY_EXPORTER(outcome)                                                                     \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, outcome, KILLED, KILLED, KILLED                    \
	}
#define ONLY_OTLP(outcome)                                                                         \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, KILLED, outcome, KILLED, KILLED                    \
	}
#define BOTH_EXPORTERS(outcome)                                                                    \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, outcome, outcome, KILLED, KILLED                   \
	}
#define ONLY_STRICT_WORKER(outcome)                                                                \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, outcome                    \
	}
/* Those to whom an agent's exporter comes back, and that exporter. */
#define LISTENERS(outcome, otlp)                                                                   \
	{                                                                                          \
		outcome, KILLED, KILLED, outcome, KILLED, otlp, KILLED, outcome                    \
	}

/* Other programs and other processes. */
static void try_processes(struct tally *tally, const struct scene *s)
{
	char *const argv[] = {"true", NULL}, *const environment[] = {NULL};
	const struct clone_args clone_args = {.exit_signal = SIGCHLD};
	/* As the C library makes a thread. */
	const long thread =
	    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	struct iovec local = {s->memory, 8}, remote = {s->memory, 8};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		/* Of nothing that exists: what runs if it is let through might be killed. */
		{"execve",                           EVERYWHERE(KILLED),
			CALL(SYS_execve, P("/nowhere"), P(argv), P(environment))},
		{"execveat",                         EVERYWHERE(KILLED),
			CALL(SYS_execveat, AT_FDCWD, P("/nowhere"), P(argv), P(environment))},
		{"execveat of a descriptor",         EVERYWHERE(KILLED),
			CALL(SYS_execveat, s->regular, P(""), P(argv), P(environment),
			     AT_EMPTY_PATH)},
		{"clone (fork)",                     EVERYWHERE(KILLED), CALL(SYS_clone, SIGCHLD)},
		{"clone (vfork, posix_spawn)",       EVERYWHERE(KILLED),
			CALL(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD)},
		{"clone, a thread's flags but one",  EVERYWHERE(KILLED),
			CALL(SYS_clone, thread & ~CLONE_FILES)},
		{"clone, a thread in a namespace",   EVERYWHERE(KILLED),
			CALL(SYS_clone, thread | CLONE_NEWUSER)},
		/* The C library tries it, and then uses clone. */
		{"clone3",                           {KILLED, KILLED, KILLED, KILLED, KILLED, ENOSYS, KILLED, KILLED},
			CALL(SYS_clone3, P(&clone_args), sizeof(clone_args))},
		{"ptrace(ATTACH)",                   EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_ATTACH, s->victim)},
		{"ptrace(SEIZE)",                    EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_SEIZE, s->victim)},
		{"process_vm_readv",                 ONLY_STRICT_WORKER(WORKS),
			CALL(SYS_process_vm_readv, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_vm_writev",                EVERYWHERE(KILLED),
			CALL(SYS_process_vm_writev, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_madvise",                  EVERYWHERE(KILLED),
			CALL(SYS_process_madvise, s->pidfd, P(&remote), 1, MADV_COLD)},
		{"pidfd_open",                       EVERYWHERE(KILLED),
			CALL(SYS_pidfd_open, s->victim)},
		{"pidfd_getfd",                      EVERYWHERE(KILLED),
			CALL(SYS_pidfd_getfd, s->pidfd, 2)},
		{"pidfd_send_signal",                EVERYWHERE(KILLED),
			CALL(SYS_pidfd_send_signal, s->pidfd, 0)},
		{"kcmp",                             EVERYWHERE(KILLED),
			CALL(SYS_kcmp, s->victim, s->victim)},
		{"kill",                             EVERYWHERE(KILLED),
			CALL(SYS_kill, s->victim, 0)},
		{"tgkill",                           EVERYWHERE(KILLED),
			CALL(SYS_tgkill, s->victim, s->victim, 0)},
		/* As abort(3) does it; nobody else is of this uid. */
		{"tgkill(SIGABRT) of another",       ONLY_OTLP(EPERM),
			CALL(SYS_tgkill, s->victim, s->victim, SIGABRT)},
		{"tgkill(SIGKILL) of another",       EVERYWHERE(KILLED),
			CALL(SYS_tgkill, s->victim, s->victim, SIGKILL)},
		{"rt_sigqueueinfo",                  EVERYWHERE(KILLED),
			CALL(SYS_rt_sigqueueinfo, s->victim, 0)},
		{"rt_sigaction",                     ONLY_OTLP(EINVAL),
			CALL(SYS_rt_sigaction, SIGSYS), .not_sanitized = true},
		{"prlimit64 of another",             EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, s->victim, RLIMIT_NOFILE), .not_sanitized = true},
		{"sched_setaffinity",                EVERYWHERE(KILLED),
			CALL(SYS_sched_setaffinity, 0, 8, P(s->memory))},
		{"setpriority",                      EVERYWHERE(KILLED),
			CALL(SYS_setpriority, PRIO_PROCESS, 0, 19)},
		{"sched_setscheduler",               EVERYWHERE(KILLED),
			CALL(SYS_sched_setscheduler, 0, SCHED_IDLE)},
#ifdef __x86_64__
		{"fork",                             EVERYWHERE(KILLED), CALL(SYS_fork)},
		{"vfork",                            EVERYWHERE(KILLED), CALL(SYS_vfork)},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_sockets(struct tally *tally, const struct scene *s)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	int pair[2];
	socklen_t length = 64;
	const int inet6 = s->ipv6 ? WORKS : EAFNOSUPPORT;

	snprintf(there.sun_path, sizeof(there.sun_path), "%s", s->socket);
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"socket(AF_INET)",                  ONLY_OTLP(WORKS),
			CALL(SYS_socket, AF_INET, SOCK_STREAM)},
		{"socket(AF_INET6)",                 ONLY_OTLP(inet6),
			CALL(SYS_socket, AF_INET6, SOCK_DGRAM)},
		/* The C library tries both, and can do without. */
		{"socket(AF_UNIX)",                  ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_UNIX, SOCK_SEQPACKET)},
		{"socket(AF_NETLINK)",               ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_NETLINK, SOCK_RAW)},
		{"socket(AF_PACKET)",                ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_PACKET, SOCK_RAW)},
		{"socket(AF_VSOCK)",                 ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_VSOCK, SOCK_STREAM)},
		{"socket(AF_UNSPEC)",                ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_UNSPEC, SOCK_STREAM)},
		{"socket(AF_ALG)",                   ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, AF_ALG, SOCK_SEQPACKET)},
		/* Between the two of the internet. */
		{"socket(AF_AX25)",                  EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_AX25, SOCK_DGRAM)},
		{"socket(AF_X25)",                   EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_X25, SOCK_SEQPACKET)},
		/* The kernel reads 32 bits. The filter does so where it asks for equality; where it
		 * asks for less or more, it reads all, and what is more is refused. */
		{"socket, family with bits above 32", ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, 1l << 32 | AF_INET, SOCK_STREAM)},
		{"socket(IPPROTO_TCP)",              ONLY_OTLP(WORKS),
			CALL(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_TCP)},
		{"socket(IPPROTO_UDP)",              ONLY_OTLP(WORKS),
			CALL(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP)},
		/* Without CAP_NET_RAW. */
		{"socket(SOCK_RAW)",                 ONLY_OTLP(EPERM),
			CALL(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_TCP)},
		{"socket(IPPROTO_ICMP)",             EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_ICMP)},
		{"socket(IPPROTO_SCTP)",             EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP)},
		{"socket(IPPROTO_MPTCP), IPv6",      EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET6, SOCK_STREAM, IPPROTO_MPTCP)},
		{"socket(IPPROTO_UDPLITE)",          EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE)},
		{"socketpair",                       EVERYWHERE(KILLED),
			CALL(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, P(pair))},
		{"connect",                          ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_connect, s->inet, P(&there), sizeof(there))},
		{"bind",                             ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_bind, s->inet, P(&there), sizeof(there))},
		{"listen",                           EVERYWHERE(KILLED),
			CALL(SYS_listen, s->inet, 1)},
		{"accept4",                          LISTENERS(EINVAL, KILLED),
			CALL(SYS_accept4, s->inet)},
		{"accept",                           EVERYWHERE(KILLED),
			CALL(SYS_accept, s->inet)},
		{"sendto",                           ONLY_OTLP(WORKS),
			CALL(SYS_sendto, s->sockets[0], P("x"), 1)},
		{"recvfrom",                         ONLY_OTLP(EAGAIN),
			CALL(SYS_recvfrom, s->sockets[0], P(s->memory), 1, MSG_DONTWAIT)},
		{"sendmmsg",                         EVERYWHERE(KILLED),
			CALL(SYS_sendmmsg, s->sockets[0])},
		{"recvmmsg",                         EVERYWHERE(KILLED),
			CALL(SYS_recvmmsg, s->sockets[0])},
		{"shutdown",                         ONLY_OTLP(ENOTCONN),
			CALL(SYS_shutdown, s->inet, SHUT_RDWR)},
		{"getsockname",                      ONLY_OTLP(WORKS),
			CALL(SYS_getsockname, s->sockets[0], P(s->memory), P(&length))},
		{"getpeername",                      ONLY_OTLP(ENOTCONN),
			CALL(SYS_getpeername, s->inet, P(s->memory), P(&length))},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_socket_options(struct tally *tally, const struct scene *s)
{
	const int number = 1;
	socklen_t length = 64;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"setsockopt(SO_SNDBUF)",                       LISTENERS(WORKS, WORKS),
			CALL(SYS_setsockopt, s->sockets[0], SOL_SOCKET, SO_SNDBUF, P(&number), 4)},
		{"setsockopt(SO_SNDBUF), 7 elsewhere", ONLY_OTLP(EOPNOTSUPP),
			CALL(SYS_setsockopt, s->sockets[0], IPPROTO_TCP, SO_SNDBUF, P(&number), 4)},
		{"setsockopt(SO_PASSCRED)",           ONLY_OTLP(WORKS),
			CALL(SYS_setsockopt, s->sockets[0], SOL_SOCKET, SO_PASSCRED, P(&number), 4)},
		{"setsockopt(SO_ATTACH_FILTER)",      EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_ATTACH_FILTER, P(&number), 4)},
		{"setsockopt(SO_ATTACH_FILTER), high bits", EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, 1l << 32 | SO_ATTACH_FILTER, P(&number), 4)},
		{"setsockopt(SO_DEBUG less 2^32)",   EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, -(1l << 32) | SO_DEBUG, P(&number), 4)},
		{"setsockopt(SO_ATTACH_BPF)",         EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_ATTACH_BPF, P(&number), 4)},
		{"setsockopt(SO_ATTACH_REUSEPORT_CBPF)", EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, P(&number), 4)},
		{"setsockopt(SO_LOCK_FILTER)",        EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_LOCK_FILTER, P(&number), 4)},
		{"setsockopt(SO_MARK)",               EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_MARK, P(&number), 4)},
		{"setsockopt(SO_PREFER_BUSY_POLL)",   EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_PREFER_BUSY_POLL, P(&number), 4)},
		{"setsockopt(SO_REUSEADDR)",          ONLY_OTLP(WORKS),
			CALL(SYS_setsockopt, s->inet, SOL_SOCKET, SO_REUSEADDR, P(&number), 4)},
		{"setsockopt(TCP_NODELAY)",           ONLY_OTLP(WORKS),
			CALL(SYS_setsockopt, s->inet, IPPROTO_TCP, TCP_NODELAY, P(&number), 4)},
		{"setsockopt(TCP_INQ)",               ONLY_OTLP(WORKS),
			CALL(SYS_setsockopt, s->inet, IPPROTO_TCP, TCP_INQ, P(&number), 4)},
		{"setsockopt(TCP_ULP)",               EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, IPPROTO_TCP, TCP_ULP, P(&number), 4)},
		{"setsockopt(IP_RECVERR)",            ONLY_OTLP(WORKS),
			CALL(SYS_setsockopt, s->inet, IPPROTO_IP, IP_RECVERR, P(&number), 4)},
		{"setsockopt(IP_ADD_MEMBERSHIP)",     EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, IPPROTO_IP, IP_ADD_MEMBERSHIP, P(&number), 4)},
		{"setsockopt(iptables)",              EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */, P(&number), 4)},
		{"setsockopt(IPV6_ADDRFORM)",         EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, IPPROTO_IPV6, IPV6_ADDRFORM, P(&number), 4)},
		{"setsockopt(IPV6_V6ONLY) of IPv4",   ONLY_OTLP(ENOPROTOOPT),
			CALL(SYS_setsockopt, s->inet, IPPROTO_IPV6, IPV6_V6ONLY, P(&number), 4)},
		{"setsockopt(SOL_TLS)",               EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_TLS, 1, P(&number), 4)},
		{"setsockopt(SOL_NETLINK)",           EVERYWHERE(KILLED),
			CALL(SYS_setsockopt, s->inet, SOL_NETLINK, 1, P(&number), 4)},
		{"getsockopt(SO_PEERCRED)",           LISTENERS(WORKS, WORKS),
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_PEERCRED, P(s->memory), P(&length))},
		{"getsockopt, its number elsewhere",  ONLY_OTLP(EOPNOTSUPP),
			CALL(SYS_getsockopt, s->sockets[0], IPPROTO_TCP, SO_PEERCRED, P(s->memory), P(&length))},
		{"getsockopt(SO_PEERSEC)",            {KILLED, KILLED, KILLED, KILLED, KILLED, SKIPPED, KILLED, KILLED},
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_PEERSEC, P(s->memory), P(&length))},
		{"getsockopt(SO_TYPE)",               ONLY_OTLP(WORKS),
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_TYPE, P(s->memory), P(&length))},
		{"getsockopt(SO_GET_FILTER)",         ONLY_OTLP(WORKS),
			CALL(SYS_getsockopt, s->inet, SOL_SOCKET, SO_GET_FILTER, P(s->memory), P(&length))},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_bpf(struct tally *tally, const struct scene *s)
{
	union bpf_attr map = {
	    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					   {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr program = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
				  .insn_cnt = 2,
				  .insns = (uint64_t)P(nothing),
				  .license = (uint64_t)P("GPL")};
	uint32_t key = 0;
	uint64_t value = 1;
	union bpf_attr update = {
	    .map_fd = (uint32_t)s->map, .key = (uint64_t)P(&key), .value = (uint64_t)P(&value)};
	struct bpf_map_info info;
	union bpf_attr ask = {.info = {.bpf_fd = (uint32_t)s->map,
				       .info_len = sizeof(info),
				       .info = (uint64_t)P(&info)}};
	union bpf_attr pin = {.pathname = (uint64_t)P(s->dir), .bpf_fd = (uint32_t)s->map};
	union bpf_attr id = {.map_id = 1};
	struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(clock),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 10000000,
					.disabled = 1};
	const int map_works = s->map < 0 ? SKIPPED : WORKS,
		  event_works = s->event < 0 ? SKIPPED : WORKS;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"bpf(MAP_CREATE)",                  ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_CREATE, P(&map), sizeof(map))},
		{"bpf(MAP_UPDATE_ELEM)",             ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_UPDATE_ELEM, P(&update), sizeof(update))},
		{"bpf(OBJ_GET_INFO_BY_FD)",          ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, P(&ask), sizeof(ask))},
		{"bpf(MAP_LOOKUP_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_LOOKUP_ELEM, P(&update), sizeof(update))},
		{"bpf(MAP_DELETE_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_DELETE_ELEM, P(&update), sizeof(update))},
		{"bpf(PROG_LOAD)",                   EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(PROG_LOAD), bits above 32",    EVERYWHERE(KILLED),
			CALL(SYS_bpf, 1l << 32 | BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(PROG_ATTACH)",                 EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_ATTACH, P(&program), sizeof(program))},
		{"bpf(LINK_CREATE)",                 EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_LINK_CREATE, P(&program), sizeof(program))},
		{"bpf(OBJ_PIN)",                     EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_OBJ_PIN, P(&pin), sizeof(pin))},
		{"bpf(OBJ_GET)",                     EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_OBJ_GET, P(&pin), sizeof(pin))},
		{"bpf(MAP_GET_FD_BY_ID)",            EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"bpf(PROG_GET_FD_BY_ID)",           EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"perf_event_open",                  ONLY_LOADER(event_works),
			CALL(SYS_perf_event_open, P(&clock), -1, 0, -1, PERF_FLAG_FD_CLOEXEC)},
		{"ioctl(PERF_EVENT_IOC_ENABLE)",     ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_ENABLE)},
		{"ioctl(PERF_EVENT_IOC_DISABLE)",    ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_DISABLE)},
		{"ioctl(PERF_EVENT_IOC_SET_FILTER)", EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_SET_FILTER, P("x"))},
		{"ioctl(TCGETS)",                    ONLY_EXPORTER(ENOTTY),
			CALL(SYS_ioctl, s->null, TCGETS, P(s->memory))},
		{"ioctl(TIOCSTI)",                   EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->null, TIOCSTI, P("x"))},
		{"ioctl(FIONREAD)",                  ONLY_OTLP(WORKS),
			CALL(SYS_ioctl, s->pipe[0], FIONREAD, P(s->memory))},
		{"ioctl(FIONBIO)",                   EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->pipe[0], FIONBIO, P(s->memory))},
		{"ioctl(SIOCGIFCONF)",               EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->inet, SIOCGIFCONF, P(s->memory))},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_files(struct tally *tally, const struct scene *s)
{
	static char handle[128];
	char memory[64], environment[64], map_files[64], maps[64];
	/* No filter sees a name. */
	const int by_name = s->landlock ? EACCES : WORKS;
	snprintf(memory, sizeof(memory), "/proc/%d/mem", (int)s->victim);
	snprintf(environment, sizeof(environment), "/proc/%d/environ", (int)s->victim);
	snprintf(map_files, sizeof(map_files), "/proc/%d/map_files", (int)s->victim);
	snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)s->victim);
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"openat to read",                   {KILLED, KILLED, WORKS, KILLED, KILLED, by_name, WORKS, KILLED},
			CALL(SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY | O_CLOEXEC)},
		{"openat O_WRONLY",                  ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_WRONLY)},
		{"openat O_RDWR",                    ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDWR)},
		/* What only its owner may read, be it root's: */
		{"openat of another's /proc/PID/mem",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(memory), O_RDONLY)},
		{"openat of another's /proc/PID/environ",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(environment), O_RDONLY)},
		{"openat of another's map_files",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(map_files), O_RDONLY | O_DIRECTORY)},
		{"openat of root's file, mode 0400",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(s->secret), O_RDONLY)},
		/* and what asks for SYS_PTRACE. */
		{"openat of another's /proc/PID/maps",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, WORKS, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(maps), O_RDONLY)},
		{"openat O_RDWR of another's /proc/PID/mem",
			{KILLED, KILLED, KILLED, KILLED, KILLED, EACCES, KILLED, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(memory), O_RDWR)},
		/* Its own, which is not its: it is not dumpable. */
		{"openat O_RDWR of /proc/PID/mem",   ONLY_OTLP(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/proc/self/mem"), O_RDWR)},
		{"openat O_CREAT",                   ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_CREAT, 0666)},
		{"openat O_TRUNC",                   EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_TRUNC)},
		{"openat O_TMPFILE",                 EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->dir), O_RDWR | O_TMPFILE, 0666)},
		{"openat access mode 3",             EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P("/dev/null"), O_ACCMODE)},
		{"openat O_PATH",                    {KILLED, KILLED, SKIPPED, KILLED, KILLED, KILLED, SKIPPED, KILLED},
			CALL(SYS_openat, AT_FDCWD, P("/"), O_PATH)},
		/* Its flags lie behind a pointer, where no filter sees them. */
		{"openat2",                          EVERYWHERE(KILLED), .fn = try_openat2_read},
		{"open_by_handle_at",                EVERYWHERE(KILLED),
			CALL(SYS_open_by_handle_at, s->regular, P(handle), O_RDONLY)},
		{"open_tree",                        EVERYWHERE(KILLED),
			CALL(SYS_open_tree, AT_FDCWD, P("/"), 0)},
		{"unlinkat",                         ONLY_OTLP(by_name),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->program))},
		{"unlinkat AT_REMOVEDIR",            EVERYWHERE(KILLED),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->spool), AT_REMOVEDIR)},
		{"renameat2",                        EVERYWHERE(KILLED),
			CALL(SYS_renameat2, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"linkat",                           EVERYWHERE(KILLED),
			CALL(SYS_linkat, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"symlinkat",                        EVERYWHERE(KILLED),
			CALL(SYS_symlinkat, P("/"), AT_FDCWD, P(s->program))},
		{"mkdirat",                          EVERYWHERE(KILLED),
			CALL(SYS_mkdirat, AT_FDCWD, P(s->file), 0755)},
		{"mknodat",                          EVERYWHERE(KILLED),
			CALL(SYS_mknodat, AT_FDCWD, P(s->file), S_IFIFO | 0666)},
		{"fchmod",                           EVERYWHERE(KILLED),
			CALL(SYS_fchmod, s->regular, 0666)},
		{"fchmodat",                         EVERYWHERE(KILLED),
			CALL(SYS_fchmodat, AT_FDCWD, P(s->file), 0666)},
		{"fchown",                           EVERYWHERE(KILLED),
			CALL(SYS_fchown, s->regular, -1, -1)},
		{"fsetxattr",                        EVERYWHERE(KILLED),
			CALL(SYS_fsetxattr, s->regular, P("user.x"), P("x"), 1)},
		{"utimensat",                        EVERYWHERE(KILLED),
			CALL(SYS_utimensat, AT_FDCWD, P(s->file))},
		{"chdir",                            EVERYWHERE(KILLED), CALL(SYS_chdir, P("/"))},
		{"inotify_init1",                    EVERYWHERE(KILLED), CALL(SYS_inotify_init1)},
		{"fanotify_init",                    EVERYWHERE(KILLED), CALL(SYS_fanotify_init)},
		{"faccessat",                        EVERYWHERE(KILLED),
			CALL(SYS_faccessat, AT_FDCWD, P("/"), R_OK)},
		{"statx",                            EVERYWHERE(KILLED),
			CALL(SYS_statx, AT_FDCWD, P("/"), 0, 0, P(s->memory))},
		{"newfstatat of a name",             {KILLED, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS},
			CALL(SYS_newfstatat, AT_FDCWD, P("/"), P(s->memory))},
#ifdef __x86_64__
		{"open",                             EVERYWHERE(KILLED),
			CALL(SYS_open, P("/etc/passwd"), O_RDONLY)},
		{"creat",                            EVERYWHERE(KILLED),
			CALL(SYS_creat, P(s->file), 0666)},
		{"unlink",                           EVERYWHERE(KILLED),
			CALL(SYS_unlink, P(s->program))},
		{"rename",                           EVERYWHERE(KILLED),
			CALL(SYS_rename, P(s->program), P(s->program))},
		{"mkdir",                            EVERYWHERE(KILLED),
			CALL(SYS_mkdir, P(s->file), 0755)},
		{"stat by name",                     EVERYWHERE(KILLED),
			CALL(SYS_stat, P("/"), P(s->memory))},
		{"readlink",                         ONLY_OTLP(EINVAL),
			CALL(SYS_readlink, P("/"), P(s->memory), 8), .not_sanitized = true},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

/* What was open before, or is received. */
static void try_descriptors(struct tally *tally, const struct scene *s)
{
	struct iovec part = {.iov_base = "x", .iov_len = 1};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"write to a file",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, s->regular, P("x"), 1)},
		{"write to a pipe",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, s->pipe[1], P("x"), 1)},
		{"write to stdout",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, 1, P(""), 0)},
		{"write to stderr",                  EVERYWHERE(WORKS),
			CALL(SYS_write, 2, P(""), 0)},
		{"write to 2 with bits above 32",    BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, 1l << 32 | 2, P(""), 0)},
		{"writev",                           BOTH_EXPORTERS(WORKS),
			CALL(SYS_writev, s->regular, P(&part), 1)},
		{"close 2, dup to 2, write a pipe",  EVERYWHERE(KILLED),
			.fn = try_write_as_stderr},
		{"close 2, dup to 2, write a file",  EVERYWHERE(KILLED),
			.fn = try_write_file_as_stderr},
		{"pwrite64",                         ONLY_OTLP(WORKS),
			CALL(SYS_pwrite64, s->regular, P("x"), 1, 0)},
		{"pwritev2",                         EVERYWHERE(KILLED),
			CALL(SYS_pwritev2, s->regular, P(&part), 1, 0)},
		{"sendfile",                         EVERYWHERE(KILLED),
			CALL(SYS_sendfile, s->regular, s->null, 0, 1)},
		{"splice",                           EVERYWHERE(KILLED),
			CALL(SYS_splice, s->pipe[0], 0, s->regular, 0, 1)},
		{"vmsplice",                         EVERYWHERE(KILLED),
			CALL(SYS_vmsplice, s->pipe[1], P(&part), 1)},
		{"copy_file_range",                  EVERYWHERE(KILLED),
			CALL(SYS_copy_file_range, s->regular, 0, s->regular, 0, 1)},
		{"ftruncate",                        ONLY_OTLP(WORKS),
			CALL(SYS_ftruncate, s->regular, 4096)},
		{"fallocate",                        EVERYWHERE(KILLED),
			CALL(SYS_fallocate, s->regular, 0, 0, 1)},
		{"fallocate, a hole",                ONLY_OTLP(WORKS),
			CALL(SYS_fallocate, s->memory_file,
			     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)},
		{"fdatasync",                        ONLY_OTLP(WORKS),
			CALL(SYS_fdatasync, s->regular)},
		{"fsync",                            EVERYWHERE(KILLED),
			CALL(SYS_fsync, s->regular)},
		{"flock",                            EVERYWHERE(KILLED),
			CALL(SYS_flock, s->regular, 1)},
		{"dup",                              EVERYWHERE(KILLED), CALL(SYS_dup, s->regular)},
		{"dup3",                             EVERYWHERE(KILLED),
			CALL(SYS_dup3, s->regular, 2)},
		{"fcntl(F_DUPFD)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_DUPFD)},
		{"fcntl(F_SETFL)",                   ONLY_OTLP(WORKS),
			CALL(SYS_fcntl, s->regular, F_SETFL, O_ASYNC)},
		{"fcntl(F_SETOWN)",                  EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETOWN, s->victim)},
		{"fcntl(F_SETPIPE_SZ)",              EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->pipe[1], F_SETPIPE_SZ, 4096)},
		{"fcntl(F_GETFL)",                   {KILLED, KILLED, WORKS, KILLED, WORKS, WORKS, WORKS, KILLED},
			CALL(SYS_fcntl, s->regular, F_GETFL)},
		{"fcntl(F_SETFD)",                   ONLY_OTLP(WORKS),
			CALL(SYS_fcntl, s->regular, F_SETFD, FD_CLOEXEC)},
		{"fcntl(F_SETLK)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETLK, P(s->memory))},
		{"fcntl(F_SETSIG)",                  EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETSIG, 9)},
		{"fcntl(F_ADD_SEALS)",               EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->memory_file, F_ADD_SEALS, F_SEAL_GROW)},
		{"eventfd2",                         ONLY_OTLP(WORKS), CALL(SYS_eventfd2)},
		{"epoll_create1",                    ONLY_OTLP(WORKS), CALL(SYS_epoll_create1)},
		{"pipe2",                            ONLY_OTLP(WORKS),
			CALL(SYS_pipe2, P(s->memory))},
		{"timerfd_create",                   EVERYWHERE(KILLED), CALL(SYS_timerfd_create)},
		{"signalfd4",                        EVERYWHERE(KILLED),
			CALL(SYS_signalfd4, -1, P(s->memory), 8)},
		{"getdents64",                       {KILLED, KILLED, ENOTDIR, KILLED, KILLED, ENOTDIR, ENOTDIR, KILLED},
			CALL(SYS_getdents64, s->regular, P(s->memory), 4096)},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_memory(struct tally *tally, const struct scene *s)
{
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"mmap PROT_EXEC",                   EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1),
			     .not_sanitized = true},
		{"mmap PROT_EXEC of a file",         EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_EXEC, MAP_PRIVATE, s->regular),
			     .not_sanitized = true},
		{"mprotect PROT_EXEC",               EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(s->memory), 4096, PROT_READ | PROT_EXEC),
			     .not_sanitized = true},
		{"mprotect of data",                 ONLY_OTLP(WORKS),
			CALL(SYS_mprotect, P(s->memory), 4096, PROT_READ),
			     .not_sanitized = true},
		{"mprotect of text, writable",       EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(try_memory) & -4096l, 4096,
			     PROT_READ | PROT_WRITE | PROT_EXEC), .not_sanitized = true},
		{"pkey_mprotect",                    EVERYWHERE(KILLED),
			CALL(SYS_pkey_mprotect, P(s->memory), 4096, PROT_EXEC, -1)},
		{"memfd_create",                     EVERYWHERE(KILLED),
			CALL(SYS_memfd_create, P("x"))},
		{"memfd_secret",                     EVERYWHERE(KILLED), CALL(SYS_memfd_secret)},
		{"shmget",                           EVERYWHERE(KILLED),
			CALL(SYS_shmget, 0, 4096, 0600)},
		{"remap_file_pages",                 EVERYWHERE(KILLED),
			CALL(SYS_remap_file_pages, P(s->memory), 4096)},
		{"userfaultfd",                      EVERYWHERE(KILLED), CALL(SYS_userfaultfd)},
		{"io_uring_setup",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_setup, 1, P(s->memory))},
		{"io_uring_enter",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_enter, s->regular)},
		{"io_uring_register",                EVERYWHERE(KILLED),
			CALL(SYS_io_uring_register, s->regular)},
		{"io_setup",                         EVERYWHERE(KILLED),
			CALL(SYS_io_setup, 1, P(s->memory))},
		{"personality",                      EVERYWHERE(KILLED),
			CALL(SYS_personality, 0x0400000)},
	};
	/* clang-format on */

	CHECK(rows);
}

static void try_privileges(struct tally *tally, const struct scene *s)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"setuid(0)",                        EVERYWHERE(KILLED), CALL(SYS_setuid)},
		{"setresuid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresuid)},
		{"setresgid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresgid)},
		{"setgroups",                        EVERYWHERE(KILLED), CALL(SYS_setgroups)},
		{"setfsuid(0)",                      EVERYWHERE(KILLED), CALL(SYS_setfsuid)},
		{"capset of more",                   EVERYWHERE(KILLED),
			CALL(SYS_capset, P(&header), P(all))},
		{"prctl(PR_SET_DUMPABLE)",           EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_DUMPABLE, 1)},
		{"prctl(PR_SET_NAME)",               ONLY_OTLP(WORKS),
			CALL(SYS_prctl, PR_SET_NAME, P("name"))},
		{"prctl(PR_SET_SECCOMP)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_SECCOMP, 2, 0)},
		{"prctl(PR_SET_MM)",                 EVERYWHERE(KILLED), CALL(SYS_prctl, PR_SET_MM)},
		{"prctl(PR_SET_PTRACER)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_PTRACER, -1)},
		{"prctl(PR_CAP_AMBIENT)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE)},
		{"setrlimit",                        EVERYWHERE(KILLED),
			CALL(SYS_setrlimit, RLIMIT_NOFILE, P(&unlimited))},
		{"prlimit64",                        EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, 0, RLIMIT_CORE, P(&unlimited)), .not_sanitized = true},
		{"seccomp",                          EVERYWHERE(KILLED), CALL(SYS_seccomp)},
		{"landlock_create_ruleset",          EVERYWHERE(KILLED),
			CALL(SYS_landlock_create_ruleset, 0, 0, 1)},
		{"unshare(CLONE_NEWUSER)",           EVERYWHERE(KILLED),
			CALL(SYS_unshare, CLONE_NEWUSER)},
		{"setns",                            EVERYWHERE(KILLED),
			CALL(SYS_setns, s->pidfd, CLONE_NEWNS)},
		{"chroot",                           EVERYWHERE(KILLED),
			CALL(SYS_chroot, P(s->dir))},
		{"pivot_root",                       EVERYWHERE(KILLED),
			CALL(SYS_pivot_root, P(s->dir), P(s->dir))},
		{"mount",                            EVERYWHERE(KILLED),
			CALL(SYS_mount, P("none"), P(s->dir), P("tmpfs"))},
		{"umount2",                          EVERYWHERE(KILLED),
			CALL(SYS_umount2, P(s->dir), MNT_EXPIRE)},
		{"fsopen",                           EVERYWHERE(KILLED),
			CALL(SYS_fsopen, P("tmpfs"))},
		{"mount_setattr",                    EVERYWHERE(KILLED),
			CALL(SYS_mount_setattr, AT_FDCWD, P(s->dir))},
		{"keyctl",                           EVERYWHERE(KILLED), CALL(SYS_keyctl)},
		{"add_key",                          EVERYWHERE(KILLED), CALL(SYS_add_key)},
		{"init_module",                      EVERYWHERE(KILLED), CALL(SYS_init_module)},
		{"finit_module",                     EVERYWHERE(KILLED),
			CALL(SYS_finit_module, -1, P(""))},
		{"delete_module",                    EVERYWHERE(KILLED),
			CALL(SYS_delete_module, P(""))},
		{"kexec_load",                       EVERYWHERE(KILLED),
			CALL(SYS_kexec_load, 0, 0, 0, -1)},
		{"reboot",                           EVERYWHERE(KILLED), CALL(SYS_reboot)},
		{"swapon",                           EVERYWHERE(KILLED), CALL(SYS_swapon)},
		{"sethostname",                      EVERYWHERE(KILLED),
			CALL(SYS_sethostname, 0, -1)},
		{"clock_settime",                    EVERYWHERE(KILLED),
			CALL(SYS_clock_settime, -1)},
		{"syslog",                           EVERYWHERE(KILLED),
			CALL(SYS_syslog, 3, P(s->memory), 1)},
		{"acct",                             EVERYWHERE(KILLED), CALL(SYS_acct, P("/"))},
		{"a number of no call",              EVERYWHERE(KILLED), CALL(999)},
		{"the number -1",                    EVERYWHERE(KILLED), CALL(-1)},
#ifdef __x86_64__
		{"ioperm",                           EVERYWHERE(KILLED),
			CALL(SYS_ioperm, 0x80, 1, 1)},
		{"iopl",                             EVERYWHERE(KILLED), CALL(SYS_iopl, 3)},
		{"modify_ldt",                       EVERYWHERE(KILLED), CALL(SYS_modify_ldt)},
		{"arch_prctl",                       EVERYWHERE(KILLED),
			CALL(SYS_arch_prctl, 0x1003, P(s->memory))},
		{"x32 ABI, an allowed number",       EVERYWHERE(KILLED),
			CALL(0x40000000 | SYS_close, -1)},
		{"x32 ABI, execve",                  EVERYWHERE(KILLED), CALL(0x40000000 | 520)},
		{"32-bit ABI, an allowed number",    EVERYWHERE(KILLED), .fn = try_int80},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

int main(int argc, char **argv)
{
	struct tally tally = {.verbose = argc > 1 && !strcmp(argv[1], "-v")};
	struct scene scene;

	if (geteuid() != 0) {
		printf("skipped: only root can drop what a role drops\n");
		return EXIT_SKIPPED;
	}
	scene_init(&scene);
	status_check(&tally);
	needs_try(&tally, &scene);
	try_processes(&tally, &scene);
	try_sockets(&tally, &scene);
	try_socket_options(&tally, &scene);
	try_bpf(&tally, &scene);
	try_files(&tally, &scene);
	try_descriptors(&tally, &scene);
	try_memory(&tally, &scene);
	try_privileges(&tally, &scene);
	landlock_try(&tally, &scene);
	scene_fini(&scene);
	printf("%u cells, %u failures, %u known holes\n", tally.cells, tally.failures, tally.holes);
	return tally.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts to create, connect and configure sockets. */
#include "tests/security/matrix.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/un.h>

void matrix_try_sockets(struct tally *tally, const struct fixture *s)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	const struct msghdr message = {0};
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
		/* The C library tries both, and works without them. */
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
		/* A protocol family between those of IPv4 and IPv6. */
		{"socket(AF_AX25)",                  EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_AX25, SOCK_DGRAM)},
		{"socket(AF_X25)",                   EVERYWHERE(KILLED),
			CALL(SYS_socket, AF_X25, SOCK_SEQPACKET)},
		/* The kernel reads 32 bits of the argument. So does the filter where it compares for equality. Where it
		 * compares for less or greater, it reads 64 bits, and refuses a value above 32 bits. */
		{"socket, family with bits above 32", ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_socket, 1l << 32 | AF_INET, SOCK_STREAM)},
		{"socket(IPPROTO_TCP)",              ONLY_OTLP(WORKS),
			CALL(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_TCP)},
		{"socket(IPPROTO_UDP)",              ONLY_OTLP(WORKS),
			CALL(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP)},
		/* The kernel refuses these without CAP_NET_RAW. */
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
		{"socketpair",                       WITH_HELPERS(WORKS),
			CALL(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, P(pair))},
		{"socketpair(AF_INET)",              EVERYWHERE(KILLED),
			CALL(SYS_socketpair, AF_INET, SOCK_STREAM, 0, P(pair))},
		{"connect",                          ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_connect, s->inet, P(&there), sizeof(there))},
		{"bind",                             ONLY_OTLP(EAFNOSUPPORT),
			CALL(SYS_bind, s->inet, P(&there), sizeof(there))},
		{"listen",                           EVERYWHERE(KILLED),
			CALL(SYS_listen, s->inet, 1)},
		{"accept4",                          EVERYWHERE(EINVAL),
			CALL(SYS_accept4, s->inet)},
		{"accept",                           EVERYWHERE(KILLED),
			CALL(SYS_accept, s->inet)},
		{"sendto",                           ONLY_OTLP(WORKS),
			CALL(SYS_sendto, s->sockets[0], P("x"), 1)},
		/* These would connect a socket of TCP without connect. */
		{"sendto MSG_FASTOPEN",              EVERYWHERE(KILLED),
			CALL(SYS_sendto, s->inet, P("x"), 1, MSG_FASTOPEN)},
		{"sendmsg MSG_FASTOPEN",             EVERYWHERE(KILLED),
			CALL(SYS_sendmsg, s->inet, P(&message), MSG_FASTOPEN)},
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

void matrix_try_socket_options(struct tally *tally, const struct fixture *s)
{
	const int number = 1;
	socklen_t length = 64;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"setsockopt(SO_SNDBUF)",                       EVERYWHERE(WORKS),
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
		{"getsockopt(SO_PEERCRED)",           EVERYWHERE(WORKS),
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_PEERCRED, P(s->memory), P(&length))},
		{"getsockopt, its number elsewhere",  ONLY_OTLP(EOPNOTSUPP),
			CALL(SYS_getsockopt, s->sockets[0], IPPROTO_TCP, SO_PEERCRED, P(s->memory), P(&length))},
		/* Without room for its length: what it says depends on the kernel's security modules. */
		{"getsockopt(SO_PEERSEC)",            EVERYWHERE(EFAULT),
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_PEERSEC, P(s->memory), 0)},
		{"getsockopt(SO_PEERGROUPS)",         {KILLED, KILLED, KILLED, KILLED, KILLED, SKIPPED, KILLED, KILLED},
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_PEERGROUPS, P(s->memory), P(&length))},
		{"getsockopt(SO_TYPE)",               ONLY_OTLP(WORKS),
			CALL(SYS_getsockopt, s->sockets[0], SOL_SOCKET, SO_TYPE, P(s->memory), P(&length))},
		{"getsockopt(SO_GET_FILTER)",         ONLY_OTLP(WORKS),
			CALL(SYS_getsockopt, s->inet, SOL_SOCKET, SO_GET_FILTER, P(s->memory), P(&length))},
	};
	/* clang-format on */

	CHECK(rows);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a role gives up its privileges.
 *
 * How this works. Each role has one constant policy, in policy.c of its directory, which names the
 * system calls, capabilities and resource limits that the role needs, each with the reason. A role
 * goes through these steps, in this order:
 *
 *	sandbox_prepare     compile the policy's system calls to a seccomp filter
 *	sandbox_drop        become the role's user, with the start capabilities only, and prove it
 *	(open and connect)  whatever the role needs from outside
 *	sandbox_allow_path  name the few files that it may still open by name
 *	sandbox_allow_port  name the few ports that it may still use
 *	sandbox_enter       keep the steady capabilities, enter Landlock and the filter, prove both
 *	(run)               only now is the first byte read that a profiled process or peer controls
 *
 * A system call that the filter does not allow ends the process. The filter is compiled first,
 * because compiling it needs calls that it does not allow.
 *
 * Example: the manager's policy has no capabilities, and allows pread64 "ELF files received, read
 * and never mapped". It may not open anything: the opener sends it open files. If a forged ELF file
 * took control of the manager, its first open(2) would end it.
 */
#ifndef COMMON_SANDBOX_H
#define COMMON_SANDBOX_H

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "common/roles.h"

enum {
	SANDBOX_CONDITIONS_MAX = 2,
	/* RLIMIT_STACK of every role: the kernel's default. The stack does not count against
	 * RLIMIT_DATA, and the user who started Bulkhead may have set no limit. */
	SANDBOX_STACK_BYTES = 8 << 20
};

/* One system call that the role may make, with conditions on up to two different arguments. Several
 * lines for one call are alternatives. A call with `refused_errno` fails with it instead of ending
 * the process; this is for calls that a library tries but does not need. */
struct sandbox_syscall {
	int number;
	int refused_errno;
	unsigned int condition_count;
	struct scmp_arg_cmp conditions[SANDBOX_CONDITIONS_MAX];
	const char *reason;
};

#define ALLOW(name, why)                                                                           \
	{                                                                                          \
		.number = SCMP_SYS(name), .reason = (why)                                          \
	}
#define ALLOW_IF(name, cmp, why)                                                                   \
	{                                                                                          \
		.number = SCMP_SYS(name), .condition_count = 1, .conditions = {cmp},               \
		.reason = (why)                                                                    \
	}
/* Both conditions must hold; they are on different arguments. */
#define ALLOW_IF_BOTH(name, cmp, cmp2, why)                                                        \
	{                                                                                          \
		.number = SCMP_SYS(name), .condition_count = 2, .conditions = {cmp, cmp2},         \
		.reason = (why)                                                                    \
	}

#define REFUSE(name, error, why)                                                                   \
	{                                                                                          \
		.number = SCMP_SYS(name), .refused_errno = (error), .reason = (why)                \
	}

#define REFUSE_IF(name, cmp, error, why)                                                           \
	{                                                                                          \
		.number = SCMP_SYS(name), .refused_errno = (error), .condition_count = 1,          \
		.conditions = {cmp}, .reason = (why)                                               \
	}

/* The kinds of descriptors that `bulkhead audit` distinguishes. A role may hold what its policy
 * lists and, in addition, /dev/null and the log of the process that started it. */
enum sandbox_descriptor {
	DESCRIPTOR_PEER,	    /* a connection to one of the roles in `peers` */
	DESCRIPTOR_LISTENER,	    /* a socket of AF_UNIX to which a restarted exporter connects */
	DESCRIPTOR_HELPER,	    /* a connection between the role and its own helpers */
	DESCRIPTOR_NETWORK,	    /* a socket of TCP or UDP */
	DESCRIPTOR_BACKEND,	    /* a connection to a backend that listens on a Unix socket */
	DESCRIPTOR_SERVICE_MANAGER, /* of a service: a socket to which it reports */
	DESCRIPTOR_STATUS,	    /* a listening socket that answers `bulkhead status` */
	DESCRIPTOR_BPF_PROGRAM,	    /* a program for perf events */
	DESCRIPTOR_BPF_MAP,	    /* a map of a type in `map_types`, which the loader holds too */
	DESCRIPTOR_BPF_TYPES,	    /* BTF */
	DESCRIPTOR_BPF_LINK,	    /* from a perf event to a program */
	DESCRIPTOR_PERF_EVENT,	    /* an event or its ring */
	DESCRIPTOR_EPOLL,	    /* an event loop */
	DESCRIPTOR_EVENTFD,	    /* a counter that wakes a thread */
	DESCRIPTOR_SIGNALFD,	    /* the signals that ask for an end */
	DESCRIPTOR_FILE,	    /* a regular file that is open for reading only */
	DESCRIPTOR_DIRECTORY,	    /* a directory */
	DESCRIPTOR_PINS,	    /* the role's directory of pinned BPF objects */
	DESCRIPTOR_PROCESS_MEMORY,  /* /proc/PID/mem or environ, open for reading only */
	DESCRIPTOR_OUTPUT,	    /* something writable that the CLI has given and holds too */
	DESCRIPTOR_OWN_FILE,	    /* a writable file that belongs to the uid of the role */
	DESCRIPTOR_KIND_COUNT
};

#define DESCRIPTOR_BIT(kind) (1u << (kind))

struct sandbox_policy {
	const char *name; /* of the process */
	/* The capabilities during the start and inside the sandbox; -1 ends each list. */
	const cap_value_t *start_capabilities, *steady_capabilities;
	const struct sandbox_syscall *syscalls;
	size_t syscall_count;
	/* The rest of them, where two policies have most in common. */
	const struct sandbox_syscall *more_syscalls;
	size_t more_syscall_count;
	unsigned int files_max;	   /* RLIMIT_NOFILE */
	uint64_t memory_bytes_max; /* RLIMIT_DATA; 0 means no limit */
	unsigned int threads_max;  /* RLIMIT_NPROC, which counts all threads of the uid */
	/* What the role holds once it is in the sandbox, for `bulkhead audit`: sets of
	 * DESCRIPTOR_BIT, of ROLE_BIT, and of 1 << enum bpf_map_type. */
	uint32_t descriptors;
	uint32_t peers;
	uint64_t map_types;
	/* The peers without which the role has nothing to do, a set of ROLE_BIT: it ends with each
	 * of them, and does not begin if one has just ended. */
	uint32_t needs;
	/* Set if Landlock would take away what the role exists for. The policy says why. */
	bool no_landlock;
	/* The policy to use instead with --strict-memory, where no descriptor of a process's memory
	 * may be passed on; NULL if there is no difference. */
	const struct sandbox_policy *strict;
};

enum {
	SANDBOX_PATHS_MAX = 16,
	SANDBOX_PORTS_MAX = 4
};

/* A compiled filter, the paths that a process under it may still open, and the ports of TCP that it
 * may still use. */
struct sandbox {
	void *program; /* struct sock_filter[] */
	size_t program_bytes;
	struct {
		int fd;
		bool writable;
	} paths[SANDBOX_PATHS_MAX];
	unsigned int path_count;
	struct {
		uint16_t port;
		bool bind;
	} ports[SANDBOX_PORTS_MAX];
	unsigned int port_count;
};

/* Compiles the policy's filter. Returns 0 or a negative errno. A sandbox may be prepared again for
 * another policy before anything was allowed in it; sandbox_free() frees the filter before. */
int sandbox_prepare(struct sandbox *sandbox, const struct sandbox_policy *policy);

void sandbox_free(struct sandbox *sandbox);

/* Lets the file or directory tree at `fd` be opened by name after sandbox_enter: to be read or, if
 * `writable`, also to be written, created and removed. The filter and file modes still apply. An
 * O_PATH descriptor is enough; the sandbox owns it from now on. Returns 0 or -ENOSPC. */
int sandbox_allow_path(struct sandbox *sandbox, int fd, bool writable);

/* Lets sockets of TCP connect to this port of any host after sandbox_enter or, if `bind`, be bound
 * to it; with port 0 the kernel chooses one. Landlock restricts TCP from version 4 on (Linux 6.7).
 * On older kernels, and for UDP, only the filter counts. Returns 0 or -ENOSPC. */
int sandbox_allow_port(struct sandbox *sandbox, uint16_t port, bool bind);

/* Becomes `uid` and `gid`, keeps only the policy's start capabilities, and sets no_new_privs and
 * the resource limits. Then proves it: every way back is tried and must fail. A process without
 * root (`bulkhead report`) keeps its ids. Returns 0 or a negative errno, after which the caller
 * must exit. */
int sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid);

/* Keeps only the steady capabilities, restricts the file system and TCP by Landlock where the
 * kernel has it, and installs the filter, which ends the process for any other call. Frees the
 * sandbox. Returns 0 or a negative errno, after which the caller must exit. */
int sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy);

#endif

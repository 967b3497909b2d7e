/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a role becomes nobody: a policy (const, one a role, in <role>/policy.c), the drop of uid and
 * capabilities with its proof, and the sandbox itself. Order: sandbox_prepare, sandbox_drop,
 * (connect to peers), sandbox_enter, first foreign byte.
 */
#ifndef COMMON_SANDBOX_H
#define COMMON_SANDBOX_H

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/types.h>

enum {
	SANDBOX_CONDITIONS_MAX = 2
};

/* One system call that the role may make, with at most one condition on each of two arguments;
 * several lines are alternatives. With an errno, one that fails instead of ending the process: for
 * what libraries try, and can do without. */
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
/* Both must hold, of two different arguments. */
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

struct sandbox_policy {
	const char *name; /* of the process */
	/* Capabilities while starting and once sandboxed, each list ended by -1. */
	const cap_value_t *start_capabilities, *steady_capabilities;
	const struct sandbox_syscall *syscalls;
	size_t syscall_count;
	unsigned int files_max;	   /* RLIMIT_NOFILE */
	uint64_t memory_bytes_max; /* RLIMIT_DATA; 0: no limit */
	unsigned int threads_max;  /* RLIMIT_NPROC, which counts all threads of the uid */
	uint64_t
	    thread_stack_bytes; /* RLIMIT_STACK, from which new threads have theirs; 0: as is */
	bool no_landlock;	/* Landlock would take away what the role exists for; say why in the
				   policy */
	/* The policy instead, where no descriptor of a process's memory may be passed on
	 * (--strict-memory); NULL: no difference. */
	const struct sandbox_policy *strict;
};

enum {
	SANDBOX_PATHS_MAX = 16
};

/* A compiled filter, ready to be installed by a process that can open nothing any more, and the
 * exceptions from that. */
struct sandbox {
	void *program; /* struct sock_filter[] */
	size_t program_bytes;
	struct {
		int fd;
		bool writable;
	} paths[SANDBOX_PATHS_MAX];
	unsigned int path_count;
};

/* Compile the policy's filter. 0 or a negative errno. */
int sandbox_prepare(struct sandbox *sandbox, const struct sandbox_policy *policy);

/* What lies at and below `fd` (O_PATH is enough; the sandbox's from now on) may be opened by name
 * after sandbox_enter() as far as filter and file modes allow: to be read, or also written, made
 * and removed. 0 or -ENOSPC. */
int sandbox_allow_path(struct sandbox *sandbox, int fd, bool writable);

/* Become `uid`/`gid` with the policy's start capabilities only, no_new_privs and the rlimits, and
 * prove it: every way back is tried and must fail. Without root (report) only the capabilities go.
 * 0 or a negative errno; the caller must exit on failure. */
int sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid);

/* Keep the steady capabilities only, restrict the file system by Landlock where the kernel has it,
 * install the filter (default: kill the process), and prove both. Frees the sandbox. */
int sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host and the environment of this process are: the facts by which host_checks.h judges.
 * Collecting them changes nothing. They are read with the rights of the user; everything in files
 * is taken as text that anybody may have written.
 */
#ifndef CLI_HOST_FACTS_H
#define CLI_HOST_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/host_mounts.h"
#include "cli/host_trials.h"

enum {
	HOST_NAME_BYTES = 65, /* of the fields of uname(2), with NUL */
	HOST_LABEL_BYTES = 96,
	HOST_PATH_BYTES = 128,
};

/* A sysctl that cannot be read, and one that this kernel does not have. Others are larger. */
#define HOST_NUMBER_UNKNOWN INT64_MIN
#define HOST_NUMBER_ABSENT (INT64_MIN + 1)
#define HOST_LIMIT_NONE UINT64_MAX
#define HOST_LIMIT_UNKNOWN (UINT64_MAX - 1)

enum host_namespace {
	HOST_NAMESPACE_UNKNOWN,
	HOST_NAMESPACE_INITIAL, /* that of the host */
	HOST_NAMESPACE_OTHER
};

/* Who has started the container, as far as that decides how a remedy is written. */
enum host_runtime {
	HOST_RUNTIME_NONE,
	HOST_RUNTIME_DOCKER, /* or podman, whose options have the same names */
	HOST_RUNTIME_KUBERNETES
};

enum host_lockdown {
	HOST_LOCKDOWN_UNKNOWN,
	HOST_LOCKDOWN_NONE,
	HOST_LOCKDOWN_INTEGRITY,
	HOST_LOCKDOWN_CONFIDENTIALITY
};

struct host_sysctls {
	int64_t perf_event_paranoid, perf_event_max_sample_rate, kptr_restrict;
	int64_t unprivileged_bpf_disabled, bpf_jit_harden, ptrace_scope;
};

struct host_limits {
	/* Hard limits, which the roles cannot raise. */
	uint64_t files, processes;
	uint64_t locked_bytes; /* RLIMIT_MEMLOCK */
	/* The less of RLIMIT_AS and RLIMIT_DATA, in bytes. */
	uint64_t memory_bytes;
	/* Of the cgroup, in bytes. */
	uint64_t cgroup_bytes;
};

struct host_facts {
	/* The process and what it is in. */
	uid_t euid;
	bool sudo; /* the program is installed, and no_new_privs does not make it useless */
	uint64_t effective, bounding; /* sets of 1 << capability */
	enum host_namespace user_namespace, pid_namespace, cgroup_namespace;
	enum host_runtime runtime;
	int64_t seccomp_mode;		  /* 0: none, 2: a filter (proc_pid_status(5)) */
	char lsm_label[HOST_LABEL_BYTES]; /* of the security modules for this process; may be "" */
	struct host_limits limits;
	int run_error;			    /* of access to RUN_DIRECTORY, 0 or an errno */
	char program_path[HOST_PATH_BYTES]; /* of a program of a role that cannot be executed */
	int program_error;		    /* its errno, 0 if all can be */
	/* The kernel. */
	char release[HOST_NAME_BYTES], machine[HOST_NAME_BYTES];
	unsigned int cpus;
	bool sysfs;    /* /sys is mounted */
	int btf_error; /* 0; an errno; EBADMSG: the file is no BTF */
	enum host_lockdown lockdown;
	char lsms[HOST_PATH_BYTES]; /* separated by commas; "" if unknown */
	struct host_sysctls sysctls;
	/* /proc. */
	int mounts_error; /* 0 or an errno */
	struct host_mounts mounts;
	struct host_trials trials;
};

/* Collects everything but the trials, which are set to untried. `root` is a directory before the
 * paths of all files, "" for the host itself. */
void host_facts_collect(const char *root, struct host_facts *facts);

#endif

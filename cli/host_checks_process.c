/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of what this process is and of what it is in: its user, capabilities, namespaces and
 * limits, and the places that the roles need. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>

#include "cli/host_checks_private.h"
#include "common/array.h"
#include "common/exit_status.h"
#include "common/limits.h"

enum {
	NAMES_BYTES = 200,
	/* The least hard limits of open files and of processes with which a recording works,
	 * measured with 2 CPUs and with 3 and 4 language runtimes. The loader needs that many files
	 * for its maps and programs, and has two events per CPU; the opener has three processes. */
	FILES_LEAST = 33,
	FILES_LEAST_PER_RUNTIME = 16,
	FILES_LEAST_PER_CPU = 2,
	/* With CAP_SYS_RESOURCE the roles raise the limit, and only the CLI has to live with it. */
	FILES_LEAST_OF_CLI = 20,
	PROCESSES_LEAST = 3,
	/* Each module has an open file in the manager and the worker, next to those of a start. */
	FILES_ENOUGH = LIMIT_MODULES + 256,
	/* The opener replaces helpers that hang. */
	PROCESSES_ENOUGH = 8,
};

#define MIB ((uint64_t)1 << 20)
/* A recording works with RLIMIT_AS at 16 MiB and RLIMIT_DATA at 16 MiB, and not with 14 and 8: the
 * loader cannot read the kernel's BTF. The worker may use 256 MiB (its policy). */
#define MEMORY_LEAST (16 * MIB)
#define MEMORY_ENOUGH (256 * MIB)
/* In a cgroup with 24 MiB the kernel ends a role, with 32 MiB it does not (50 processes). The
 * budget for 500 processes is 64 MiB. */
#define CGROUP_LEAST (25 * MIB)
#define CGROUP_ENOUGH (64 * MIB)

static const struct {
	cap_value_t value;
	const char *name;
	bool strictly; /* with --strict-memory too */
} needed[] = {
    {CAP_BPF, "BPF", true},
    {CAP_PERFMON, "PERFMON", true},
    {CAP_SYSLOG, "SYSLOG", true},
    {CAP_SYS_PTRACE, "SYS_PTRACE", true},
    {CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH", false},
    {CAP_CHECKPOINT_RESTORE, "CHECKPOINT_RESTORE", false},
    {CAP_SETUID, "SETUID", true},
    {CAP_SETGID, "SETGID", true},
    {CAP_SETPCAP, "SETPCAP", true},
    {CAP_CHOWN, "CHOWN", true},
};

void check_judge_user(const struct host_facts *facts, const struct check_wants *wants,
		      struct check_result *result)
{
	(void)wants;
	if (facts->euid == 0) {
		check_ok(result, "root");
		return;
	}
	check_fault(result, STATUS_NOT_PERMITTED, "only root can profile");
	if (facts->sudo)
		check_remedy(result, "run it with sudo");
	else
		check_remedy_by_runtime(result, facts->runtime, "run the container with --user 0",
					"set securityContext.runAsUser of the container to 0",
					"run it as root");
}

/* Returns whether it is a namespace other than that of the host. If not, the result is written. */
static bool is_other_namespace(enum host_namespace namespace, struct check_result *result)
{
	if (namespace == HOST_NAMESPACE_INITIAL)
		check_ok(result, "that of the host");
	else if (namespace == HOST_NAMESPACE_UNKNOWN)
		check_unknown(result, "cannot read /proc/self/ns");
	return namespace == HOST_NAMESPACE_OTHER;
}

void check_judge_user_namespace(const struct host_facts *facts, const struct check_wants *wants,
				struct check_result *result)
{
	(void)wants;
	if (!is_other_namespace(facts->user_namespace, result))
		return;
	check_fault(result, STATUS_NOT_PERMITTED,
		    "root of a user namespace may use neither BPF nor perf events");
	check_remedy_by_runtime(result, facts->runtime, "run the container with --userns=host",
				"set hostUsers: true in the spec of the pod",
				"run it as root outside of the user namespace");
}

/* Returns the capabilities of root here. Another user would get those of the bounding set by
 * becoming root. */
static uint64_t root_capabilities(const struct host_facts *facts)
{
	return facts->euid == 0 ? facts->effective : facts->bounding;
}

/* Returns the needed capabilities that root lacks here. */
static uint64_t missing_capabilities(const struct host_facts *facts, bool strict_memory)
{
	uint64_t missing = 0;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (needed[i].strictly || !strict_memory)
			missing |= CHECK_CAPABILITY(needed[i].value);
	}
	return missing & ~root_capabilities(facts);
}

bool check_can_try(const struct host_facts *facts, uint64_t capabilities,
		   struct check_result *result)
{
	if (facts->euid != 0)
		check_unknown(result, "cannot be tried without root");
	else if (capabilities & ~facts->effective)
		check_unknown(result, "cannot be tried without the missing capabilities");
	else if (facts->user_namespace == HOST_NAMESPACE_OTHER)
		check_unknown(result, "cannot be tried in a user namespace");
	else
		return true;
	return false;
}

/* Writes the names of a set of capabilities with `before` before each, and `between` them. */
static const char *name_capabilities(uint64_t set, const char *before, const char *between,
				     char names[static NAMES_BYTES])
{
	size_t used = 0;

	names[0] = 0;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (set & CHECK_CAPABILITY(needed[i].value))
			used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%s%s",
						 used ? between : "", before, needed[i].name);
	}
	return names;
}

void check_judge_capabilities(const struct host_facts *facts, const struct check_wants *wants,
			      struct check_result *result)
{
	const uint64_t missing = missing_capabilities(facts, wants->strict_memory);
	char names[NAMES_BYTES];

	if (!missing) {
		check_ok(result,
			 facts->euid == 0 ? "all that are needed" : "root has all that are needed");
		return;
	}
	check_fault(result, STATUS_NOT_PERMITTED, "missing capabilities: %s",
		    name_capabilities(missing, "CAP_", ", ", names));
	if (!missing_capabilities(facts, true))
		check_remedy(result, "use --strict-memory (agent: runtimes.strict_memory), which "
				     "reads only what everybody may read");
	else if (facts->runtime == HOST_RUNTIME_DOCKER)
		check_remedy(result, "run the container with %s",
			     name_capabilities(missing, "--cap-add ", " ", names));
	else if (facts->runtime == HOST_RUNTIME_KUBERNETES)
		check_remedy(result, "add to securityContext.capabilities.add of the container: %s",
			     name_capabilities(missing, "", ", ", names));
	else
		check_remedy(result,
			     "grant it to the service that runs bulkhead: add to "
			     "CapabilityBoundingSet= %s",
			     name_capabilities(missing, "CAP_", " ", names));
}

void check_judge_pid_namespace(const struct host_facts *facts, const struct check_wants *wants,
			       struct check_result *result)
{
	(void)wants;
	if (!is_other_namespace(facts->pid_namespace, result))
		return;
	check_restriction(result, "not that of the host, so most programs are shown without their "
				  "functions (process_unknown)");
	check_remedy_by_runtime(result, facts->runtime, "run the container with --pid=host",
				"set hostPID: true in the spec of the pod",
				"run it outside of the pid namespace");
}

void check_judge_cgroups(const struct host_facts *facts, const struct check_wants *wants,
			 struct check_result *result)
{
	(void)wants;
	if (facts->mounts_error) {
		check_unknown(result, "cannot read /proc/self/mountinfo");
		return;
	}
	if (facts->mounts.cgroup2.path[0]) {
		check_ok(result,
			 facts->cgroup_namespace == HOST_NAMESPACE_OTHER
			     ? "version 2 at %s, seen from a cgroup namespace"
			     : "version 2 at %s",
			 facts->mounts.cgroup2.path);
		return;
	}
	check_restriction(result, "no hierarchy of version 2 is mounted, so -G selects nothing");
	check_remedy(result, "run mount -t cgroup2 none /sys/fs/cgroup");
}

/* Writes how the limit of open files is raised. */
static void files_remedy(const struct host_facts *facts, struct check_result *result)
{
	check_remedy_by_runtime(result, facts->runtime,
				"run the container with --ulimit nofile=65536",
				"set LimitNOFILE=65536 in the unit of the container runtime",
				"run ulimit -n 65536, or set LimitNOFILE=65536 in the unit");
}

/* Returns how many files one process must be able to open. */
static uint64_t files_least(const struct host_facts *facts, const struct check_wants *wants)
{
	const uint64_t runtimes = (uint64_t)__builtin_popcount(wants->runtimes);

	return FILES_LEAST + FILES_LEAST_PER_RUNTIME * runtimes +
	       FILES_LEAST_PER_CPU * (uint64_t)facts->cpus;
}

void check_judge_files(const struct host_facts *facts, const struct check_wants *wants,
		       struct check_result *result)
{
	const uint64_t files = facts->limits.files;
	const bool raised = root_capabilities(facts) & CHECK_CAPABILITY(CAP_SYS_RESOURCE);
	const uint64_t least = raised ? FILES_LEAST_OF_CLI : files_least(facts, wants);

	if (files == HOST_LIMIT_UNKNOWN) {
		check_unknown(result, "cannot read the limit of open files");
	} else if (files < least) {
		check_fault(result, STATUS_FAILED,
			    "%" PRIu64 " files may be open, and this host needs %" PRIu64, files,
			    least);
		files_remedy(facts, result);
	} else if (files < FILES_ENOUGH && !raised) {
		check_restriction(result,
				  "%" PRIu64 " files may be open, so on a host with many programs "
				  "some have no names",
				  files);
		files_remedy(facts, result);
	} else if (files == HOST_LIMIT_NONE) {
		check_ok(result, "any number may be open");
	} else {
		check_ok(result, "%" PRIu64 " may be open", files);
	}
}

void check_judge_process_limit(const struct host_facts *facts, const struct check_wants *wants,
			       struct check_result *result)
{
	const uint64_t processes = facts->limits.processes;

	(void)wants;
	if (processes == HOST_LIMIT_UNKNOWN) {
		check_unknown(result, "cannot read the limit of processes");
		return;
	}
	if (processes >= PROCESSES_ENOUGH) {
		check_ok(result, "each role may have %d or more", PROCESSES_ENOUGH);
		return;
	}
	if (processes < PROCESSES_LEAST)
		check_fault(result, STATUS_FAILED,
			    "a user may have %" PRIu64 " processes, and a role needs %d", processes,
			    PROCESSES_LEAST);
	else
		check_restriction(result,
				  "a user may have %" PRIu64 " processes, so a helper that hangs "
				  "cannot be replaced",
				  processes);
	check_remedy_by_runtime(result, facts->runtime, "run the container with --ulimit nproc=64",
				"set LimitNPROC=64 in the unit of the container runtime",
				"run ulimit -u 64, or set LimitNPROC=64 in the unit");
}

/* Judges the limit of the cgroup. Returns whether it is a fault or restriction. */
static bool judge_cgroup_memory(const struct host_facts *facts, struct check_result *result)
{
	const uint64_t bytes = facts->limits.cgroup_bytes;

	if (bytes >= CGROUP_ENOUGH)
		return false;
	if (bytes < CGROUP_LEAST)
		check_fault(result, STATUS_FAILED,
			    "the cgroup may use %" PRIu64 " MiB, and a recording needs about 32",
			    bytes / MIB);
	else
		check_restriction(result,
				  "the cgroup may use %" PRIu64
				  " MiB; on a host with many programs "
				  "the kernel ends a role",
				  bytes / MIB);
	check_remedy_by_runtime(result, facts->runtime,
				"run the container with --memory=128m or more",
				"set resources.limits.memory of the container to 128Mi or more",
				"set MemoryMax=128M or more in the unit");
	return true;
}

void check_judge_memory(const struct host_facts *facts, const struct check_wants *wants,
			struct check_result *result)
{
	const struct host_limits *limits = &facts->limits;
	const uint64_t bytes = limits->memory_bytes;

	(void)wants;
	if (bytes < MEMORY_LEAST) {
		check_fault(result, STATUS_FAILED,
			    "a process may use %" PRIu64 " MiB, and the loader needs 16",
			    bytes / MIB);
		check_remedy(result, "run ulimit -v unlimited and ulimit -d unlimited");
	} else if (judge_cgroup_memory(facts, result)) {
		return;
	} else if (bytes < MEMORY_ENOUGH) {
		check_restriction(
		    result, "a process may use %" PRIu64 " MiB, so large files may have no names",
		    bytes / MIB);
		check_remedy(result, "run ulimit -v unlimited and ulimit -d unlimited");
	} else if (limits->cgroup_bytes == HOST_LIMIT_UNKNOWN) {
		check_unknown(result, "cannot find the limit of the cgroup");
	} else if (limits->cgroup_bytes == HOST_LIMIT_NONE) {
		check_ok(result, "no limit below 256 MiB");
	} else {
		check_ok(result, "the cgroup may use %" PRIu64 " MiB", limits->cgroup_bytes / MIB);
	}
}

void check_judge_run_directory(const struct host_facts *facts, const struct check_wants *wants,
			       struct check_result *result)
{
	/* An agent has a directory of its own, which it checks itself. */
	if (wants->agent || !facts->run_error) {
		check_ok(result, "/run is writable");
		return;
	}
	if (facts->euid != 0 && facts->run_error == EACCES) {
		check_unknown(result, "cannot be tried without root");
		return;
	}
	check_fault(result, STATUS_FAILED, "cannot create the run directory in /run: %s",
		    strerror(facts->run_error));
	check_remedy_by_runtime(result, facts->runtime, "run the container with --tmpfs /run",
				"mount a volume of type emptyDir at /run",
				"run mount -t tmpfs tmpfs /run, or set ReadWritePaths=/run in "
				"the unit");
}

void check_judge_programs(const struct host_facts *facts, const struct check_wants *wants,
			  struct check_result *result)
{
	(void)wants;
	if (facts->mounts_error == ENOENT) {
		check_unknown(result, "cannot be found without /proc");
	} else if (!facts->program_error) {
		check_ok(result, "all are installed");
	} else {
		check_fault(result, STATUS_FAILED, "cannot execute %s: %s", facts->program_path,
			    strerror(facts->program_error));
		check_remedy(result, "reinstall bulkhead; all of its programs must be in one "
				     "directory");
	}
}

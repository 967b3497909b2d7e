/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/host_memory.h"
#include "cli/host_text.h"
#include "cli/program_path.h"
#include "common/roles.h"

enum {
	/* /proc/PID/status has some 1.5 KiB, more on machines with many CPUs and memory nodes. */
	STATUS_BYTES = 16 << 10,
	/* The first bytes of BTF: magic, version, flags (include/uapi/linux/btf.h). */
	BTF_MAGIC_BYTES = 4,
	BTF_MAGIC = 0xeb9f,
	BTF_VERSION = 1,
};

static void collect_capabilities(struct host_facts *facts)
{
	cap_t caps = cap_get_proc();

	for (cap_value_t c = 0; c <= CAP_LAST_CAP; c++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (caps)
			cap_get_flag(caps, c, CAP_EFFECTIVE, &has);
		facts->effective |= (uint64_t)(has == CAP_SET) << c;
		facts->bounding |= (uint64_t)(prctl(PR_CAPBSET_READ, c) == 1) << c;
	}
	if (caps)
		cap_free(caps);
}

/* The kernel gives the first namespace of each kind a fixed number (include/linux/proc_ns.h). */
static enum host_namespace read_namespace(const char *root, const char *kind, const char *initial)
{
	char path[PATH_MAX], target[64];

	snprintf(path, sizeof(path), "%s/proc/self/ns/%s", root, kind);
	const ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return HOST_NAMESPACE_UNKNOWN;
	target[n] = 0;
	return strcmp(target, initial) ? HOST_NAMESPACE_OTHER : HOST_NAMESPACE_INITIAL;
}

static bool exists(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return access(full, F_OK) == 0;
}

/* Each of them leaves a file in its containers. */
static enum host_runtime find_runtime(const char *root)
{
	if (exists(root, "/var/run/secrets/kubernetes.io") || getenv("KUBERNETES_SERVICE_HOST"))
		return HOST_RUNTIME_KUBERNETES;
	if (exists(root, "/.dockerenv") || exists(root, "/run/.containerenv"))
		return HOST_RUNTIME_DOCKER;
	return HOST_RUNTIME_NONE;
}

/* Reads a field of /proc/self/status. The name of the process, which comes first, cannot contain a
 * newline there. */
static int64_t read_status_number(const char *status, const char *field)
{
	const char *line = strstr(status, field);
	char *end;

	if (!line)
		return HOST_NUMBER_UNKNOWN;
	line += strlen(field);
	errno = 0;
	const int64_t value = strtoll(line, &end, 10);
	return end == line || errno || *end != '\n' ? HOST_NUMBER_UNKNOWN : value;
}

static void collect_process(const char *root, struct host_facts *facts)
{
	char status[STATUS_BYTES];

	facts->euid = geteuid();
	collect_capabilities(facts);
	host_text_read(root, "/proc/self/status", status, sizeof(status));
	facts->sudo =
	    exists(root, "/usr/bin/sudo") && read_status_number(status, "\nNoNewPrivs:") != 1;
	facts->seccomp_mode = read_status_number(status, "\nSeccomp:");
	facts->user_namespace = read_namespace(root, "user", "user:[4026531837]");
	facts->pid_namespace = read_namespace(root, "pid", "pid:[4026531836]");
	facts->cgroup_namespace = read_namespace(root, "cgroup", "cgroup:[4026531835]");
	facts->runtime = find_runtime(root);
	host_text_read(root, "/proc/self/attr/current", facts->lsm_label, sizeof(facts->lsm_label));
	facts->lsm_label[strcspn(facts->lsm_label, "\n")] = 0;
}

static int read_btf(const char *root)
{
	unsigned char head[BTF_MAGIC_BYTES + 1];
	const ssize_t n =
	    host_text_read(root, "/sys/kernel/btf/vmlinux", (char *)head, sizeof(head));

	if (n < 0)
		return (int)-n;
	return n == BTF_MAGIC_BYTES && (head[0] | head[1] << 8) == BTF_MAGIC &&
		       head[2] == BTF_VERSION
		   ? 0
		   : EBADMSG;
}

/* The file has all modes, with the one in force in brackets. */
static enum host_lockdown read_lockdown(const char *root)
{
	char text[128];

	host_text_read(root, "/sys/kernel/security/lockdown", text, sizeof(text));
	if (strstr(text, "[confidentiality]"))
		return HOST_LOCKDOWN_CONFIDENTIALITY;
	if (strstr(text, "[integrity]"))
		return HOST_LOCKDOWN_INTEGRITY;
	return strstr(text, "[none]") ? HOST_LOCKDOWN_NONE : HOST_LOCKDOWN_UNKNOWN;
}

static int64_t read_sysctl(const char *root, const char *path)
{
	int64_t value = HOST_NUMBER_UNKNOWN;
	const int r = host_text_read_number(root, path, &value);

	return r == -ENOENT ? HOST_NUMBER_ABSENT : value;
}

static void collect_kernel(const char *root, struct host_facts *facts)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname name;

	if (uname(&name) == 0) {
		snprintf(facts->release, sizeof(facts->release), "%s", name.release);
		snprintf(facts->machine, sizeof(facts->machine), "%s", name.machine);
	}
	facts->cpus = cpus > 0 ? (unsigned int)cpus : 1;
	facts->sysfs = exists(root, "/sys/kernel");
	facts->btf_error = read_btf(root);
	facts->lockdown = read_lockdown(root);
	host_text_read(root, "/sys/kernel/security/lsm", facts->lsms, sizeof(facts->lsms));
	facts->lsms[strcspn(facts->lsms, "\n")] = 0;
	facts->sysctls = (struct host_sysctls){
	    .perf_event_paranoid = read_sysctl(root, "/proc/sys/kernel/perf_event_paranoid"),
	    .perf_event_max_sample_rate =
		read_sysctl(root, "/proc/sys/kernel/perf_event_max_sample_rate"),
	    .kptr_restrict = read_sysctl(root, "/proc/sys/kernel/kptr_restrict"),
	    .unprivileged_bpf_disabled =
		read_sysctl(root, "/proc/sys/kernel/unprivileged_bpf_disabled"),
	    .bpf_jit_harden = read_sysctl(root, "/proc/sys/net/core/bpf_jit_harden"),
	    .ptrace_scope = read_sysctl(root, "/proc/sys/kernel/yama/ptrace_scope"),
	};
}

static uint64_t read_limit(__rlimit_resource_t resource, bool hard)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return HOST_LIMIT_UNKNOWN;
	const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
	return value == RLIM_INFINITY ? HOST_LIMIT_NONE : value;
}

static void collect_limits(const char *root, struct host_facts *facts)
{
	/* The roles keep the soft limits of memory. */
	const uint64_t space = read_limit(RLIMIT_AS, false), data = read_limit(RLIMIT_DATA, false);
	struct host_limits *limits = &facts->limits;

	limits->files = read_limit(RLIMIT_NOFILE, true);
	limits->processes = read_limit(RLIMIT_NPROC, true);
	limits->locked_bytes = read_limit(RLIMIT_MEMLOCK, true);
	limits->memory_bytes = space < data ? space : data;
	if (host_memory_read_limit(root, &facts->mounts, &limits->cgroup_bytes) < 0)
		limits->cgroup_bytes = HOST_LIMIT_UNKNOWN;
}

/* Looks at what the start of the roles needs: their run directory, and their programs. */
static void collect_start(const char *root, struct host_facts *facts)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/run", root);
	facts->run_error = faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT && !facts->program_error; role++) {
		program_path(role_names[role].program, path, sizeof(path));
		if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
			continue;
		facts->program_error = errno;
		snprintf(facts->program_path, sizeof(facts->program_path), "%s",
			 role_names[role].program);
	}
}

void host_facts_collect(const char *root, struct host_facts *facts)
{
	*facts = (struct host_facts){0};
	facts->mounts_error = -host_mounts_read(root, &facts->mounts);
	collect_process(root, facts);
	collect_kernel(root, facts);
	collect_limits(root, facts);
	collect_start(root, facts);
	host_trials_clear(&facts->trials);
}

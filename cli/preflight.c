/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/exit_status.h"

/*
 * How this works: each check looks for one thing that would make the start fail later in a role,
 * where it would be harder to explain. The order is: privileges, kernel, filters, because without
 * privileges the later checks cannot find out what is missing. The first failed check prints one
 * line with what is missing and what to do.
 *
 * Example: Debian sets kernel.perf_event_paranoid to 3, which refuses perf events to a process that
 * has CAP_PERFMON but not CAP_SYS_ADMIN. The loader will have CAP_PERFMON alone. So a child process
 * drops all other capabilities and opens a perf event; if this fails, the setting is named.
 */
static int refuse(int status, const char *what, const char *remedy)
{
	fprintf(stderr, "bulkhead: %s; %s\n", what, remedy);
	return status;
}

/* Returns whether the capability is needed with --strict-memory too. */
static bool is_needed_strictly(cap_value_t value)
{
	return value != CAP_DAC_READ_SEARCH && value != CAP_CHECKPOINT_RESTORE;
}

static int check_capabilities(bool strict_memory)
{
	static const struct {
		cap_value_t value;
		const char *what;
	} needed[] = {
	    {CAP_BPF, "CAP_BPF is missing"},
	    {CAP_PERFMON, "CAP_PERFMON is missing"},
	    {CAP_SYSLOG, "CAP_SYSLOG is missing"},
	    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE is missing"},
	    {CAP_DAC_READ_SEARCH,
	     "CAP_DAC_READ_SEARCH is missing (--strict-memory does without it)"},
	    {CAP_CHECKPOINT_RESTORE,
	     "CAP_CHECKPOINT_RESTORE is missing (--strict-memory does without it)"},
	    {CAP_SETUID, "CAP_SETUID is missing"},
	    {CAP_SETGID, "CAP_SETGID is missing"},
	    {CAP_SETPCAP, "CAP_SETPCAP is missing"},
	    {CAP_CHOWN, "CAP_CHOWN is missing"},
	};

	if (geteuid() != 0)
		return refuse(STATUS_NOT_PERMITTED, "only root can profile", "run it with sudo");
	cap_t caps = cap_get_proc();
	int status = STATUS_DONE;
	for (size_t i = 0; caps && !status && i < sizeof(needed) / sizeof(needed[0]); i++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (strict_memory && !is_needed_strictly(needed[i].value))
			continue;
		cap_get_flag(caps, needed[i].value, CAP_EFFECTIVE, &has);
		if (has != CAP_SET)
			status = refuse(STATUS_NOT_PERMITTED, needed[i].what,
					"grant it to the container or service that runs bulkhead");
	}
	if (caps)
		cap_free(caps);
	return status;
}

/* Runs in a child: tries to sample a CPU with CAP_PERFMON alone, as the loader will have it.
 * Returns 0 or an errno. */
static int try_perf_event(void)
{
	const cap_value_t perfmon = CAP_PERFMON;
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_CPU_CLOCK,
				       .sample_period = 1000000000,
				       .disabled = 1};
	cap_t caps = cap_init();

	cap_set_flag(caps, CAP_PERMITTED, 1, &perfmon, CAP_SET);
	cap_set_flag(caps, CAP_EFFECTIVE, 1, &perfmon, CAP_SET);
	if (cap_set_proc(caps) < 0)
		return errno;
	return syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC) < 0 ? errno : 0;
}

static int check_perf_events(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(try_perf_event());
	if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		return STATUS_DONE;
	switch (WEXITSTATUS(status)) {
	case EACCES:
	case EPERM:
		return refuse(STATUS_NOT_PERMITTED,
			      "the kernel refuses perf events to a process with CAP_PERFMON",
			      "kernel.perf_event_paranoid is above 2, or a security module forbids "
			      "them: run sysctl kernel.perf_event_paranoid=2");
	case ENOSYS:
	case ENOENT:
		return refuse(STATUS_KERNEL, "the kernel has no perf events",
			      "use a kernel that is built with CONFIG_PERF_EVENTS");
	default:
		return STATUS_DONE;
	}
}

static int check_kernel(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return refuse(STATUS_KERNEL, "the kernel has no BTF (/sys/kernel/btf/vmlinux)",
			      "use Linux 5.10 or later, built with CONFIG_DEBUG_INFO_BTF=y");
	return check_perf_events();
}

/* Finds where cgroup v2 is mounted: the fifth field of the line with this type in
 * /proc/self/mountinfo (proc(5)). */
static int find_cgroup_mount(char *mount, size_t size)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0) {
		char *saved, *field = strtok_r(line, " ", &saved);

		for (int i = 0; field && i < 4; i++)
			field = strtok_r(NULL, " ", &saved);
		if (!field || !saved || !strstr(saved, "- cgroup2 "))
			continue;
		snprintf(mount, size, "%s", field);
		return 0;
	}
	return -ENOENT;
}

/* Finds the id and the depth of a cgroup (version 2). Its path may be absolute, relative to the
 * mount, or start with a slash that stands for the mount. */
static int find_cgroup(struct record_options *o)
{
	const char *path = o->cgroup;
	char mount[PATH_MAX / 2], full[PATH_MAX], real[PATH_MAX];
	struct stat st;

	if (find_cgroup_mount(mount, sizeof(mount)) < 0)
		return refuse(STATUS_KERNEL, "no cgroup v2 hierarchy is mounted",
			      "mount one, or select processes by -p or --comm");
	const bool below = !strncmp(path, mount, strlen(mount));
	snprintf(full, sizeof(full), "%s%s%s", below ? "" : mount,
		 below || path[0] == '/' ? "" : "/", path);
	if (!realpath(full, real) || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    strncmp(real, mount, strlen(mount)) != 0) {
		fprintf(stderr,
			"bulkhead: the cgroup %s does not exist; systemd-cgls lists cgroups\n",
			full);
		return STATUS_FAILED;
	}
	o->cgroup_id = st.st_ino;
	o->cgroup_level = 0;
	for (const char *p = real + strlen(mount); *p; p++)
		o->cgroup_level += *p == '/' && p[1] && p[1] != '/';
	if (strlen(real) < sizeof(o->cgroup_path))
		memcpy(o->cgroup_path, real, strlen(real) + 1);
	return STATUS_DONE;
}

static int check_filters(struct record_options *o)
{
	char path[64];

	for (unsigned int i = 0; i < o->pid_count; i++) {
		if (kill((pid_t)o->pids[i], 0) < 0 && errno == ESRCH) {
			fprintf(stderr,
				"bulkhead: process %u does not exist; ps -e lists processes\n",
				o->pids[i]);
			return STATUS_FAILED;
		}
	}
	snprintf(path, sizeof(path), "/proc/%u/comm", o->tid);
	if (o->tid && access(path, F_OK) < 0) {
		fprintf(stderr, "bulkhead: thread %u does not exist; ps -eL lists threads\n",
			o->tid);
		return STATUS_FAILED;
	}
	return o->cgroup ? find_cgroup(o) : STATUS_DONE;
}

int preflight_check(struct record_options *options)
{
	int status = check_capabilities(options->strict_memory);

	if (!status)
		status = check_kernel();
	if (!status)
		status = check_filters(options);
	return status;
}

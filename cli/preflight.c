/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/preflight.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/escape.h"
#include "common/exit_status.h"

/*
 * How this works: the checks of host_checks.h look for what would make the start fail later in a
 * role, where it would be harder to explain. The first fault, or the first filter that selects
 * nothing, prints one line with what is missing and what to do.
 */
static int refuse(int status, const char *what, const char *remedy)
{
	fprintf(stderr, "bulkhead: %s; %s\n", what, remedy);
	return status;
}

/* Judges the host by the checks of `bulkhead doctor`, up to the first fault. */
static int check_host(const struct host_facts *facts, const struct check_wants *wants)
{
	for (size_t i = 0; i < host_check_count; i++) {
		struct check_result result;

		host_check_judge(&host_checks[i], facts, wants, &result);
		if (result.status != CHECK_FAULT)
			continue;
		/* Names of security modules' domains may hold anything. */
		char found[CHECK_TEXT_BYTES];

		escape_text(found, sizeof(found), result.found, strlen(result.found),
			    ESCAPE_KEEP_PRINTABLE, NULL);
		return refuse(result.exit_status, found, result.remedy);
	}
	return STATUS_DONE;
}

/* Finds the id and the depth of a cgroup (version 2). Its path may be absolute, relative to the
 * mount, or start with a slash that stands for the mount. */
static int find_cgroup(struct record_options *o, const struct host_mounts *mounts)
{
	const char *path = o->cgroup, *mount = mounts->cgroup2.path;
	char full[PATH_MAX], real[PATH_MAX];
	struct stat st;

	if (!mount[0])
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

static int check_filters(struct record_options *o, const struct host_mounts *mounts)
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
	return o->cgroup ? find_cgroup(o, mounts) : STATUS_DONE;
}

int preflight_check(const struct check_wants *wants, struct record_options *options)
{
	static struct host_facts facts;

	host_facts_collect("", &facts);
	host_trials_make(TRIALS_NO_PROCESSES, &facts.trials);
	int status = check_host(&facts, wants);
	if (!status && options)
		status = check_filters(options, &facts.mounts);
	return status;
}

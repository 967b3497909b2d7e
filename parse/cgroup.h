/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/cgroup: which container a process is in. Lines "hierarchy:controllers:path"
 * (cgroups(7)), by the kernel; the names in the paths are given by container runtimes, and by
 * whoever else may make cgroups: what stands there is a claim, good for a label and for nothing
 * else. Read from within a cgroup namespace, a path outside of it begins with "/..", and a process
 * in the reader's own cgroup is at "/".
 */
#ifndef PARSE_CGROUP_H
#define PARSE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

enum {
	CGROUP_TEXT_MAX = 16 << 10, /* bytes of a file that are looked at: a line a hierarchy */
	CGROUP_CONTAINER_MAX = 128  /* bytes of an id */
};

struct cgroup_container {
	char id[CGROUP_CONTAINER_MAX + 1]; /* of [A-Za-z0-9_.:-]; "": in no container */
	/* It was found in the unified hierarchy (v2), and the process is in no other (v1) but at
	 * their roots: whoever is in the same cgroup of v2 is in the same container. On a host
	 * whose runtimes use v1, all containers may share one cgroup of v2. */
	bool by_unified_alone;
};

/*
 * The container of the process with this text, or none. Where containers are nested, the innermost;
 * where hierarchies differ, the most deeply nested one. Known are
 *	Docker, containerd, CRI-O, Podman: 64 hex digits, alone or behind a prefix, as a scope or
 *		not; the monitors (conmon) are not in the container;
 *	ECS on Fargate: 32 hex digits, a dash and a decimal number;
 *	Kubernetes and Garden also: a UUID below a pod, or below "garden";
 *	LXC, LXD, Incus: the container's name; the monitor is not in the container;
 *	systemd-nspawn: the machine's name, for what is below its "payload". Virtual machines are
 *		registered under the same kind of scope, and are none.
 * Lines that are malformed, or whose end is missing, are skipped.
 */
void cgroup_parse(const char *text, size_t length, struct cgroup_container *container);

#endif

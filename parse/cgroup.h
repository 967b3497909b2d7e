/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines the container of a process from /proc/PID/cgroup, which has lines
 * "hierarchy:controllers:path" (cgroups(7)). Pure.
 *
 * The paths are named by container runtimes, and by everybody else who may create cgroups. So an id
 * is a claim that is good enough for a label. For anything else there is
 * cgroup_container_of_host().
 *
 * If the reader is in a cgroup namespace, a path outside of it starts with "/..", and a process in
 * the reader's own cgroup has the path "/".
 */
#ifndef PARSE_CGROUP_H
#define PARSE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CGROUP_TEXT_MAX = 16 << 10, /* bytes of the text, which has one line per hierarchy */
	CGROUP_CONTAINER_MAX = 128  /* bytes of an id; those of the runtimes below are shorter */
};

struct cgroup_container {
	char id[CGROUP_CONTAINER_MAX + 1]; /* of [A-Za-z0-9_.:-]; "": in no container */
	/* The id was found in the unified hierarchy (v2), and in all others (v1) the process is at
	 * the root. Then all processes in the same v2 cgroup are in this container. Otherwise that
	 * cannot be concluded: where runtimes use v1, all containers may share one v2 cgroup. */
	bool by_unified_alone;
};

/*
 * Determines the container of the process with this text, or none. If containers are nested, it is
 * the innermost one; if hierarchies disagree, the most deeply nested one. These are recognised:
 *	- Docker, containerd, CRI-O, Podman: 64 hex digits, alone or after a prefix, with or without
 *	  ".scope". Their monitors (conmon) are not in the container.
 *	- ECS on Fargate: 32 hex digits, a dash, and a decimal number.
 *	- Kubernetes and Garden also: a UUID below a pod, or below "garden".
 *	- LXC, LXD, Incus: the container's name. Their monitor is not in the container.
 *	- systemd-nspawn: the machine's name, for processes below its "payload". Virtual machines
 *	  are registered with the same kind of scope, but are not containers.
 *
 * Lines that are malformed or cut off are skipped.
 */
void cgroup_parse(const char *text, size_t length, struct cgroup_container *container);

/*
 * Returns a number for the outermost container that the machine's own container runtime has made,
 * or 0 if there is none. Users to whom systemd has given a part of the tree, and containers that
 * make others, cannot choose it: what is below a service, or in user.slice, does not count, and
 * neither does what is within a container. For an id of hex digits, the number is its first 16.
 */
uint64_t cgroup_container_of_host(const char *text, size_t length);

#endif

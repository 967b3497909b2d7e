/* SPDX-License-Identifier: Apache-2.0 */
/* The list of CPUs that are online. */
#ifndef LOADER_CPUS_H
#define LOADER_CPUS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	CPUS_MAX = 1024 /* as many as the manager has sideband rings */
};

struct cpu_set {
	bool online[CPUS_MAX];
};

/* Parses a list such as "0-3,5\n", the format of /sys/devices/system/cpu/online. CPUs from CPUS_MAX
 * on are left out. Returns 0 or -EINVAL. */
int cpus_parse(const char *text, struct cpu_set *set);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADER_CPUS_H
#define LOADER_CPUS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	CPUS_MAX = 1024
};

struct cpu_set {
	bool online[CPUS_MAX];
};

/* "0-3,5\n" as in /sys/devices/system/cpu/online. 0 or -EINVAL; CPUs beyond CPUS_MAX are left out.
 */
int cpus_parse(const char *text, struct cpu_set *set);

#endif

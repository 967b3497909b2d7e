/* SPDX-License-Identifier: Apache-2.0 */
/* Without an argument, prints the names of all workloads and the items that their costs are divided
 * by. With a name, runs that workload once. */
#include "tests/bench/stable/workloads.h"

#include <stdio.h>
#include <string.h>

static const struct workload {
	const char *name, *item;
	void (*run)(void);
} workloads[] = {
#define WORKLOAD(name, item) {#name, item, workload_##name},
    WORKLOADS(WORKLOAD)
#undef WORKLOAD
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
		if (argc < 2) {
			printf("%s\t%s\n", workloads[i].name, workloads[i].item);
		} else if (!strcmp(argv[1], workloads[i].name)) {
			workloads[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the part of a role's unit that follows from its policy: capabilities, the number of open
 * files, and the system calls.
 *
 *	unit_policy ROLE
 *
 * How this works. deploy/start_calls.h has the system calls of a role from its start to its end.
 * The filter of a unit knows names of calls only. The role's own filter, which is added to it, also
 * looks at arguments.
 *
 * Calls that the unit does not allow fail with EPERM (SystemCallErrorNumber=), which is what the
 * proof in sandbox_drop() expects of setresuid and its like. In the sandbox the role's own filter
 * is stricter and ends the process.
 */
#include <ctype.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/start_calls.h"

enum {
	LINE_COLUMNS = 100
};

struct names {
	char *name[START_CALLS_MAX];
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_names(struct names *names, const struct start_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		char *name =
		    seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, calls->call[i]->number);

		if (!name) {
			fprintf(stderr, "unit_policy: libseccomp does not know a system call\n");
			exit(1);
		}
		names->name[names->count++] = name;
	}
}

static void print_filter(const struct names *names)
{
	int column = 0;

	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->name[i];

		if (i && !strcmp(name, names->name[i - 1]))
			continue;
		if (!column || column + 1 + (int)strlen(name) > LINE_COLUMNS)
			column = printf("%sSystemCallFilter=%s", i ? "\n" : "", name);
		else
			column += printf(" %s", name);
	}
	printf("\n");
}

static void print_capabilities(const char *setting, const struct sandbox_policy *policy)
{
	printf("%s=", setting);
	for (const cap_value_t *value = policy->start_capabilities; *value >= 0; value++) {
		char *name = cap_to_name(*value);

		if (!name) {
			fprintf(stderr, "unit_policy: libcap does not know a capability\n");
			exit(1);
		}
		for (char *c = name; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		printf("%s%s", value == policy->start_capabilities ? "" : " ", name);
		cap_free(name);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	const struct start_role *role = argc == 2 ? start_role_find(argv[1], START_IN_UNIT) : NULL;
	struct names names = {.count = 0};
	struct start_calls calls;

	if (!role) {
		fprintf(stderr, "usage: unit_policy ROLE, the name of a unit without bulkhead-\n");
		return 2;
	}
	if (start_calls_collect(&calls, role, START_IN_UNIT) < 0) {
		fprintf(stderr, "unit_policy: there are too many system calls\n");
		return 1;
	}
	add_names(&names, &calls);
	qsort(names.name, names.count, sizeof(names.name[0]), compare_names);
	print_capabilities("CapabilityBoundingSet", role->policy);
	print_capabilities("AmbientCapabilities", role->policy);
	printf("LimitNOFILE=%u\n", role->policy->files_max);
	printf("SystemCallErrorNumber=EPERM\n");
	print_filter(&names);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a container runtime has to know about a role, made from the role's policy.
 *
 *	container_policy --seccomp ROLE    the profile of system calls (deploy/seccomp), for
 *					   linux.seccomp of OCI and "Localhost" of Kubernetes
 *	container_policy --limits ROLE     capabilities and limits
 *
 * How this works. deploy/start_calls.h has the system calls of a role from its start to its end.
 * Unlike the filter of a systemd unit, such a profile can look at arguments. So a call that only
 * the sandbox allows has the conditions of the sandbox here too. A call that the start makes has
 * the conditions of the start, or none.
 *
 * Example: the worker's clone(2) is allowed with the flags of a fork only, because nothing before
 * the sandbox starts a process. Its mmap(2) has no condition, because the dynamic linker maps code,
 * which the sandbox forbids.
 *
 * What is not allowed fails with EPERM, the default of the format. A call that the policy refuses
 * with another errno (REFUSE) does so here too, unless the start needs it.
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

/* A rule of the profile. */
struct rule {
	char *name;
	const struct sandbox_syscall *call;
	size_t position; /* among the calls */
};

struct profile {
	struct rule rule[START_CALLS_MAX];
	size_t count;
};

static void fail(const char *what)
{
	fprintf(stderr, "container_policy: %s\n", what);
	exit(1);
}

static bool conditions_equal(const struct sandbox_syscall *a, const struct sandbox_syscall *b)
{
	bool equal =
	    a->condition_count == b->condition_count && a->refused_errno == b->refused_errno;

	for (unsigned int i = 0; equal && i < a->condition_count; i++) {
		const struct scmp_arg_cmp *x = &a->conditions[i], *y = &b->conditions[i];

		equal = x->arg == y->arg && x->op == y->op && x->datum_a == y->datum_a &&
			x->datum_b == y->datum_b;
	}
	return equal;
}

/* Whether call `i` would say nothing new: it is allowed without a condition anyway, an earlier rule
 * is the same, or it is a refusal of what the start needs. */
static bool is_covered(const struct start_calls *calls, size_t i)
{
	const struct sandbox_syscall *call = calls->call[i];

	for (size_t k = 0; k < calls->count; k++) {
		const struct sandbox_syscall *other = calls->call[k];
		const bool all = !other->condition_count && !other->refused_errno;

		if (k == i || other->number != call->number)
			continue;
		if (all && (call->condition_count || call->refused_errno || k < i))
			return true;
		if (call->refused_errno && k < calls->before)
			return true;
		if (k < i && conditions_equal(call, other))
			return true;
	}
	return false;
}

static int compare_rules(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	return order ? order : x->position > y->position ? 1 : -1;
}

/* The rules, sorted by the name of the call and then in the order of the tables. */
static void make_rules(struct profile *profile, const struct start_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		char *name =
		    seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, calls->call[i]->number);

		if (!name)
			fail("libseccomp does not know a system call");
		if (is_covered(calls, i))
			free(name);
		else
			profile->rule[profile->count++] = (struct rule){name, calls->call[i], i};
	}
	qsort(profile->rule, profile->count, sizeof(profile->rule[0]), compare_rules);
}

static void print_names(const struct profile *profile)
{
	bool first = true;
	int column = 0;

	printf("    {\n      \"action\": \"SCMP_ACT_ALLOW\",\n      \"names\": [");
	for (size_t i = 0; i < profile->count; i++) {
		const struct rule *rule = &profile->rule[i];

		if (rule->call->condition_count || rule->call->refused_errno)
			continue;
		if (first || column + (int)strlen(rule->name) + 4 > LINE_COLUMNS)
			column = printf("%s\n        \"%s\"", first ? "" : ",", rule->name) - 1;
		else
			column += printf(", \"%s\"", rule->name);
		first = false;
	}
	printf("\n      ]\n    }");
}

static const char *operator_name(enum scmp_compare op)
{
	static const char *const names[] = {
	    [SCMP_CMP_NE] = "SCMP_CMP_NE",
	    [SCMP_CMP_LT] = "SCMP_CMP_LT",
	    [SCMP_CMP_LE] = "SCMP_CMP_LE",
	    [SCMP_CMP_EQ] = "SCMP_CMP_EQ",
	    [SCMP_CMP_GE] = "SCMP_CMP_GE",
	    [SCMP_CMP_GT] = "SCMP_CMP_GT",
	    [SCMP_CMP_MASKED_EQ] = "SCMP_CMP_MASKED_EQ",
	};

	if ((size_t)op >= sizeof(names) / sizeof(names[0]) || !names[op])
		fail("a condition has an operator that the format does not know");
	return names[op];
}

static void print_rule(const struct rule *rule)
{
	const struct sandbox_syscall *call = rule->call;

	printf(",\n    {\n      \"action\": \"%s\",\n",
	       call->refused_errno ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
	if (call->refused_errno)
		printf("      \"errnoRet\": %d,\n", call->refused_errno);
	printf("      \"names\": [\"%s\"]", rule->name);
	for (unsigned int i = 0; i < call->condition_count; i++) {
		const struct scmp_arg_cmp *condition = &call->conditions[i];

		/* With SCMP_CMP_MASKED_EQ the first value is the mask; others have no second. */
		printf("%s\n        {\"index\": %u, \"op\": \"%s\", \"value\": %llu",
		       i ? "," : ",\n      \"args\": [", condition->arg,
		       operator_name(condition->op), (unsigned long long)condition->datum_a);
		if (condition->op == SCMP_CMP_MASKED_EQ)
			printf(", \"valueTwo\": %llu", (unsigned long long)condition->datum_b);
		printf("}");
	}
	printf("%s\n    }", call->condition_count ? "\n      ]" : "");
}

static void print_profile(const struct start_role *role)
{
	struct profile profile = {.count = 0};
	struct start_calls calls;

	if (start_calls_collect(&calls, role, START_IN_CONTAINER) < 0)
		fail("there are too many system calls");
	make_rules(&profile, &calls);
	printf("{\n  \"defaultAction\": \"SCMP_ACT_ERRNO\",\n");
	printf("  \"architectures\": [\"SCMP_ARCH_X86_64\"],\n  \"syscalls\": [\n");
	print_names(&profile);
	for (size_t i = 0; i < profile.count; i++) {
		if (profile.rule[i].call->condition_count || profile.rule[i].call->refused_errno)
			print_rule(&profile.rule[i]);
		free(profile.rule[i].name);
	}
	printf("\n  ]\n}\n");
}

static void print_capabilities(const cap_value_t *values, bool *first)
{
	for (; *values >= 0; values++) {
		char *name = cap_to_name(*values);

		if (!name)
			fail("libcap does not know a capability");
		for (char *c = name; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		printf("%s\"%s\"", *first ? "" : ", ", name);
		*first = false;
		cap_free(name);
	}
}

/* A container gives capabilities to root only. So a role that has some starts as root, and needs
 * three more to become its own user. */
static void print_limits(const struct start_role *role)
{
	static const cap_value_t to_change_user[] = {CAP_SETUID, CAP_SETGID, CAP_SETPCAP, -1};
	bool first = true;

	printf("{\"root\": %s, \"capabilities\": [", start_role_is_root(role) ? "true" : "false");
	print_capabilities(role->policy->start_capabilities, &first);
	if (start_role_is_root(role))
		print_capabilities(to_change_user, &first);
	printf("], \"files_max\": %u, \"memory_bytes_max\": %llu}\n", role->policy->files_max,
	       (unsigned long long)role->policy->memory_bytes_max);
}

int main(int argc, char **argv)
{
	const struct start_role *role =
	    argc == 3 ? start_role_find(argv[2], START_IN_CONTAINER) : NULL;

	if (role && !strcmp(argv[1], "--seccomp")) {
		print_profile(role);
	} else if (role && !strcmp(argv[1], "--limits")) {
		print_limits(role);
	} else {
		fprintf(stderr, "usage: container_policy --seccomp|--limits ROLE, the name of a "
				"container without bulkhead-\n");
		return 2;
	}
	return 0;
}

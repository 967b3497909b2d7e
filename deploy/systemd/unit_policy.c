/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the part of a role's unit that follows from its policy: capabilities, the number of open
 * files, and the system calls.
 *
 *	unit_policy ROLE
 *
 * How this works. systemd installs the filter of a unit before it starts the program, and a filter
 * cannot be widened later. So a unit must allow what the role's policy allows, and in addition what
 * the program needs until it enters its own sandbox: before_sandbox below. The filter of the unit
 * knows names of calls only. The role's own filter, which is added to it, also looks at arguments.
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

#include "common/sandbox.h"
#include "control/policy.h"
#include "exporter/delivery/policy.h"
#include "loader/policy.h"
#include "symbolizer/opener/policy.h"
#include "symbolizer/worker/policy.h"
#include "unwinder-mgr/policy.h"

enum {
	CALLS_MAX = 256,
	LINE_COLUMNS = 100
};

/* What a program needs until it enters its sandbox. tests/deploy/test_calls.py starts each role and
 * compares this table with what strace sees. */
static const struct sandbox_syscall before_sandbox[] = {
    ALLOW(execve, "the service manager starts the program"),
    ALLOW(access, "dynamic linker: is there a list of libraries to preload? glibc: nscd?"),
    ALLOW(arch_prctl, "dynamic linker: pointer to the thread's own data"),
    ALLOW(mprotect, "dynamic linker: relocated data becomes read-only"),
    ALLOW(mmap, "dynamic linker: libraries"),
    ALLOW(munmap, "dynamic linker: its cache of names"),
    ALLOW(openat, "libraries, list of users, configuration and what the role is made for"),
    ALLOW(read, "the same files"),
    ALLOW(pread64, "the same files"),
    ALLOW(fstat, "the same files"),
    ALLOW(newfstatat, "the same files"),
    ALLOW(lseek, "list of users"),
    ALLOW(close, "the same files, and descriptors that were inherited"),
    ALLOW(close_range, "descriptors that were inherited"),
    ALLOW(dup2, "standard input is replaced"),
    ALLOW(set_tid_address, "glibc: start of the first thread"),
    ALLOW(set_robust_list, "glibc: start of the first thread"),
    ALLOW(rseq, "glibc: start of the first thread"),
    ALLOW(prlimit64, "glibc: size of the stack; the limits of the policy"),
    ALLOW(getuid, "who am I?"),
    ALLOW(getpid, "control: are descriptors kept for this process?"),
    ALLOW(geteuid, "who am I?"),
    ALLOW(getgid, "who am I?"),
    ALLOW(getresuid, "proof that the user has changed"),
    ALLOW(getresgid, "proof that the group has changed"),
    ALLOW(capget, "proof of the capabilities"),
    ALLOW(prctl, "name, no_new_privs, not dumpable, bounding set; the role's own filter"),
    ALLOW(seccomp, "libseccomp: what does the kernel know?"),
    ALLOW(memfd_create, "libseccomp writes the compiled filter to it"),
    ALLOW(write, "the same"),
    ALLOW(rt_sigaction, "signals to ignore and to handle"),
    ALLOW(epoll_create1, "event loop"),
    ALLOW(socket, "service manager and other roles; glibc: is there an nscd?"),
    ALLOW(connect, "service manager and other roles; glibc: is there an nscd?"),
    ALLOW(bind, "the role's own socket"),
    ALLOW(listen, "the role's own socket"),
    ALLOW(accept4, "other roles connect"),
    ALLOW(getsockopt, "uid of a peer"),
    ALLOW(setsockopt, "size of its buffer"),
    ALLOW(getsockname, "path of the role's own socket"),
    ALLOW(umask, "other users may connect to the role's socket"),
    ALLOW(unlink, "the socket of a predecessor"),
    ALLOW(clock_nanosleep, "until other roles listen"),
};

/* What roles need in addition that Landlock restricts. */
static const struct sandbox_syscall before_landlock[] = {
    ALLOW(landlock_create_ruleset, "the role's Landlock domain"),
    ALLOW(landlock_restrict_self, "the role's Landlock domain"),
};

/* What one role needs in addition. */
static const struct sandbox_syscall of_control[] = {
    ALLOW(signalfd4, "SIGTERM"),
    ALLOW(rt_sigprocmask, "SIGTERM"),
    ALLOW(landlock_add_rule, "directory of the status socket"),
    ALLOW(uname, "name of the host"),
    ALLOW(mkdir, "directory of the status socket, where nobody has made it"),
    ALLOW(chmod, "mode of the status socket"),
    ALLOW(chown, "group of the status socket, if status.group is set"),
    {.number = -1},
};

static const struct sandbox_syscall of_loader[] = {
    ALLOW(uname, "libbpf: version of the kernel"),
    ALLOW(faccessat2, "libbpf: types of the kernel"),
    ALLOW(dup3, "libbpf: descriptors of maps"),
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    ALLOW(capset, "without CAP_SYSLOG from the sandbox on; nothing inheritable or ambient"),
    {.number = -1},
};

static const struct sandbox_syscall of_opener[] = {
    ALLOW(capset, "nothing inheritable or ambient"),
    {.number = -1},
};

static const struct sandbox_syscall of_exporter[] = {
    ALLOW(mkdir, "spool directory"),
    ALLOW(socketpair, "requests to the helper that connects to a Unix socket"),
    ALLOW(dup3, "the helper writes no log lines"),
    ALLOW(landlock_add_rule, "spool, files of the resolver, ports"),
    {.number = -1},
};

static const struct sandbox_syscall nothing[] = {
    {.number = -1},
};

static const struct {
	const char *name; /* of the unit, without "bulkhead-" */
	const struct sandbox_policy *policy;
	const struct sandbox_syscall *more;
} units[] = {
    {"control", &control_policy, of_control},	{"loader", &loader_policy, of_loader},
    {"unwinder-mgr", &manager_policy, nothing}, {"opener", &opener_policy, of_opener},
    {"symbolizer", &worker_policy, nothing},	{"exporter", &otlp_exporter_policy, of_exporter},
};

struct names {
	char *name[CALLS_MAX];
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_calls(struct names *names, const struct sandbox_syscall *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, calls[i].number);

		if (!name || names->count == CALLS_MAX) {
			fprintf(stderr, "unit_policy: libseccomp does not know a system call, or "
					"there are too many\n");
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
	struct names names = {.count = 0};
	size_t unit = 0;

	while (argc == 2 && unit < sizeof(units) / sizeof(units[0]) &&
	       strcmp(argv[1], units[unit].name) != 0)
		unit++;
	if (argc != 2 || unit == sizeof(units) / sizeof(units[0])) {
		fprintf(stderr, "usage: unit_policy ROLE, the name of a unit without bulkhead-\n");
		return 2;
	}
	const struct sandbox_policy *policy = units[unit].policy;
	add_calls(&names, policy->syscalls, policy->syscall_count);
	add_calls(&names, policy->more_syscalls, policy->more_syscall_count);
	add_calls(&names, before_sandbox, sizeof(before_sandbox) / sizeof(before_sandbox[0]));
	if (!policy->no_landlock)
		add_calls(&names, before_landlock,
			  sizeof(before_landlock) / sizeof(before_landlock[0]));
	for (const struct sandbox_syscall *call = units[unit].more; call->number != -1; call++)
		add_calls(&names, call, 1);
	qsort(names.name, names.count, sizeof(names.name[0]), compare_names);
	print_capabilities("CapabilityBoundingSet", policy);
	print_capabilities("AmbientCapabilities", policy);
	printf("LimitNOFILE=%u\n", policy->files_max);
	printf("SystemCallErrorNumber=EPERM\n");
	print_filter(&names);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see start_calls.h. */
#include "deploy/start_calls.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/socket.h>

#include "control/policy.h"
#include "exporter/delivery/policy.h"
#include "loader/policy.h"
#include "symbolizer/opener/policy.h"
#include "symbolizer/worker/policy.h"
#include "unwinder-mgr/policy.h"

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
    ALLOW_IF(socket, SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX),
	     "service manager and other roles; glibc: is there an nscd?"),
    ALLOW(connect, "service manager and other roles; glibc: is there an nscd?"),
    ALLOW(bind, "the role's own socket"),
    ALLOW(listen, "the role's own socket"),
    ALLOW(accept4, "other roles connect"),
    ALLOW_IF(socketpair, SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), "the label of this process"),
    ALLOW(getsockopt, "uid and label of a peer"),
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
    ALLOW_IF(bpf, SCMP_A0_32(SCMP_CMP_EQ, BPF_MAP_FREEZE), "libbpf: constants of programs"),
    ALLOW_IF(bpf, SCMP_A0_32(SCMP_CMP_EQ, BPF_OBJ_GET), "pins of the last loader"),
    ALLOW_IF(bpf, SCMP_A0_32(SCMP_CMP_EQ, BPF_MAP_LOOKUP_ELEM), "what its maps of maps have"),
    ALLOW_IF(bpf, SCMP_A0_32(SCMP_CMP_EQ, BPF_PROG_BIND_MAP), "libbpf: constants of programs"),
    ALLOW(fstatfs, "whether a directory can have pins"),
    ALLOW(flock, "the directory of its pins is its own"),
    ALLOW(landlock_add_rule, "the directory of its pins"),
    ALLOW(sysinfo, "qsort of glibc asks how much memory there is"),
    ALLOW(capset, "without CAP_SYSLOG from the sandbox on; nothing inheritable or ambient"),
    {.number = -1},
};

static const struct sandbox_syscall of_opener[] = {
    ALLOW(uname, "version of the kernel, which its debug file has in its name"),
    ALLOW(capset, "nothing inheritable or ambient"),
    {.number = -1},
};

static const struct sandbox_syscall of_exporter[] = {
    ALLOW(mkdir, "spool directory"),
    ALLOW(dup3, "the helper writes no log lines"),
    ALLOW(landlock_add_rule, "spool, files of the resolver, ports"),
    {.number = -1},
};

static const struct sandbox_syscall nothing[] = {
    {.number = -1},
};

/* What roles need in addition that start as root, since a container gives capabilities to root
 * only. The proof in sandbox_drop() tries some of them again, and the kernel refuses. */
static const struct sandbox_syscall before_drop[] = {
    ALLOW(setgroups, "no supplementary groups"),
    ALLOW(setresgid, "become the user of the role"),
    ALLOW(setresuid, "become the user of the role"),
};

/* What the container runtime does between installing the filter and starting the program. With
 * no_new_privs that is little, because runc then installs it as late as it can: it opens the FIFO
 * that `runc start` waits for, and closes its descriptors. Its thread is one of a Go program, whose
 * runtime makes calls at any time, too. Seen with strace in runc 1.1.5 and 1.5.2. */
static const struct sandbox_syscall of_container_runtime[] = {
    ALLOW(openat, "runc: FIFO of `runc start`, its own descriptors"),
    ALLOW(write, "runc: FIFO of `runc start`"),
    ALLOW(close, "runc: its own descriptors"),
    ALLOW(getdents64, "runc: its own descriptors"),
    ALLOW(fstatfs, "runc: is that really /proc?"),
    ALLOW(fstat, "runc: is that really /proc?"),
    ALLOW(openat2, "runc 1.5: its own descriptors"),
    ALLOW(statx, "runc 1.5: is that really /proc?"),
    ALLOW(getpid, "runc: its own descriptors"),
    ALLOW(epoll_ctl, "Go: files that it opens"),
    ALLOW(fcntl, "Go: files that it opens"),
    ALLOW(futex, "Go: its threads"),
    ALLOW(nanosleep, "Go: its threads"),
    ALLOW(sched_yield, "Go: its threads"),
    ALLOW(tgkill, "Go: SIGURG interrupts a thread"),
    ALLOW(rt_sigreturn, "Go: SIGURG interrupts a thread"),
    ALLOW(mmap, "Go: memory"),
    ALLOW(madvise, "Go: memory"),
};

/* Probes are executed in the container of control, under its profile. */
static const struct sandbox_syscall of_probe[] = {
    ALLOW(recvfrom, "bulkhead status: the answer of control"),
};

static const struct start_role roles[] = {
    {"control", "control", &control_policy, of_control},
    {"loader", "loader", &loader_policy, of_loader},
    {"unwinder-mgr", "unwinder-mgr", &manager_policy, nothing},
    {"opener", "opener", &opener_policy, of_opener},
    {"symbolizer", "worker", &worker_policy, nothing},
    {"exporter", "exporter", &otlp_exporter_policy, of_exporter},
};

const struct start_role *start_role_find(const char *name, enum start_place place)
{
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		const char *own = place == START_IN_UNIT ? roles[i].name : roles[i].container;

		if (!strcmp(own, name))
			return &roles[i];
	}
	return NULL;
}

bool start_role_is_root(const struct start_role *role)
{
	return role->policy->start_capabilities[0] >= 0;
}

static int add_calls(struct start_calls *calls, const struct sandbox_syscall *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (calls->count == START_CALLS_MAX)
			return -ENOSPC;
		calls->call[calls->count++] = &table[i];
	}
	return 0;
}

#define ADD_TABLE(calls, table) add_calls(calls, table, sizeof(table) / sizeof((table)[0]))

int start_calls_collect(struct start_calls *calls, const struct start_role *role,
			enum start_place place)
{
	const struct sandbox_policy *policy = role->policy;
	size_t more = 0;

	*calls = (struct start_calls){0};
	while (role->more[more].number != -1)
		more++;
	int r = ADD_TABLE(calls, before_sandbox);
	if (!r && !policy->no_landlock)
		r = ADD_TABLE(calls, before_landlock);
	if (!r)
		r = add_calls(calls, role->more, more);
	if (!r && place == START_IN_CONTAINER)
		r = ADD_TABLE(calls, of_container_runtime);
	if (!r && place == START_IN_CONTAINER && role->policy == &control_policy)
		r = ADD_TABLE(calls, of_probe);
	if (!r && place == START_IN_CONTAINER && start_role_is_root(role))
		r = ADD_TABLE(calls, before_drop);
	calls->before = calls->count;
	if (!r)
		r = add_calls(calls, policy->syscalls, policy->syscall_count);
	if (!r)
		r = add_calls(calls, policy->more_syscalls, policy->more_syscall_count);
	return r;
}

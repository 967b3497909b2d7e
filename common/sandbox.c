/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see sandbox.h. */
#include "common/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"

#ifdef BULKHEAD_SANITIZE
/* Turns LeakSanitizer off. It would need ptrace at the end of the process, which no filter
 * allows. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

/* The first 13 rights exist in every version of Landlock (Linux 5.13). This one came with version 3
 * (Linux 6.2), and Debian 12's headers do not define it. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

/* What version 4 of Landlock (Linux 6.7) added, under names of our own, because newer headers than
 * those of Debian 12 define it: the second field of the ruleset, its two rights, and the rule for a
 * port (include/uapi/linux/landlock.h). */
#define SANDBOX_BIND_TCP (1ull << 0)
#define SANDBOX_CONNECT_TCP (1ull << 1)
#define SANDBOX_RULE_NET_PORT 2

struct sandbox_ruleset_attr {
	uint64_t handled_access_fs, handled_access_net;
};

struct sandbox_port_attr {
	uint64_t allowed_access, port;
};

/* Calls that the sanitizers' runtime needs in addition. A release has none of them. */
static const struct sandbox_syscall sanitizer_syscalls[] = {
#ifdef BULKHEAD_SANITIZE
    ALLOW(mmap, "shadow memory"),
    ALLOW(mprotect, "shadow memory"),
    ALLOW(madvise, "shadow memory"),
    ALLOW(sigaltstack, "reports"),
    ALLOW(getpid, "reports"),
    ALLOW(gettid, "reports"),
    ALLOW(readlink, "reports: own name"),
    ALLOW(sched_yield, "locks of the allocator"),
    ALLOW(rt_sigprocmask, "reports"),
    ALLOW(rt_sigaction, "reports"),
    ALLOW(getrlimit, "stack bounds"),
    ALLOW(prlimit64, "stack bounds"),
#endif
    {.number = -1},
};

static int sandbox_add_rule(scmp_filter_ctx filter, const struct sandbox_syscall *call)
{
	const uint32_t action =
	    call->refused_errno ? SCMP_ACT_ERRNO((uint16_t)call->refused_errno) : SCMP_ACT_ALLOW;

	return seccomp_rule_add_array(filter, action, call->number, call->condition_count,
				      call->conditions);
}

static int sandbox_fill_filter(scmp_filter_ctx filter, const struct sandbox_policy *policy)
{
	int r = 0;

	for (size_t i = 0; i < policy->syscall_count && !r; i++)
		r = sandbox_add_rule(filter, &policy->syscalls[i]);
	for (size_t i = 0; i < policy->more_syscall_count && !r; i++)
		r = sandbox_add_rule(filter, &policy->more_syscalls[i]);
	for (size_t i = 0; sanitizer_syscalls[i].number != -1 && !r; i++) {
		/* The role's policy may have the same rule. */
		r = sandbox_add_rule(filter, &sanitizer_syscalls[i]);
		if (r == -EEXIST)
			r = 0;
	}
	return r;
}

/* Lets libseccomp write the filter to memory, to be installed later. */
static int sandbox_export(scmp_filter_ctx filter, struct sandbox *sandbox)
{
	_cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = seccomp_export_bpf(filter, fd);
	if (r < 0)
		return r;
	off_t size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || (size_t)size % sizeof(struct sock_filter))
		return -EIO;
	_cleanup_free_ void *program = malloc((size_t)size);
	if (!program)
		return -ENOMEM;
	if (pread(fd, program, (size_t)size, 0) != size)
		return -EIO;
	sandbox->program = TAKE_PTR(program);
	sandbox->program_bytes = (size_t)size;
	return 0;
}

void sandbox_free(struct sandbox *sandbox)
{
	free(sandbox->program);
	for (unsigned int i = 0; i < sandbox->path_count; i++)
		close(sandbox->paths[i].fd);
	*sandbox = (struct sandbox){0};
}

int sandbox_prepare(struct sandbox *sandbox, const struct sandbox_policy *policy)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);

	*sandbox = (struct sandbox){0};
	if (!filter)
		return -ENOMEM;
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (!r)
		r = sandbox_fill_filter(filter, policy);
	if (!r)
		r = sandbox_export(filter, sandbox);
	seccomp_release(filter);
	return r;
}

static bool sandbox_has_no_capabilities(void)
{
	cap_t none = cap_init(), caps = cap_get_proc();
	const bool equal = none && caps && cap_compare(none, caps) == 0;

	if (none)
		cap_free(none);
	if (caps)
		cap_free(caps);
	return equal;
}

/* Sets the permitted and effective capabilities to exactly these, and none inheritable or
 * ambient. A service without capabilities has nothing to change, so its unit need not allow the
 * call. */
static int sandbox_set_capabilities(const cap_value_t *values)
{
	int count = 0, r = 0;

	while (values[count] >= 0)
		count++;
	if (!count && sandbox_has_no_capabilities())
		return 0;
	cap_t caps = cap_init();
	if (!caps)
		return -ENOMEM;
	if (count && (cap_set_flag(caps, CAP_PERMITTED, count, values, CAP_SET) < 0 ||
		      cap_set_flag(caps, CAP_EFFECTIVE, count, values, CAP_SET) < 0))
		r = -errno;
	if (!r && cap_set_proc(caps) < 0)
		r = -errno;
	cap_free(caps);
	return r;
}

static bool sandbox_capabilities_equal(const cap_value_t *values)
{
	cap_t caps = cap_get_proc();
	bool equal = caps != NULL;

	for (cap_value_t c = 0; equal && c <= CAP_LAST_CAP; c++) {
		cap_flag_value_t permitted = CAP_CLEAR, effective = CAP_CLEAR;
		bool wanted = false;

		for (const cap_value_t *v = values; *v >= 0; v++)
			wanted |= *v == c;
		cap_get_flag(caps, c, CAP_PERMITTED, &permitted);
		cap_get_flag(caps, c, CAP_EFFECTIVE, &effective);
		equal = (permitted == CAP_SET) == wanted && (effective == CAP_SET) == wanted;
	}
	if (caps)
		cap_free(caps);
	return equal;
}

/* Sets the resource limits of the policy. */
static int sandbox_limit(const struct sandbox_policy *policy)
{
	const struct {
		int resource;
		rlim_t value;
		bool wanted;
	} limits[] = {
	    {RLIMIT_CORE, 0, true},
	    {RLIMIT_NPROC, policy->threads_max, true},
	    {RLIMIT_NOFILE, policy->files_max, true},
	    {RLIMIT_STACK, SANDBOX_STACK_BYTES, true},
#ifndef BULKHEAD_SANITIZE
	    {RLIMIT_DATA, policy->memory_bytes_max, policy->memory_bytes_max > 0},
#endif
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const __rlimit_resource_t resource = (__rlimit_resource_t)limits[i].resource;
		struct rlimit limit;

		if (!limits[i].wanted)
			continue;
		if (getrlimit(resource, &limit) < 0)
			return -errno;
		/* A limit is never raised: the user may have set a lower one. */
		if (limits[i].value < limit.rlim_max)
			limit.rlim_max = limits[i].value;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

static int sandbox_change_ids(uid_t uid, gid_t gid)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -errno;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* Checks that ids and capabilities are as intended, and that no call gives root back. */
static int sandbox_prove_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) < 0 || r != uid || e != uid || s != uid)
		return -EPERM;
	if (getresgid(&rg, &eg, &sg) < 0 || rg != gid || eg != gid || sg != gid)
		return -EPERM;
	if (uid != 0 && (setuid(0) == 0 || setresuid(0, (uid_t)-1, (uid_t)-1) == 0 ||
			 setgid(0) == 0 || seteuid(0) == 0))
		return -EPERM;
	if (!sandbox_capabilities_equal(policy->start_capabilities))
		return -EPERM;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return -EPERM;
	return 0;
}

int sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid)
{
	const bool root = geteuid() == 0;
	int r = 0;

	if (root) {
		/* The manager's rings count against this limit, and so do the loader's maps on
		 * kernels before 5.11. */
		const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

		setrlimit(RLIMIT_MEMLOCK, &unlimited);
		/* The default of 1,024 is too low for the manager. */
		const struct rlimit files = {policy->files_max, policy->files_max};

		setrlimit(RLIMIT_NOFILE, &files);
		for (cap_value_t c = 0; c <= CAP_LAST_CAP; c++) {
			if (cap_get_bound(c) == 1 && cap_drop_bound(c) < 0)
				return -errno;
		}
		r = sandbox_change_ids(uid, gid);
	}
	if (r)
		return r;
	r = sandbox_set_capabilities(policy->start_capabilities);
	if (r)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	r = sandbox_limit(policy);
	if (r)
		return r;
	return sandbox_prove_drop(policy, root ? uid : getuid(), root ? gid : getgid());
}

int sandbox_allow_path(struct sandbox *sandbox, int fd, bool writable)
{
	if (sandbox->path_count == SANDBOX_PATHS_MAX)
		return -ENOSPC;
	sandbox->paths[sandbox->path_count].fd = fd;
	sandbox->paths[sandbox->path_count++].writable = writable;
	return 0;
}

int sandbox_allow_port(struct sandbox *sandbox, uint16_t port, bool bind)
{
	if (sandbox->port_count == SANDBOX_PORTS_MAX)
		return -ENOSPC;
	sandbox->ports[sandbox->port_count].port = port;
	sandbox->ports[sandbox->port_count++].bind = bind;
	return 0;
}

/* Finds out which rights this kernel's Landlock can restrict. Returns 0 or a negative errno. */
static int sandbox_landlock_rights(struct sandbox_ruleset_attr *rights)
{
	long version =
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (version < 0)
		return -errno;
	rights->handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	/* Without this right, a file that may only be read could be cut by O_RDONLY | O_TRUNC. */
	if (version >= 3)
		rights->handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (version >= 4)
		rights->handled_access_net = SANDBOX_BIND_TCP | SANDBOX_CONNECT_TCP;
	return 0;
}

static int sandbox_landlock_path(int ruleset, uint64_t rights, int fd, bool writable)
{
	struct landlock_path_beneath_attr rule = {
	    .parent_fd = fd,
	    .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
	};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
	if (writable)
		rule.allowed_access |=
		    LANDLOCK_ACCESS_FS_WRITE_FILE | (rights & LANDLOCK_ACCESS_FS_TRUNCATE);
	if (writable && S_ISDIR(st.st_mode))
		rule.allowed_access |= LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE;
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		   ? -errno
		   : 0;
}

static int sandbox_landlock_port(int ruleset, uint16_t port, bool bind)
{
	const struct sandbox_port_attr rule = {
	    .allowed_access = bind ? SANDBOX_BIND_TCP : SANDBOX_CONNECT_TCP,
	    .port = port,
	};

	return syscall(SYS_landlock_add_rule, ruleset, SANDBOX_RULE_NET_PORT, &rule, 0) < 0 ? -errno
											    : 0;
}

/* Forbids to open, create or remove any file by name except the allowed paths, and to use any port
 * of TCP except the allowed ones, whatever the filter permits. On a kernel without Landlock only
 * the filter protects. */
static int sandbox_landlock(const struct sandbox *sandbox)
{
	struct sandbox_ruleset_attr rights = {0};

	int r = sandbox_landlock_rights(&rights);
	if (r)
		return r == -ENOSYS || r == -EOPNOTSUPP ? 0 : r;
	/* Older kernels accept a longer struct if the rest of it is 0. */
	_cleanup_close_ int fd =
	    (int)syscall(SYS_landlock_create_ruleset, &rights, sizeof(rights), 0);
	if (fd < 0)
		return -errno;
	for (unsigned int i = 0; i < sandbox->path_count && !r; i++)
		r = sandbox_landlock_path(fd, rights.handled_access_fs, sandbox->paths[i].fd,
					  sandbox->paths[i].writable);
	for (unsigned int i = 0; rights.handled_access_net && i < sandbox->port_count && !r; i++)
		r = sandbox_landlock_port(fd, sandbox->ports[i].port, sandbox->ports[i].bind);
	if (r)
		return r;
	return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

int sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy)
{
	struct sock_fprog program = {
	    .len = (unsigned short)(sandbox->program_bytes / sizeof(struct sock_filter)),
	    .filter = sandbox->program,
	};
	int r = sandbox_set_capabilities(policy->steady_capabilities);

	if (!r && !policy->no_landlock)
		r = sandbox_landlock(sandbox);
	if (!r && !sandbox_capabilities_equal(policy->steady_capabilities))
		r = -EPERM;
	if (!r && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		r = -errno;
	sandbox_free(sandbox);
	return r;
}

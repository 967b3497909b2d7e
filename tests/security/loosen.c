/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loosens one property of a worker, for tests/e2e/test_audit.py.
 *
 * How this works. The program `loosened_worker` is the real worker, but the calls with which it
 * gives up its rights go through the functions below
 * (--wrap of the linker). They do the same, except for one property, which the file `loosen` next
 * to the program names. So the worker works as usual in a recording, and differs from its policy in
 * exactly one way.
 *
 * Example: the file has the word "groups". After the worker has dropped its rights, it joins a
 * supplementary group.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox.h"

int __real_sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid);
int __wrap_sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid);
int __real_sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy);
int __wrap_sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy);
int __real_setgroups(size_t count, const gid_t *groups);
int __wrap_setgroups(size_t count, const gid_t *groups);
int __real_setresuid(uid_t real, uid_t effective, uid_t saved);
int __wrap_setresuid(uid_t real, uid_t effective, uid_t saved);
int __real_setresgid(gid_t real, gid_t effective, gid_t saved);
int __wrap_setresgid(gid_t real, gid_t effective, gid_t saved);
int __real_getresuid(uid_t *real, uid_t *effective, uid_t *saved);
int __wrap_getresuid(uid_t *real, uid_t *effective, uid_t *saved);
int __real_getresgid(gid_t *real, gid_t *effective, gid_t *saved);
int __wrap_getresgid(gid_t *real, gid_t *effective, gid_t *saved);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
int __real_cap_drop_bound(cap_value_t capability);
int __wrap_cap_drop_bound(cap_value_t capability);

enum {
	OTHER_GROUP = 4,
	OTHER_USER = 60000, /* nobody's */
	PAGE = 4096
};

/* What the worker keeps until it enters the sandbox, so that it can be loosened. */
static const cap_value_t start_capabilities[] = {CAP_SYS_CHROOT, CAP_CHOWN, CAP_SYS_ADMIN, -1};
static const cap_value_t chown_capability[] = {CAP_CHOWN, -1};
static const cap_value_t admin_capability[] = {CAP_SYS_ADMIN, -1};

static char property[64], program_path[PATH_MAX], *run_dir_argument;

__attribute__((constructor)) static void loosen_read(int argc, char **argv)
{
	const ssize_t n =
	    readlink("/proc/self/exe", program_path, sizeof(program_path) - sizeof("loosen"));

	if (n <= 0)
		return;
	program_path[n] = 0;
	if (argc > 2)
		run_dir_argument = argv[2];
	snprintf(strrchr(program_path, '/') + 1, sizeof("loosen"), "loosen");
	FILE *f = fopen(program_path, "re");
	if (!f)
		return;
	if (!fgets(property, sizeof(property), f))
		property[0] = 0;
	fclose(f);
}

static bool loosens(const char *name)
{
	return !strcmp(property, name);
}

static void loosen_check(bool done)
{
	if (done)
		return;
	fprintf(stderr, "loosen: cannot loosen %s: %s\n", property, strerror(errno));
	_exit(1);
}

static int bpf_call(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int load_program(void)
{
	static const struct bpf_insn code[] = {
	    {.code = BPF_ALU64 | BPF_MOV | BPF_K},
	    {.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_PERF_EVENT;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = 2;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	return bpf_call(BPF_PROG_LOAD, &attr);
}

/* Of a type that the worker may hold: only that it is not one of the loader's is wrong. */
static int make_map(void)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_RINGBUF;
	attr.max_entries = PAGE;
	return bpf_call(BPF_MAP_CREATE, &attr);
}

static int open_event(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .disabled = 1};

	return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static int make_pair(int type)
{
	int ends[2];

	return socketpair(AF_UNIX, type, 0, ends);
}

/* What needs root. */
static void loosen_as_root(struct sandbox_policy *policy)
{
	if (loosens("limits"))
		policy->files_max *= 2;
	else if (loosens("namespaces"))
		loosen_check(unshare(CLONE_NEWUTS) == 0);
	else if (loosens("bpf-program"))
		loosen_check(load_program() >= 0);
	else if (loosens("bpf-map"))
		loosen_check(make_map() >= 0);
	else if (loosens("perf-event"))
		loosen_check(open_event() >= 0);
	else if (loosens("writable-file"))
		loosen_check(open(program_path, O_RDWR) >= 0);
	else if (loosens("device"))
		loosen_check(open("/dev/kmsg", O_RDONLY) >= 0);
	else if (loosens("raw-socket"))
		loosen_check(socket(AF_INET, SOCK_RAW, 1) >= 0);
}

int __wrap_sandbox_drop(const struct sandbox_policy *policy, uid_t uid, gid_t gid)
{
	struct sandbox_policy loosened = *policy;

	/* A service has no rights to keep. */
	if (geteuid() == 0) {
		loosened.start_capabilities = start_capabilities;
		loosen_as_root(&loosened);
	}
	return __real_sandbox_drop(&loosened, uid, gid);
}

int __wrap_setgroups(size_t count, const gid_t *groups)
{
	const gid_t other = OTHER_GROUP;

	return loosens("groups") ? __real_setgroups(1, &other) : __real_setgroups(count, groups);
}

int __wrap_setresuid(uid_t real, uid_t effective, uid_t saved)
{
	return __real_setresuid(real, effective, loosens("uids") && saved ? OTHER_USER : saved);
}

int __wrap_setresgid(gid_t real, gid_t effective, gid_t saved)
{
	return __real_setresgid(real, effective, loosens("gids") ? OTHER_GROUP : saved);
}

/* The worker looks whether it has the ids that it wanted. */
int __wrap_getresuid(uid_t *real, uid_t *effective, uid_t *saved)
{
	const int r = __real_getresuid(real, effective, saved);

	if (loosens("uids"))
		*saved = *real;
	return r;
}

int __wrap_getresgid(gid_t *real, gid_t *effective, gid_t *saved)
{
	const int r = __real_getresgid(real, effective, saved);

	if (loosens("gids"))
		*saved = *real;
	return r;
}

static void *sleep_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

/* What needs no rights, or those of start_capabilities. */
static void loosen_before_sandbox(void)
{
	pthread_t thread;

	if (loosens("root"))
		loosen_check(chroot("/run") == 0);
	else if (loosens("thread"))
		loosen_check(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
	else if (loosens("tcp-socket"))
		loosen_check(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	else if (loosens("datagram-pair"))
		loosen_check(make_pair(SOCK_DGRAM) == 0);
	else if (loosens("pipe"))
		loosen_check(pipe((int[2]){0}) == 0);
	else if (loosens("memfd"))
		loosen_check(memfd_create("loosened", 0) >= 0);
	else if (loosens("directory"))
		loosen_check(open("/", O_RDONLY | O_DIRECTORY) >= 0);
	else if (loosens("writable-code"))
		loosen_check(mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	else if (loosens("anonymous-code"))
		loosen_check(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0) != MAP_FAILED);
	else if (loosens("mode"))
		snprintf(run_dir_argument, sizeof("--strict-memory"), "--strict-memory");
}

int __wrap_sandbox_enter(struct sandbox *sandbox, const struct sandbox_policy *policy)
{
	struct sandbox_policy loosened = *policy;

	loosen_before_sandbox();
	/* Without no_new_privs, only a process with this capability may install a filter. */
	if (loosens("no-new-privs"))
		loosened.steady_capabilities = admin_capability;
	else if (loosens("effective") || loosens("permitted") || loosens("inheritable") ||
		 loosens("ambient"))
		loosened.steady_capabilities = chown_capability;
	return __real_sandbox_enter(sandbox, &loosened);
}

/* Sets CAP_CHOWN in these sets only. */
static void set_chown(bool effective, bool permitted, bool inheritable)
{
	cap_t caps = cap_init();

	cap_set_flag(caps, CAP_EFFECTIVE, 1, chown_capability, effective ? CAP_SET : CAP_CLEAR);
	cap_set_flag(caps, CAP_PERMITTED, 1, chown_capability, permitted ? CAP_SET : CAP_CLEAR);
	cap_set_flag(caps, CAP_INHERITABLE, 1, chown_capability, inheritable ? CAP_SET : CAP_CLEAR);
	loosen_check(cap_set_proc(caps) == 0);
	cap_free(caps);
}

static void loosen_before_filter(void)
{
	if (loosens("dumpable")) {
		loosen_check(__real_prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	} else if (loosens("permitted")) {
		set_chown(false, true, false);
	} else if (loosens("inheritable")) {
		set_chown(true, true, true);
		set_chown(false, false, true);
	} else if (loosens("ambient")) {
		set_chown(true, true, true);
		loosen_check(__real_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0) ==
			     0);
	}
}

int __wrap_prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_NO_NEW_PRIVS && loosens("no-new-privs"))
		return 0;
	if (option == PR_GET_NO_NEW_PRIVS && loosens("no-new-privs"))
		return 1;
	if (option == PR_SET_SECCOMP) {
		loosen_before_filter();
		if (loosens("seccomp"))
			return 0;
	}
	return __real_prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int __wrap_cap_drop_bound(cap_value_t capability)
{
	/* sandbox_set_capabilities() can set inheritable ones only if the bounding set has them. */
	const bool keeps = loosens("bounding") || loosens("inheritable") || loosens("ambient");

	return keeps && capability == CAP_CHOWN ? 0 : __real_cap_drop_bound(capability);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts on other programs and processes, and on the role's own identity. */
#include "tests/security/matrix.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "role/process_work.h"

/* Calls number 3 of the 32-bit ABI. In the 64-bit ABI this number is close, which every role may
 * call; in the 32-bit ABI it is read. */
static int try_int80(const struct fixture *fixture)
{
	(void)fixture;
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(3), "b"(-1), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? (int)-result : 0;
#else
	return EOPNOTSUPP;
#endif
}

static int end_at_once(void *argument)
{
	(void)argument;
	return 0;
}

/* Starts a thread that has the thread-local storage of this one. */
static int try_thread(const struct fixture *fixture)
{
	static _Alignas(16) uint8_t stack[16384];

	(void)fixture;
	return clone(end_at_once, stack + sizeof(stack), PROCESS_WORK_THREAD_FLAGS, NULL) < 0
		   ? errno
		   : 0;
}

/* Attempts to start programs and to reach other processes. */
void matrix_try_processes(struct tally *tally, const struct fixture *s)
{
	char *const argv[] = {"true", NULL}, *const environment[] = {NULL};
	const struct clone_args clone_args = {.exit_signal = SIGCHLD};
	/* The flags with which the C library creates a thread. */
	const long thread =
	    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	struct iovec local = {s->memory, 8}, remote = {s->memory, 8};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		/* The program does not exist, so that an allowed attempt ends with ENOENT. */
		{"execve",                           EVERYWHERE(KILLED),
			CALL(SYS_execve, P("/nowhere"), P(argv), P(environment))},
		{"execveat",                         EVERYWHERE(KILLED),
			CALL(SYS_execveat, AT_FDCWD, P("/nowhere"), P(argv), P(environment))},
		{"execveat of a descriptor",         EVERYWHERE(KILLED),
			CALL(SYS_execveat, s->regular, P(""), P(argv), P(environment),
			     AT_EMPTY_PATH)},
		/* They measure how long work takes, or how long their helpers waited. */
		{"getrusage of the thread",          {KILLED, WORKS, KILLED, WORKS, KILLED, KILLED, KILLED, WORKS},
			CALL(SYS_getrusage, RUSAGE_THREAD, P(s->memory))},
		{"getrusage of children",            EVERYWHERE(KILLED),
			CALL(SYS_getrusage, RUSAGE_CHILDREN, P(s->memory))},
		{"clone (fork)",                     WITH_HELPERS(WORKS), CALL(SYS_clone, SIGCHLD)},
		{"clone (a thread)",                 {KILLED, KILLED, KILLED, WORKS, KILLED, WORKS, KILLED, WORKS},
			.fn = try_thread},
		{"clone (a child with its memory)",  EVERYWHERE(KILLED),
			CALL(SYS_clone, CLONE_VM | SIGCHLD)},
		{"clone (vfork, posix_spawn)",       EVERYWHERE(KILLED),
			CALL(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD)},
		{"clone, a thread's flags but one",  EVERYWHERE(KILLED),
			CALL(SYS_clone, thread & ~CLONE_FILES)},
		{"clone, a thread in a namespace",   EVERYWHERE(KILLED),
			CALL(SYS_clone, thread | CLONE_NEWUSER)},
		/* The C library tries clone3 first, and then uses clone. */
		{"clone3",                           {KILLED, KILLED, KILLED, KILLED, KILLED, ENOSYS, KILLED, KILLED},
			CALL(SYS_clone3, P(&clone_args), sizeof(clone_args))},
		{"ptrace(ATTACH)",                   EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_ATTACH, s->victim)},
		{"ptrace(SEIZE)",                    EVERYWHERE(KILLED),
			CALL(SYS_ptrace, PTRACE_SEIZE, s->victim)},
		{"process_vm_readv",                 ONLY_STRICT_WORKER(WORKS),
			CALL(SYS_process_vm_readv, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_vm_writev",                EVERYWHERE(KILLED),
			CALL(SYS_process_vm_writev, s->victim, P(&local), 1, P(&remote), 1)},
		{"process_madvise",                  EVERYWHERE(KILLED),
			CALL(SYS_process_madvise, s->pidfd, P(&remote), 1, MADV_COLD)},
		{"pidfd_open",                       EVERYWHERE(KILLED),
			CALL(SYS_pidfd_open, s->victim)},
		{"pidfd_getfd",                      EVERYWHERE(KILLED),
			CALL(SYS_pidfd_getfd, s->pidfd, 2)},
		{"pidfd_send_signal",                EVERYWHERE(KILLED),
			CALL(SYS_pidfd_send_signal, s->pidfd, 0)},
		{"kcmp",                             EVERYWHERE(KILLED),
			CALL(SYS_kcmp, s->victim, s->victim)},
		{"kill",                             EVERYWHERE(KILLED),
			CALL(SYS_kill, s->victim, 0)},
		{"kill(SIGTERM)",                    EVERYWHERE(KILLED),
			CALL(SYS_kill, s->victim, SIGTERM)},
		/* Of a role's own uid are only its helpers. */
		{"kill(SIGKILL) of another",         WITH_HELPERS(EPERM),
			CALL(SYS_kill, s->victim, SIGKILL)},
		{"tgkill",                           EVERYWHERE(KILLED),
			CALL(SYS_tgkill, s->victim, s->victim, 0)},
		/* As in abort(3). No other process has this uid. */
		{"tgkill(SIGABRT) of another",       ONLY_OTLP(EPERM),
			CALL(SYS_tgkill, s->victim, s->victim, SIGABRT)},
		{"tgkill(SIGKILL) of another",       EVERYWHERE(KILLED),
			CALL(SYS_tgkill, s->victim, s->victim, SIGKILL)},
		{"rt_sigqueueinfo",                  EVERYWHERE(KILLED),
			CALL(SYS_rt_sigqueueinfo, s->victim, 0)},
		{"rt_sigaction",                     ONLY_OTLP(EINVAL),
			CALL(SYS_rt_sigaction, SIGSYS), .not_sanitized = true},
		{"prlimit64 of another",             EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, s->victim, RLIMIT_NOFILE), .not_sanitized = true},
		{"sched_setaffinity",                EVERYWHERE(KILLED),
			CALL(SYS_sched_setaffinity, 0, 8, P(s->memory))},
		{"setpriority",                      EVERYWHERE(KILLED),
			CALL(SYS_setpriority, PRIO_PROCESS, 0, 19)},
		{"sched_setscheduler",               EVERYWHERE(KILLED),
			CALL(SYS_sched_setscheduler, 0, SCHED_IDLE)},
#ifdef __x86_64__
		{"fork",                             EVERYWHERE(KILLED), CALL(SYS_fork)},
		{"vfork",                            EVERYWHERE(KILLED), CALL(SYS_vfork)},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

void matrix_try_privileges(struct tally *tally, const struct fixture *s)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"setuid(0)",                        EVERYWHERE(KILLED), CALL(SYS_setuid)},
		{"setresuid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresuid)},
		{"setresgid(0)",                     EVERYWHERE(KILLED), CALL(SYS_setresgid)},
		{"setgroups",                        EVERYWHERE(KILLED), CALL(SYS_setgroups)},
		{"setfsuid(0)",                      EVERYWHERE(KILLED), CALL(SYS_setfsuid)},
		{"capset of more",                   EVERYWHERE(KILLED),
			CALL(SYS_capset, P(&header), P(all))},
		{"prctl(PR_SET_DUMPABLE)",           EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_DUMPABLE, 1)},
		{"prctl(PR_SET_NAME)",               {KILLED, WORKS, WORKS, WORKS, KILLED, WORKS, WORKS, WORKS},
			CALL(SYS_prctl, PR_SET_NAME, P("name"))},
		{"prctl(PR_SET_SECCOMP)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_SECCOMP, 2, 0)},
		{"prctl(PR_SET_MM)",                 EVERYWHERE(KILLED), CALL(SYS_prctl, PR_SET_MM)},
		{"prctl(PR_SET_PTRACER)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_SET_PTRACER, -1)},
		{"prctl(PR_CAP_AMBIENT)",            EVERYWHERE(KILLED),
			CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE)},
		{"setrlimit",                        EVERYWHERE(KILLED),
			CALL(SYS_setrlimit, RLIMIT_NOFILE, P(&unlimited))},
		{"prlimit64",                        EVERYWHERE(KILLED),
			CALL(SYS_prlimit64, 0, RLIMIT_CORE, P(&unlimited)), .not_sanitized = true},
		{"seccomp",                          EVERYWHERE(KILLED), CALL(SYS_seccomp)},
		{"landlock_create_ruleset",          EVERYWHERE(KILLED),
			CALL(SYS_landlock_create_ruleset, 0, 0, 1)},
		{"unshare(CLONE_NEWUSER)",           EVERYWHERE(KILLED),
			CALL(SYS_unshare, CLONE_NEWUSER)},
		{"setns",                            EVERYWHERE(KILLED),
			CALL(SYS_setns, s->pidfd, CLONE_NEWNS)},
		{"chroot",                           EVERYWHERE(KILLED),
			CALL(SYS_chroot, P(s->dir))},
		{"pivot_root",                       EVERYWHERE(KILLED),
			CALL(SYS_pivot_root, P(s->dir), P(s->dir))},
		{"mount",                            EVERYWHERE(KILLED),
			CALL(SYS_mount, P("none"), P(s->dir), P("tmpfs"))},
		{"umount2",                          EVERYWHERE(KILLED),
			CALL(SYS_umount2, P(s->dir), MNT_EXPIRE)},
		{"fsopen",                           EVERYWHERE(KILLED),
			CALL(SYS_fsopen, P("tmpfs"))},
		{"mount_setattr",                    EVERYWHERE(KILLED),
			CALL(SYS_mount_setattr, AT_FDCWD, P(s->dir))},
		{"keyctl",                           EVERYWHERE(KILLED), CALL(SYS_keyctl)},
		{"add_key",                          EVERYWHERE(KILLED), CALL(SYS_add_key)},
		{"init_module",                      EVERYWHERE(KILLED), CALL(SYS_init_module)},
		{"finit_module",                     EVERYWHERE(KILLED),
			CALL(SYS_finit_module, -1, P(""))},
		{"delete_module",                    EVERYWHERE(KILLED),
			CALL(SYS_delete_module, P(""))},
		{"kexec_load",                       EVERYWHERE(KILLED),
			CALL(SYS_kexec_load, 0, 0, 0, -1)},
		{"reboot",                           EVERYWHERE(KILLED), CALL(SYS_reboot)},
		{"swapon",                           EVERYWHERE(KILLED), CALL(SYS_swapon)},
		{"sethostname",                      EVERYWHERE(KILLED),
			CALL(SYS_sethostname, 0, -1)},
		{"clock_settime",                    EVERYWHERE(KILLED),
			CALL(SYS_clock_settime, -1)},
		{"syslog",                           EVERYWHERE(KILLED),
			CALL(SYS_syslog, 3, P(s->memory), 1)},
		{"acct",                             EVERYWHERE(KILLED), CALL(SYS_acct, P("/"))},
		{"a number of no call",              EVERYWHERE(KILLED), CALL(999)},
		{"the number -1",                    EVERYWHERE(KILLED), CALL(-1)},
#ifdef __x86_64__
		{"ioperm",                           EVERYWHERE(KILLED),
			CALL(SYS_ioperm, 0x80, 1, 1)},
		{"iopl",                             EVERYWHERE(KILLED), CALL(SYS_iopl, 3)},
		{"modify_ldt",                       EVERYWHERE(KILLED), CALL(SYS_modify_ldt)},
		{"arch_prctl",                       EVERYWHERE(KILLED),
			CALL(SYS_arch_prctl, 0x1003, P(s->memory))},
		{"x32 ABI, an allowed number",       EVERYWHERE(KILLED),
			CALL(0x40000000 | SYS_close, -1)},
		{"x32 ABI, execve",                  EVERYWHERE(KILLED), CALL(0x40000000 | 520)},
		{"32-bit ABI, an allowed number",    EVERYWHERE(KILLED), .fn = try_int80},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the kernel, of its settings, and of what it answered to the trials. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>

#include "cli/host_checks_private.h"
#include "cli/host_text.h"
#include "common/exit_status.h"

enum {
	SECCOMP_FILTER_MODE = 2, /* of /proc/PID/status */
	PARANOID_MOST = 2,
	PTRACE_SCOPE_NOBODY = 3, /* Documentation/admin-guide/LSM/Yama.rst */
	NUMBER_BYTES = 24,
	LOCKED_BYTES_ENOUGH = 64 << 20,
};

static bool is_known(int64_t sysctl)
{
	return sysctl > HOST_NUMBER_ABSENT;
}

static bool is_filtered(const struct host_facts *facts)
{
	return facts->seccomp_mode == SECCOMP_FILTER_MODE;
}

static bool is_refusal(int error)
{
	return error == EPERM || error == EACCES;
}

/* A filter of a container or service refuses a system call. */
static void judge_filtered(const struct host_facts *facts, const char *call,
			   struct check_result *result)
{
	check_fault(result, STATUS_NOT_PERMITTED, "a seccomp filter refuses %s(2)", call);
	if (facts->runtime == HOST_RUNTIME_DOCKER)
		check_remedy(result,
			     "run the container with --security-opt seccomp=FILE, a profile that "
			     "allows %s",
			     call);
	else if (facts->runtime == HOST_RUNTIME_KUBERNETES)
		check_remedy(result,
			     "set seccompProfile of the container to a Localhost profile that "
			     "allows %s",
			     call);
	else
		check_remedy(result, "add to SystemCallFilter= of the service: %s", call);
}

/* Only a security module is left as the cause: SELinux, AppArmor or a BPF program. */
static void judge_denied(const struct host_facts *facts, const char *what,
			 struct check_result *result)
{
	check_fault(result, STATUS_NOT_PERMITTED, "a security module refuses %s to %s", what,
		    facts->lsm_label[0] ? facts->lsm_label : "bulkhead");
	check_remedy(result, "allow it in the policy of the module; ausearch -m avc or dmesg shows "
			     "the rule");
}

/* Returns whether a trial has a result. If not, writes this. */
static bool was_tried(int trial, struct check_result *result)
{
	if (trial == TRIAL_UNTRIED)
		check_unknown(result, "the process that tries it could not be started");
	return trial != TRIAL_UNTRIED;
}

/* Returns whether the version is known to be older. */
static bool is_older(const struct host_facts *facts, unsigned long major, unsigned long minor)
{
	char *end;
	const unsigned long first = strtoul(facts->release, &end, 10);
	const unsigned long second = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	return first && (first < major || (first == major && second < minor));
}

void check_judge_kernel(const struct host_facts *facts, const struct check_wants *wants,
			struct check_result *result)
{
	(void)wants;
	if (strcmp(facts->machine, "x86_64")) {
		check_fault(result, STATUS_KERNEL, "this machine is %s", facts->machine);
		check_remedy(result, "use a machine with x86-64");
	} else if (!strtoul(facts->release, NULL, 10)) {
		check_unknown(result, "cannot find the version of the kernel");
	} else if (is_older(facts, 5, 10)) {
		check_unknown(result, "Linux %s is older than what was tested", facts->release);
		check_remedy(result, "use Linux 5.10 or later");
	} else {
		check_ok(result, "Linux %s", facts->release);
	}
}

void check_judge_btf(const struct host_facts *facts, const struct check_wants *wants,
		     struct check_result *result)
{
	(void)wants;
	switch (facts->btf_error) {
	case 0:
		check_ok(result, "/sys/kernel/btf/vmlinux");
		return;
	case ENOENT:
		check_fault(result, STATUS_KERNEL,
			    "the kernel has no BTF (/sys/kernel/btf/vmlinux)");
		check_remedy(result,
			     facts->sysfs
				 ? "use Linux 5.10 or later, built with CONFIG_DEBUG_INFO_BTF=y"
				 : "run mount -t sysfs sysfs /sys");
		return;
	case EBADMSG:
		check_fault(result, STATUS_KERNEL, "/sys/kernel/btf/vmlinux is not BTF");
		break;
	default:
		check_fault(result, STATUS_KERNEL, "cannot read /sys/kernel/btf/vmlinux: %s",
			    strerror(facts->btf_error));
		break;
	}
	check_remedy(result, "remove what is mounted over it: umount /sys/kernel/btf/vmlinux");
}

void check_judge_proc(const struct host_facts *facts, const struct check_wants *wants,
		      struct check_result *result)
{
	const struct host_mounts *mounts = &facts->mounts;

	(void)wants;
	if (facts->mounts_error == ENOENT) {
		check_fault(result, STATUS_FAILED, "/proc is not mounted");
		check_remedy(result, "run mount -t proc proc /proc");
	} else if (facts->mounts_error) {
		check_unknown(result, "cannot read /proc/self/mountinfo");
	} else if (mounts->proc_subset_pid) {
		check_fault(result, STATUS_NOT_PERMITTED,
			    "/proc is mounted with subset=pid, which hides /proc/kallsyms");
		check_remedy(result, "run mount -t proc proc /proc, or set ProcSubset=all in the "
				     "unit");
	} else if (mounts->proc_hidepid[0]) {
		check_ok(result, "hidepid=%s, which does not concern CAP_SYS_PTRACE",
			 mounts->proc_hidepid);
	} else {
		check_ok(result, "all of it is visible");
	}
}

/* Returns whether lockdown keeps BPF programs from reading what they must. If that could not be
 * tried, it is known by the mode and the version: before 5.15 they need a helper that the mode
 * forbids. The verifier answers EINVAL if a helper is missing, and without lockdown, kernels from
 * 5.5 on have this one. */
static bool is_locked_down(const struct host_facts *facts)
{
	const struct host_trials *trials = &facts->trials;

	if (trials->bpf_program == 0 && trials->bpf_kernel_read == EINVAL)
		return true;
	return facts->lockdown == HOST_LOCKDOWN_CONFIDENTIALITY && trials->bpf_kernel_read != 0 &&
	       is_older(facts, 5, 15);
}

void check_judge_lockdown(const struct host_facts *facts, const struct check_wants *wants,
			  struct check_result *result)
{
	static const char *const names[] = {
	    [HOST_LOCKDOWN_NONE] = "none",
	    [HOST_LOCKDOWN_INTEGRITY] = "integrity",
	    [HOST_LOCKDOWN_CONFIDENTIALITY] = "confidentiality",
	};

	(void)wants;
	if (is_locked_down(facts)) {
		check_fault(result, STATUS_NOT_PERMITTED,
			    "lockdown=confidentiality forbids BPF programs to read kernel memory, "
			    "which the sampling program must before Linux 5.15");
		check_remedy(result, "boot with lockdown=integrity");
	} else if (facts->lockdown != HOST_LOCKDOWN_UNKNOWN) {
		check_ok(result, "mode %s", names[facts->lockdown]);
	} else if (facts->trials.bpf_kernel_read == 0) {
		check_ok(result, "BPF programs may read structures of the kernel");
	} else {
		check_unknown(result, "cannot read /sys/kernel/security/lockdown");
		check_remedy(result, "run mount -t securityfs securityfs /sys/kernel/security");
	}
}

/* Judges the errors of perf_event_open(2). The file of kernel.perf_event_paranoid exists in exactly
 * those kernels that have the call (perf_event_open(2), "NOTES"). */
static void judge_perf_error(const struct host_facts *facts, int error, struct check_result *result)
{
	const int64_t paranoid = facts->sysctls.perf_event_paranoid;

	if (error == ENOENT ||
	    (error == ENOSYS && !(is_filtered(facts) && paranoid != HOST_NUMBER_ABSENT))) {
		check_fault(result, STATUS_KERNEL, "the kernel has no perf events");
		check_remedy(result, "use a kernel that is built with CONFIG_PERF_EVENTS");
	} else if (is_refusal(error) && paranoid > PARANOID_MOST &&
		   !(is_filtered(facts) && error == EPERM)) {
		/* Where Debian's and Ubuntu's kernels refuse, they answer EACCES. */
		check_fault(result, STATUS_NOT_PERMITTED,
			    "kernel.perf_event_paranoid is %" PRId64
			    ", which refuses perf events to a process with CAP_PERFMON",
			    paranoid);
		check_remedy(result, "run sysctl kernel.perf_event_paranoid=2");
	} else if (is_filtered(facts) && (error == EPERM || error == ENOSYS)) {
		judge_filtered(facts, "perf_event_open", result);
	} else if (is_refusal(error)) {
		judge_denied(facts, "perf events", result);
	} else {
		check_unknown(result, "the kernel answered: %s", strerror(error));
	}
}

void check_judge_perf_events(const struct host_facts *facts, const struct check_wants *wants,
			     struct check_result *result)
{
	const int error = facts->trials.perf_event;

	(void)wants;
	if (!check_can_try(facts, CHECK_CAPABILITY(CAP_PERFMON), result) ||
	    !was_tried(error, result))
		return;
	if (error)
		judge_perf_error(facts, error, result);
	else
		check_ok(result, "permitted with CAP_PERFMON alone");
}

void check_judge_sample_rate(const struct host_facts *facts, const struct check_wants *wants,
			     struct check_result *result)
{
	const int64_t most = facts->sysctls.perf_event_max_sample_rate;

	if (!is_known(most)) {
		check_unknown(result, "cannot read kernel.perf_event_max_sample_rate");
	} else if (most < (int64_t)wants->frequency_hz) {
		check_fault(result, STATUS_FAILED,
			    "kernel.perf_event_max_sample_rate is %" PRId64
			    ", and %u Hz are wanted",
			    most, wants->frequency_hz);
		check_remedy(result, "sample less often: -F %" PRId64 " (agent: agent.frequency)",
			     most);
	} else {
		check_ok(result, "at most %" PRId64 " Hz", most);
	}
}

/* Before Linux 5.11, BPF maps count against RLIMIT_MEMLOCK, which the roles raise if they may. Some
 * hosts need 64 MiB of maps. */
static bool is_locked_memory_short(const struct host_facts *facts)
{
	return is_older(facts, 5, 11) && facts->limits.locked_bytes < LOCKED_BYTES_ENOUGH &&
	       !(facts->effective & CHECK_CAPABILITY(CAP_SYS_RESOURCE));
}

void check_judge_locked_memory(const struct host_facts *facts, const struct check_wants *wants,
			       struct check_result *result)
{
	(void)wants;
	if (facts->euid != 0) {
		check_unknown(result, "cannot be tried without root");
	} else if (is_locked_memory_short(facts)) {
		check_fault(result, STATUS_NOT_PERMITTED,
			    "BPF maps may have %" PRIu64 " KiB, which is too little",
			    facts->limits.locked_bytes / 1024);
		check_remedy_by_runtime(result, facts->runtime,
					"run the container with --ulimit memlock=-1",
					"set LimitMEMLOCK=infinity in the unit of the container "
					"runtime",
					"run ulimit -l unlimited, or set LimitMEMLOCK=infinity in "
					"the unit");
	} else {
		check_ok(result, "no limit for BPF maps");
	}
}

/* Judges the errors of bpf(2). The file of kernel.unprivileged_bpf_disabled exists only in kernels
 * that have the call. */
static void judge_bpf_error(const struct host_facts *facts, int error, struct check_result *result)
{
	const bool has_call = facts->sysctls.unprivileged_bpf_disabled != HOST_NUMBER_ABSENT;

	if (error == ENOSYS && !(is_filtered(facts) && has_call)) {
		check_fault(result, STATUS_KERNEL, "the kernel has no bpf(2)");
		check_remedy(result, "use a kernel that is built with CONFIG_BPF_SYSCALL");
	} else if (is_filtered(facts) && (error == EPERM || error == ENOSYS)) {
		judge_filtered(facts, "bpf", result);
	} else if (is_refusal(error)) {
		judge_denied(facts, "BPF", result);
	} else if (error == EINVAL) {
		check_fault(result, STATUS_KERNEL,
			    "the kernel has no ring buffers or no programs of perf events in BPF");
		check_remedy(result, "use Linux 5.10 or later");
	} else {
		check_unknown(result, "the kernel answered: %s", strerror(error));
	}
}

void check_judge_bpf(const struct host_facts *facts, const struct check_wants *wants,
		     struct check_result *result)
{
	const struct host_trials *trials = &facts->trials;
	const int error = trials->bpf_map ? trials->bpf_map : trials->bpf_program;

	(void)wants;
	if (!check_can_try(facts, CHECK_CAPABILITY(CAP_BPF) | CHECK_CAPABILITY(CAP_PERFMON),
			   result) ||
	    !was_tried(error, result))
		return;
	if (error && is_locked_memory_short(facts))
		check_unknown(result, "cannot be tried with so little locked memory");
	else if (error)
		judge_bpf_error(facts, error, result);
	else
		check_ok(result, "maps and programs can be made");
}

void check_judge_kernel_symbols(const struct host_facts *facts, const struct check_wants *wants,
				struct check_result *result)
{
	const struct host_trials *trials = &facts->trials;

	(void)wants;
	if (facts->mounts.proc_subset_pid || facts->mounts_error == ENOENT) {
		check_unknown(result, "/proc/kallsyms is hidden");
		return;
	}
	if (!check_can_try(facts, CHECK_CAPABILITY(CAP_SYSLOG), result) ||
	    !was_tried(trials->kernel_symbols, result))
		return;
	if (trials->kernel_symbols == ENOENT) {
		check_fault(result, STATUS_KERNEL, "the kernel has no /proc/kallsyms");
		check_remedy(result, "use a kernel that is built with CONFIG_KALLSYMS");
	} else if (trials->kernel_symbols) {
		judge_denied(facts, "/proc/kallsyms", result);
	} else if (trials->kernel_addresses == 0) {
		check_ok(result, "/proc/kallsyms shows addresses");
	} else if (facts->sysctls.kptr_restrict > 1) {
		check_restriction(
		    result, "kernel.kptr_restrict is %" PRId64 ", so kernel frames have no names",
		    facts->sysctls.kptr_restrict);
		check_remedy(result, "run sysctl kernel.kptr_restrict=1");
	} else {
		check_restriction(
		    result, "/proc/kallsyms has no addresses, so kernel frames have no names");
		check_remedy(result, "remove what is mounted over it: umount /proc/kallsyms");
	}
}

/* Writes which processes a security module hides from the opener, and what that means. */
static void judge_access(const struct host_facts *facts, const struct trial_count *count,
			 const char *consequence, struct check_result *result)
{
	if (!count->permitted && !count->refused) {
		check_unknown(result, "no other process is visible");
	} else if (!count->refused) {
		check_ok(result, "%d of %d that were tried can be read", count->permitted,
			 count->permitted);
	} else {
		check_restriction(result, "%d of %d may not be read by %s, so %s", count->refused,
				  count->permitted + count->refused,
				  facts->lsm_label[0] ? facts->lsm_label : "bulkhead", consequence);
		/* AppArmor gives every container a label. */
		check_remedy_by_runtime(
		    result, facts->lsm_label[0] ? facts->runtime : HOST_RUNTIME_NONE,
		    "run the container with --security-opt apparmor=PROFILE, one with the rule: "
		    "ptrace (read),",
		    "set appArmorProfile of the container to a Localhost profile with the rule: "
		    "ptrace (read),",
		    "allow ptrace (read) in the policy of the security module");
	}
}

void check_judge_processes(const struct host_facts *facts, const struct check_wants *wants,
			   struct check_result *result)
{
	(void)wants;
	if (check_can_try(facts, CHECK_CAPABILITY(CAP_SYS_PTRACE), result))
		judge_access(facts, &facts->trials.maps, "they are shown without their functions",
			     result);
}

void check_judge_process_memory(const struct host_facts *facts, const struct check_wants *wants,
				struct check_result *result)
{
	const struct trial_count *memory = &facts->trials.memory;
	const uint64_t needed = CHECK_CAPABILITY(CAP_SYS_PTRACE) |
				(wants->strict_memory ? 0 : CHECK_CAPABILITY(CAP_DAC_READ_SEARCH));

	if (!check_can_try(facts, needed, result))
		return;
	if (memory->refused && facts->sysctls.ptrace_scope == PTRACE_SCOPE_NOBODY) {
		check_restriction(result, "kernel.yama.ptrace_scope is 3, so functions of "
					  "language runtimes have no names");
		check_remedy(result, "set kernel.yama.ptrace_scope=2 in /etc/sysctl.d and reboot");
		return;
	}
	judge_access(facts, memory, "functions of language runtimes have no names there", result);
}

void check_judge_sandbox(const struct host_facts *facts, const struct check_wants *wants,
			 struct check_result *result)
{
	const struct host_trials *trials = &facts->trials;

	(void)wants;
	if (!was_tried(trials->seccomp, result))
		return;
	if (trials->seccomp && is_filtered(facts)) {
		judge_filtered(facts, "seccomp", result);
	} else if (trials->seccomp) {
		check_fault(result, STATUS_KERNEL,
			    "the kernel has no seccomp filters that end a process");
		check_remedy(result, "use a kernel that is built with CONFIG_SECCOMP_FILTER");
	} else if (trials->memfd && is_filtered(facts)) {
		judge_filtered(facts, "memfd_create", result);
	} else if (trials->memfd) {
		check_unknown(result, "memfd_create(2) fails: %s", strerror(trials->memfd));
	} else if (trials->landlock == ENOSYS || trials->landlock == EOPNOTSUPP) {
		check_ok(result, "seccomp, without Landlock");
	} else if (trials->landlock && is_filtered(facts)) {
		judge_filtered(facts, "landlock_create_ruleset", result);
	} else if (trials->landlock) {
		check_unknown(result, "landlock_create_ruleset(2) fails: %s",
			      strerror(trials->landlock));
	} else {
		check_ok(result, "seccomp and Landlock");
	}
}

void check_judge_security_modules(const struct host_facts *facts, const struct check_wants *wants,
				  struct check_result *result)
{
	const char *label = facts->lsm_label;

	(void)wants;
	if (facts->lsms[0] && label[0]) {
		check_ok(result, "in force: %s; bulkhead is %s", facts->lsms, label);
	} else if (facts->lsms[0]) {
		check_ok(result, "in force: %s", facts->lsms);
	} else if (label[0]) {
		check_ok(result, "bulkhead is %s", label);
	} else {
		check_unknown(result, "cannot read /sys/kernel/security/lsm");
		check_remedy(result, "run mount -t securityfs securityfs /sys/kernel/security");
	}
}

static const char *write_number(int64_t value, char text[static NUMBER_BYTES])
{
	if (is_known(value))
		snprintf(text, NUMBER_BYTES, "%" PRId64, value);
	else
		snprintf(text, NUMBER_BYTES, "%s",
			 value == HOST_NUMBER_ABSENT ? "none" : "unknown");
	return text;
}

void check_judge_sysctls(const struct host_facts *facts, const struct check_wants *wants,
			 struct check_result *result)
{
	const struct host_sysctls *s = &facts->sysctls;
	char paranoid[NUMBER_BYTES], kptr[NUMBER_BYTES], bpf[NUMBER_BYTES], jit[NUMBER_BYTES],
	    ptrace[NUMBER_BYTES];

	(void)wants;
	check_ok(result,
		 "perf_event_paranoid=%s kptr_restrict=%s unprivileged_bpf_disabled=%s "
		 "bpf_jit_harden=%s ptrace_scope=%s",
		 write_number(s->perf_event_paranoid, paranoid),
		 write_number(s->kptr_restrict, kptr),
		 write_number(s->unprivileged_bpf_disabled, bpf),
		 write_number(s->bpf_jit_harden, jit), write_number(s->ptrace_scope, ptrace));
}

void check_judge_bpffs(const struct host_facts *facts, const struct check_wants *wants,
		       struct check_result *result)
{
	(void)wants;
	if (facts->mounts_error)
		check_unknown(result, "cannot read /proc/self/mountinfo");
	else if (facts->mounts.bpffs.path[0])
		check_ok(result, "at %s; there an agent pins its BPF objects",
			 facts->mounts.bpffs.path);
	else
		check_ok(result, "not mounted; an agent starts all its roles again if its loader "
				 "ends");
}

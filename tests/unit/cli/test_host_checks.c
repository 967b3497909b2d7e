/* SPDX-License-Identifier: Apache-2.0 */
/* Judges hosts that lack one thing each. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/capability.h>

#include "common/exit_status.h"
#include "tests/unit/cli/host_fixture.h"

static struct host_facts facts;
static struct check_wants wants;
static struct check_result result;

static void set_up(void)
{
	facts = host_good();
	wants = (struct check_wants){.frequency_hz = 99, .runtimes = 7u << 1};
}

TestSuite(host_checks, .init = set_up);

static void judge(const char *name)
{
	for (size_t i = 0; i < host_check_count; i++) {
		if (strcmp(host_checks[i].name, name))
			continue;
		host_check_judge(&host_checks[i], &facts, &wants, &result);
		return;
	}
	cr_assert_fail("no such check: %s", name);
}

static void expect(const char *name, enum check_status status, const char *found,
		   const char *remedy)
{
	judge(name);
	cr_expect_eq(result.status, status, "%s: %s: %s", name, check_status_names[result.status],
		     result.found);
	cr_expect(strstr(result.found, found), "%s: %s", name, result.found);
	if (remedy)
		cr_expect(strstr(result.remedy, remedy), "%s: %s", name, result.remedy);
	else
		cr_expect_str_empty(result.remedy, "%s", name);
}

static void expect_fault(const char *name, int exit_status, const char *found, const char *remedy)
{
	expect(name, CHECK_FAULT, found, remedy);
	cr_expect_eq(result.exit_status, exit_status, "%s: %d", name, result.exit_status);
}

Test(host_checks, a_good_host_has_neither_faults_nor_restrictions)
{
	for (size_t i = 0; i < host_check_count; i++) {
		expect(host_checks[i].name, CHECK_OK, "", NULL);
		cr_expect_str_not_empty(result.found);
	}
}

/* A fault and a restriction have a remedy, and a fault has an exit status. */
static void expect_complete(int error)
{
	for (size_t i = 0; i < host_check_count; i++) {
		judge(host_checks[i].name);
		cr_expect_str_not_empty(result.found, "%s", host_checks[i].name);
		cr_expect_eq(result.status == CHECK_FAULT, result.exit_status != 0);
		if (result.status >= CHECK_RESTRICTION)
			cr_expect_str_not_empty(result.remedy, "%s with errno %d: %s",
						host_checks[i].name, error, result.found);
	}
}

Test(host_checks, whatever_fails_has_a_remedy)
{
	for (int error = 1; error < 134; error++) {
		struct host_trials *t = &facts.trials;

		t->perf_event = t->bpf_map = t->bpf_program = t->bpf_kernel_read = error;
		t->kernel_symbols = t->kernel_addresses = error;
		t->seccomp = t->landlock = t->memfd = error;
		t->maps.refused = t->memory.refused = error % 2;
		facts.btf_error = facts.run_error = facts.program_error = error;
		facts.mounts_error = error % 3 ? 0 : error;
		facts.runtime = (enum host_runtime)(error % 3);
		for (facts.euid = 0; facts.euid < 2; facts.euid++) {
			facts.seccomp_mode = 0;
			expect_complete(error);
			facts.seccomp_mode = 2;
			expect_complete(error);
		}
	}
	facts = (struct host_facts){0};
	expect_complete(0);
}

Test(host_checks, another_user_than_root_is_told_how_to_become_root)
{
	facts.euid = 1000;
	facts.effective = 0;
	expect_fault("user", STATUS_NOT_PERMITTED, "only root can profile", "run it with sudo");
	/* Root would have what the bounding set has. */
	expect("capabilities", CHECK_OK, "root has", NULL);
	/* What the kernel refuses to this user says nothing about root. */
	facts.trials.perf_event = facts.trials.bpf_map = EPERM;
	expect("perf-events", CHECK_UNKNOWN, "without root", NULL);
	expect("bpf", CHECK_UNKNOWN, "without root", NULL);
	expect("kernel-symbols", CHECK_UNKNOWN, "without root", NULL);
	expect("processes", CHECK_UNKNOWN, "without root", NULL);
	facts.sudo = false;
	expect_fault("user", STATUS_NOT_PERMITTED, "only root", "run it as root");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect_fault("user", STATUS_NOT_PERMITTED, "only root", "--user 0");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect_fault("user", STATUS_NOT_PERMITTED, "only root", "runAsUser");
}

Test(host_checks, in_a_user_namespace_no_other_remedy_is_given)
{
	facts.user_namespace = HOST_NAMESPACE_OTHER;
	facts.trials.perf_event = facts.trials.bpf_map = facts.trials.bpf_kernel_read = EPERM;
	expect_fault("user-namespace", STATUS_NOT_PERMITTED, "user namespace", "outside of");
	expect("perf-events", CHECK_UNKNOWN, "user namespace", NULL);
	expect("bpf", CHECK_UNKNOWN, "user namespace", NULL);
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect_fault("user-namespace", STATUS_NOT_PERMITTED, "", "--userns=host");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect_fault("user-namespace", STATUS_NOT_PERMITTED, "", "hostUsers: true");
	facts.user_namespace = HOST_NAMESPACE_UNKNOWN;
	expect("user-namespace", CHECK_UNKNOWN, "/proc/self/ns", NULL);
}

Test(host_checks, missing_capabilities_are_named_with_the_option_that_adds_them)
{
	static const struct {
		cap_value_t value;
		const char *name;
	} all[] = {{CAP_BPF, "BPF"},	     {CAP_PERFMON, "PERFMON"},
		   {CAP_SYSLOG, "SYSLOG"},   {CAP_SYS_PTRACE, "SYS_PTRACE"},
		   {CAP_SETUID, "SETUID"},   {CAP_SETGID, "SETGID"},
		   {CAP_SETPCAP, "SETPCAP"}, {CAP_CHOWN, "CHOWN"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char option[64];

		facts.effective = ~(1ull << all[i].value);
		snprintf(option, sizeof(option), "= CAP_%s", all[i].name);
		facts.runtime = HOST_RUNTIME_NONE;
		expect_fault("capabilities", STATUS_NOT_PERMITTED, all[i].name, option);
		snprintf(option, sizeof(option), "with --cap-add %s", all[i].name);
		facts.runtime = HOST_RUNTIME_DOCKER;
		expect_fault("capabilities", STATUS_NOT_PERMITTED, all[i].name, option);
	}
	facts.effective = ~(1ull << CAP_BPF | 1ull << CAP_PERFMON);
	expect_fault("capabilities", STATUS_NOT_PERMITTED, "capabilities: CAP_BPF, CAP_PERFMON",
		     "--cap-add BPF --cap-add PERFMON");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect_fault("capabilities", STATUS_NOT_PERMITTED, "", "container: BPF, PERFMON");
	expect("bpf", CHECK_UNKNOWN, "missing capabilities", NULL);
	expect("perf-events", CHECK_UNKNOWN, "missing capabilities", NULL);
	expect("kernel-symbols", CHECK_OK, "", NULL);
}

Test(host_checks, what_strict_memory_does_without_is_not_asked_for)
{
	facts.effective = ~(1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_CHECKPOINT_RESTORE);
	expect_fault("capabilities", STATUS_NOT_PERMITTED,
		     "CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE", "use --strict-memory");
	expect("process-memory", CHECK_UNKNOWN, "missing capabilities", NULL);
	wants.strict_memory = true;
	expect("capabilities", CHECK_OK, "", NULL);
	expect("process-memory", CHECK_OK, "", NULL);
}

Test(host_checks, kernels_that_cannot_work_and_those_that_were_not_tested)
{
	static const char *const old[] = {"4.18.0-553.el8", "5.9.16", "5.4", "3.10.0"};
	static const char *const new[] = {"5.10.0-46-amd64", "5.15", "6.1.0", "10.0"};

	for (size_t i = 0; i < 4; i++) {
		snprintf(facts.release, sizeof(facts.release), "%s", old[i]);
		expect("kernel", CHECK_UNKNOWN, old[i], "Linux 5.10");
		snprintf(facts.release, sizeof(facts.release), "%s", new[i]);
		expect("kernel", CHECK_OK, new[i], NULL);
	}
	facts.release[0] = 0;
	expect("kernel", CHECK_UNKNOWN, "version", NULL);
	snprintf(facts.machine, sizeof(facts.machine), "aarch64");
	expect_fault("kernel", STATUS_KERNEL, "aarch64", "x86-64");
}

Test(host_checks, btf_that_is_missing_hidden_or_damaged)
{
	facts.btf_error = ENOENT;
	expect_fault("btf", STATUS_KERNEL, "no BTF", "CONFIG_DEBUG_INFO_BTF");
	facts.sysfs = false;
	expect_fault("btf", STATUS_KERNEL, "no BTF", "mount -t sysfs sysfs /sys");
	facts.btf_error = EBADMSG;
	expect_fault("btf", STATUS_KERNEL, "not BTF", "umount");
	facts.btf_error = EACCES;
	expect_fault("btf", STATUS_KERNEL, "Permission denied", "umount");
}

Test(host_checks, proc_without_its_files_and_proc_that_hides_processes)
{
	memcpy(facts.mounts.proc_hidepid, "invisible", sizeof("invisible"));
	expect("proc", CHECK_OK, "hidepid=invisible", NULL);
	facts.mounts.proc_subset_pid = true;
	expect_fault("proc", STATUS_NOT_PERMITTED, "subset=pid", "ProcSubset=all");
	facts.trials.kernel_symbols = ENOENT;
	expect("kernel-symbols", CHECK_UNKNOWN, "hidden", NULL);
	facts.mounts_error = ENOENT;
	expect_fault("proc", STATUS_FAILED, "not mounted", "mount -t proc proc /proc");
	expect("programs", CHECK_UNKNOWN, "/proc", NULL);
	expect("cgroups", CHECK_UNKNOWN, "mountinfo", NULL);
	facts.mounts_error = EACCES;
	expect("proc", CHECK_UNKNOWN, "mountinfo", NULL);
	expect("programs", CHECK_OK, "", NULL);
	expect("bpffs", CHECK_UNKNOWN, "mountinfo", NULL);
}

Test(host_checks, lockdown_is_found_in_its_file_or_by_trying)
{
	facts.trials.bpf_kernel_read = EINVAL;
	facts.lockdown = HOST_LOCKDOWN_CONFIDENTIALITY;
	expect_fault("lockdown", STATUS_NOT_PERMITTED, "before Linux 5.15",
		     "boot with lockdown=integrity");
	facts.lockdown = HOST_LOCKDOWN_UNKNOWN;
	expect_fault("lockdown", STATUS_NOT_PERMITTED, "lockdown=confidentiality", "boot with");
	/* Another refusal of BPF is not lockdown's. */
	facts.trials.bpf_program = facts.trials.bpf_kernel_read = EPERM;
	expect("lockdown", CHECK_UNKNOWN, "lockdown", "securityfs");
	facts.lockdown = HOST_LOCKDOWN_NONE;
	expect("lockdown", CHECK_OK, "mode none", NULL);
	facts.trials.bpf_program = facts.trials.bpf_kernel_read = 0;
	facts.lockdown = HOST_LOCKDOWN_UNKNOWN;
	expect("lockdown", CHECK_OK, "may read structures", NULL);
	facts.lockdown = HOST_LOCKDOWN_CONFIDENTIALITY;
	expect("lockdown", CHECK_OK, "mode confidentiality", NULL);
}

Test(host_checks, lockdown_that_could_not_be_tried_is_judged_by_the_version)
{
	facts.lockdown = HOST_LOCKDOWN_CONFIDENTIALITY;
	facts.trials.bpf_program = facts.trials.bpf_kernel_read = TRIAL_UNTRIED;
	memcpy(facts.release, "5.14.0", sizeof("5.14.0"));
	expect_fault("lockdown", STATUS_NOT_PERMITTED, "lockdown=confidentiality", "boot with");
	facts.trials.bpf_program = facts.trials.bpf_kernel_read = EPERM;
	expect_fault("lockdown", STATUS_NOT_PERMITTED, "lockdown=confidentiality", "boot with");
	memcpy(facts.release, "5.15.0", sizeof("5.15.0"));
	expect("lockdown", CHECK_OK, "mode confidentiality", NULL);
}

Test(host_checks, the_cause_of_refused_perf_events_is_named)
{
	facts.trials.perf_event = EACCES;
	facts.sysctls.perf_event_paranoid = 3;
	expect_fault("perf-events", STATUS_NOT_PERMITTED, "kernel.perf_event_paranoid is 3",
		     "run sysctl kernel.perf_event_paranoid=2");
	/* Under a filter, too: it answers EPERM. */
	facts.seccomp_mode = 2;
	expect_fault("perf-events", STATUS_NOT_PERMITTED, "perf_event_paranoid is 3", "sysctl");
	facts.trials.perf_event = EPERM;
	expect_fault("perf-events", STATUS_NOT_PERMITTED, "seccomp filter refuses perf_event_open",
		     "SystemCallFilter= of the service: perf_event_open");
	facts.trials.perf_event = ENOSYS;
	expect_fault("perf-events", STATUS_NOT_PERMITTED, "seccomp filter", "perf_event_open");
	facts.seccomp_mode = 0;
	expect_fault("perf-events", STATUS_KERNEL, "no perf events", "CONFIG_PERF_EVENTS");
	facts.seccomp_mode = 2;
	facts.sysctls.perf_event_paranoid = HOST_NUMBER_ABSENT;
	expect_fault("perf-events", STATUS_KERNEL, "no perf events", "CONFIG_PERF_EVENTS");
	facts.sysctls.perf_event_paranoid = 2;
	facts.seccomp_mode = 0;
	facts.trials.perf_event = EACCES;
	memcpy(facts.lsm_label, "system_u:system_r:x_t", sizeof("system_u:system_r:x_t"));
	expect_fault("perf-events", STATUS_NOT_PERMITTED, "perf events to system_u:system_r:x_t",
		     "ausearch");
	facts.trials.perf_event = ENODEV;
	expect("perf-events", CHECK_UNKNOWN, "No such device", NULL);
	facts.trials.perf_event = TRIAL_UNTRIED;
	expect("perf-events", CHECK_UNKNOWN, "could not be started", NULL);
}

Test(host_checks, the_rate_must_be_that_which_is_wanted)
{
	facts.sysctls.perf_event_max_sample_rate = 98;
	expect_fault("sample-rate", STATUS_FAILED, "is 98, and 99 Hz", "-F 98");
	wants.frequency_hz = 98;
	expect("sample-rate", CHECK_OK, "98 Hz", NULL);
	facts.sysctls.perf_event_max_sample_rate = HOST_NUMBER_UNKNOWN;
	expect("sample-rate", CHECK_UNKNOWN, "perf_event_max_sample_rate", NULL);
}

Test(host_checks, the_cause_of_refused_bpf_is_named)
{
	facts.trials.bpf_map = EPERM;
	facts.seccomp_mode = 2;
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "seccomp filter refuses bpf(2)",
		     "--security-opt seccomp=FILE, a profile that allows bpf");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "seccomp", "Localhost profile that allows bpf");
	facts.trials.bpf_map = ENOSYS;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "seccomp", "bpf");
	facts.sysctls.unprivileged_bpf_disabled = HOST_NUMBER_ABSENT;
	expect_fault("bpf", STATUS_KERNEL, "no bpf(2)", "CONFIG_BPF_SYSCALL");
	facts.trials.bpf_map = EACCES;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "security module refuses BPF", "policy");
	facts.seccomp_mode = 0;
	facts.trials.bpf_map = EPERM;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "security module refuses BPF", "policy");
	facts.trials.bpf_map = 0;
	facts.trials.bpf_program = EACCES;
	expect_fault("bpf", STATUS_NOT_PERMITTED, "security module refuses BPF", "policy");
	facts.trials.bpf_map = EINVAL;
	expect_fault("bpf", STATUS_KERNEL, "no ring buffers", "Linux 5.10");
	facts.trials.bpf_map = ENOMEM;
	expect("bpf", CHECK_UNKNOWN, "Cannot allocate memory", NULL);
	facts.trials.bpf_map = TRIAL_UNTRIED;
	expect("bpf", CHECK_UNKNOWN, "could not be started", NULL);
}

Test(host_checks, before_linux_5_11_maps_count_as_locked_memory)
{
	snprintf(facts.release, sizeof(facts.release), "5.10.0-46-amd64");
	/* The roles raise the limit. */
	expect("locked-memory", CHECK_OK, "no limit", NULL);
	facts.effective = ~(1ull << CAP_SYS_RESOURCE);
	facts.trials.bpf_map = EPERM;
	expect_fault("locked-memory", STATUS_NOT_PERMITTED, "64 KiB", "ulimit -l unlimited");
	expect("bpf", CHECK_UNKNOWN, "locked memory", NULL);
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect_fault("locked-memory", STATUS_NOT_PERMITTED, "64 KiB", "--ulimit memlock=-1");
	facts.limits.locked_bytes = 64 << 20;
	expect("locked-memory", CHECK_OK, "no limit", NULL);
	facts.limits.locked_bytes = 0;
	snprintf(facts.release, sizeof(facts.release), "5.11.1");
	expect("locked-memory", CHECK_OK, "no limit", NULL);
	facts.euid = 1000;
	expect("locked-memory", CHECK_UNKNOWN, "without root", NULL);
}

Test(host_checks, kernel_symbols_that_are_missing_or_hidden)
{
	facts.trials.kernel_addresses = ENODATA;
	facts.sysctls.kptr_restrict = 2;
	expect("kernel-symbols", CHECK_RESTRICTION, "kernel.kptr_restrict is 2",
	       "run sysctl kernel.kptr_restrict=1");
	facts.sysctls.kptr_restrict = 1;
	expect("kernel-symbols", CHECK_RESTRICTION, "no addresses", "umount /proc/kallsyms");
	facts.trials.kernel_symbols = ENOENT;
	expect_fault("kernel-symbols", STATUS_KERNEL, "no /proc/kallsyms", "CONFIG_KALLSYMS");
	facts.trials.kernel_symbols = EACCES;
	expect_fault("kernel-symbols", STATUS_NOT_PERMITTED, "/proc/kallsyms", "policy");
}

Test(host_checks, processes_that_a_security_module_hides)
{
	facts.trials.maps = (struct trial_count){3, 9};
	facts.trials.memory = (struct trial_count){0, 9};
	expect("processes", CHECK_RESTRICTION, "9 of 12 may not be read by unconfined", "ptrace");
	expect("process-memory", CHECK_RESTRICTION, "9 of 9 may not be read", "ptrace");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect("processes", CHECK_RESTRICTION, "", "apparmor=PROFILE");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect("processes", CHECK_RESTRICTION, "", "appArmorProfile");
	facts.sysctls.ptrace_scope = 3;
	expect("process-memory", CHECK_RESTRICTION, "ptrace_scope is 3", "ptrace_scope=2");
	facts.trials.maps = facts.trials.memory = (struct trial_count){0, 0};
	expect("processes", CHECK_UNKNOWN, "no other process", NULL);
	expect("process-memory", CHECK_UNKNOWN, "no other process", NULL);
}

Test(host_checks, the_sandbox_of_the_roles)
{
	facts.trials.landlock = ENOSYS;
	expect("sandbox", CHECK_OK, "without Landlock", NULL);
	facts.trials.landlock = EOPNOTSUPP;
	expect("sandbox", CHECK_OK, "without Landlock", NULL);
	facts.trials.landlock = EPERM;
	expect("sandbox", CHECK_UNKNOWN, "landlock", NULL);
	facts.seccomp_mode = 2;
	expect_fault("sandbox", STATUS_NOT_PERMITTED, "landlock_create_ruleset", "landlock");
	facts.trials.memfd = EPERM;
	expect_fault("sandbox", STATUS_NOT_PERMITTED, "memfd_create", "memfd_create");
	facts.trials.seccomp = EPERM;
	expect_fault("sandbox", STATUS_NOT_PERMITTED, "refuses seccomp(2)", "seccomp");
	facts.seccomp_mode = 0;
	expect_fault("sandbox", STATUS_KERNEL, "no seccomp filters", "CONFIG_SECCOMP_FILTER");
	facts.trials.seccomp = 0;
	expect("sandbox", CHECK_UNKNOWN, "memfd_create", NULL);
	facts.trials.seccomp = TRIAL_UNTRIED;
	expect("sandbox", CHECK_UNKNOWN, "could not be started", NULL);
}

Test(host_checks, places_that_the_roles_need)
{
	facts.run_error = EROFS;
	expect_fault("run-directory", STATUS_FAILED, "Read-only", "ReadWritePaths=/run");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect_fault("run-directory", STATUS_FAILED, "Read-only", "--tmpfs /run");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect_fault("run-directory", STATUS_FAILED, "Read-only", "emptyDir");
	wants.agent = true;
	expect("run-directory", CHECK_OK, "", NULL);
	wants.agent = false;
	facts.run_error = EACCES;
	facts.euid = 1000;
	expect("run-directory", CHECK_UNKNOWN, "without root", NULL);
	facts.program_error = ENOENT;
	memcpy(facts.program_path, "bulkhead-opener", sizeof("bulkhead-opener"));
	expect_fault("programs", STATUS_FAILED, "bulkhead-opener: No such", "reinstall");
}

Test(host_checks, limits_of_files_and_processes)
{
	facts.limits.files = 20;
	expect("files", CHECK_OK, "20 may be open", NULL);
	facts.limits.files = 19;
	expect_fault("files", STATUS_FAILED, "needs 20", "ulimit -n");
	/* Without the capability the roles cannot raise the limit. */
	facts.effective = ~(1ull << CAP_SYS_RESOURCE);
	facts.limits.files = 84;
	expect_fault("files", STATUS_FAILED, "84 files may be open, and this host needs 85",
		     "ulimit -n 65536");
	wants.runtimes = 0;
	expect("files", CHECK_RESTRICTION, "84 files", "ulimit");
	wants.runtimes = 7u << 1;
	facts.cpus = 64;
	facts.limits.files = 208;
	expect_fault("files", STATUS_FAILED, "needs 209", "LimitNOFILE=65536");
	facts.limits.files = 1024;
	expect("files", CHECK_RESTRICTION, "1024", "ulimit");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect("files", CHECK_RESTRICTION, "1024", "--ulimit nofile");
	facts.limits.files = HOST_LIMIT_NONE;
	expect("files", CHECK_OK, "any number", NULL);
	facts.limits.files = HOST_LIMIT_UNKNOWN;
	expect("files", CHECK_UNKNOWN, "", NULL);
	facts.limits.processes = 2;
	expect_fault("process-limit", STATUS_FAILED, "2 processes", "--ulimit nproc");
	facts.limits.processes = 3;
	expect("process-limit", CHECK_RESTRICTION, "3 processes", "nproc");
	facts.limits.processes = HOST_LIMIT_NONE;
	expect("process-limit", CHECK_OK, "", NULL);
}

Test(host_checks, limits_of_memory)
{
	facts.limits.memory_bytes = (16 << 20) - 1;
	expect_fault("memory", STATUS_FAILED, "may use 15 MiB", "ulimit -v");
	facts.limits.memory_bytes = 16 << 20;
	expect("memory", CHECK_RESTRICTION, "16 MiB", "ulimit");
	facts.limits.cgroup_bytes = 24 << 20;
	expect_fault("memory", STATUS_FAILED, "the cgroup may use 24 MiB", "MemoryMax");
	facts.limits.cgroup_bytes = 32 << 20;
	expect("memory", CHECK_RESTRICTION, "the cgroup may use 32 MiB", "MemoryMax");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect("memory", CHECK_RESTRICTION, "32 MiB", "--memory=128m");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect("memory", CHECK_RESTRICTION, "32 MiB", "limits.memory");
	facts.limits.memory_bytes = HOST_LIMIT_NONE;
	facts.limits.cgroup_bytes = 64 << 20;
	expect("memory", CHECK_OK, "64 MiB", NULL);
	facts.limits.cgroup_bytes = HOST_LIMIT_UNKNOWN;
	expect("memory", CHECK_UNKNOWN, "cgroup", NULL);
}

Test(host_checks, namespaces_and_mounts_that_restrict_a_recording)
{
	facts.pid_namespace = HOST_NAMESPACE_OTHER;
	expect("pid-namespace", CHECK_RESTRICTION, "process_unknown", "outside of");
	facts.runtime = HOST_RUNTIME_DOCKER;
	expect("pid-namespace", CHECK_RESTRICTION, "", "--pid=host");
	facts.runtime = HOST_RUNTIME_KUBERNETES;
	expect("pid-namespace", CHECK_RESTRICTION, "", "hostPID: true");
	facts.pid_namespace = HOST_NAMESPACE_UNKNOWN;
	expect("pid-namespace", CHECK_UNKNOWN, "/proc/self/ns", NULL);
	facts.cgroup_namespace = HOST_NAMESPACE_OTHER;
	expect("cgroups", CHECK_OK, "cgroup namespace", NULL);
	facts.mounts.cgroup2.path[0] = 0;
	expect("cgroups", CHECK_RESTRICTION, "-G", "mount -t cgroup2");
	memcpy(facts.mounts.bpffs.path, "/sys/fs/bpf", sizeof("/sys/fs/bpf"));
	expect("bpffs", CHECK_OK, "/sys/fs/bpf", NULL);
}

Test(host_checks, what_is_only_reported)
{
	facts.sysctls.bpf_jit_harden = HOST_NUMBER_UNKNOWN;
	facts.sysctls.ptrace_scope = HOST_NUMBER_ABSENT;
	expect("sysctls", CHECK_OK, "bpf_jit_harden=unknown ptrace_scope=none", NULL);
	expect("security-modules", CHECK_OK, "apparmor; bulkhead is unconfined", NULL);
	facts.lsms[0] = 0;
	expect("security-modules", CHECK_OK, "bulkhead is unconfined", NULL);
	facts.lsm_label[0] = 0;
	expect("security-modules", CHECK_UNKNOWN, "lsm", "securityfs");
}

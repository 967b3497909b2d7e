/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the facts of a made host: a directory with the files of /proc and /sys. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/host_facts.h"
#include "cli/host_memory.h"
#include "cli/host_text.h"

static char root[] = "/tmp/host-facts-XXXXXX";
static struct host_facts facts;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st, (void)type, (void)walk;
	return remove(path);
}

static void set_up(void)
{
	cr_assert(mkdtemp(root));
	unsetenv("KUBERNETES_SERVICE_HOST");
}

static void tear_down(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(host_facts, .init = set_up, .fini = tear_down);

/* Writes the full path of a file, whose directories are made. */
static const char *place(const char *path)
{
	static char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	return full;
}

static void make_bytes(const char *path, const char *bytes, size_t length)
{
	FILE *f = fopen(place(path), "w");

	cr_assert(f);
	cr_assert_eq(fwrite(bytes, 1, length, f), length);
	fclose(f);
}

static void make(const char *path, const char *text)
{
	make_bytes(path, text, strlen(text));
}

static void make_link(const char *path, const char *target)
{
	cr_assert_eq(symlink(target, place(path)), 0);
}

static void collect(void)
{
	host_facts_collect(root, &facts);
}

Test(host_facts, an_empty_host_is_unknown_and_not_good)
{
	collect();
	cr_expect_eq(facts.mounts_error, ENOENT);
	cr_expect_eq(facts.btf_error, ENOENT);
	cr_expect_not(facts.sysfs);
	cr_expect_eq(facts.lockdown, HOST_LOCKDOWN_UNKNOWN);
	cr_expect_eq(facts.user_namespace, HOST_NAMESPACE_UNKNOWN);
	cr_expect_eq(facts.pid_namespace, HOST_NAMESPACE_UNKNOWN);
	cr_expect_eq(facts.seccomp_mode, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.sysctls.perf_event_paranoid, HOST_NUMBER_ABSENT);
	cr_expect_eq(facts.limits.cgroup_bytes, HOST_LIMIT_UNKNOWN);
	cr_expect_eq(facts.run_error, ENOENT);
	cr_expect_eq(facts.runtime, HOST_RUNTIME_NONE);
	cr_expect_eq(facts.trials.perf_event, TRIAL_UNTRIED);
	cr_expect_not(facts.sudo);
}

Test(host_facts, capabilities_are_those_of_this_process)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t has;

	cap_get_flag(caps, CAP_CHOWN, CAP_EFFECTIVE, &has);
	cap_free(caps);
	collect();
	cr_expect_eq(facts.euid, geteuid());
	cr_expect_eq(facts.effective >> CAP_CHOWN & 1, (uint64_t)has);
}

Test(host_facts, files_of_a_host)
{
	make_bytes("/sys/kernel/btf/vmlinux", "\x9f\xeb\x01\x00....", 8);
	make("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	make("/sys/kernel/security/lsm", "lockdown,capability,yama\n");
	make("/proc/self/attr/current", "docker-default (enforce)\n");
	make("/proc/self/status",
	     "Name:\tSeccomp:\\n\nUid:\t0\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n");
	make("/proc/sys/kernel/perf_event_paranoid", "-1\n");
	make("/proc/sys/kernel/kptr_restrict", "2\n");
	make_link("/proc/self/ns/user", "user:[4026531837]");
	make_link("/proc/self/ns/pid", "pid:[4026532001]");
	make("/usr/bin/sudo", "");
	make("/run/x", "");
	collect();
	cr_expect_eq(facts.btf_error, 0);
	cr_expect(facts.sysfs);
	cr_expect_eq(facts.lockdown, HOST_LOCKDOWN_INTEGRITY);
	cr_expect_str_eq(facts.lsms, "lockdown,capability,yama");
	cr_expect_str_eq(facts.lsm_label, "docker-default (enforce)");
	cr_expect_eq(facts.seccomp_mode, 2);
	cr_expect_eq(facts.sysctls.perf_event_paranoid, -1);
	cr_expect_eq(facts.sysctls.kptr_restrict, 2);
	cr_expect_eq(facts.user_namespace, HOST_NAMESPACE_INITIAL);
	cr_expect_eq(facts.pid_namespace, HOST_NAMESPACE_OTHER);
	cr_expect(facts.sudo);
	cr_expect_eq(facts.run_error, 0);
}

Test(host_facts, sudo_is_useless_under_no_new_privs)
{
	make("/usr/bin/sudo", "");
	make("/proc/self/status", "Name:\tx\nNoNewPrivs:\t1\n");
	collect();
	cr_expect_not(facts.sudo);
}

Test(host_facts, forged_and_truncated_files)
{
	static char large[100000];

	memset(large, '9', sizeof(large));
	make_bytes("/sys/kernel/btf/vmlinux", "\x9f\xeb\x01", 3);
	make("/sys/kernel/security/lockdown", "[confiden");
	make_bytes("/sys/kernel/security/lsm", large, sizeof(large));
	make_bytes("/proc/self/attr/current", large, sizeof(large));
	make_bytes("/proc/self/status", "Name:\tx\nSeccomp:\t", 17);
	make("/proc/sys/kernel/perf_event_paranoid", "many\n");
	make("/proc/sys/kernel/kptr_restrict", "2x\n");
	make("/proc/sys/kernel/yama/ptrace_scope", "");
	make_bytes("/proc/sys/kernel/perf_event_max_sample_rate", large, sizeof(large));
	make_bytes("/proc/self/mountinfo", large, sizeof(large));
	make_bytes("/proc/self/cgroup", large, sizeof(large));
	make_link("/proc/self/ns/pid", "pid:[");
	collect();
	cr_expect_eq(facts.btf_error, EBADMSG);
	cr_expect_eq(facts.lockdown, HOST_LOCKDOWN_UNKNOWN);
	cr_expect_eq(strlen(facts.lsms), sizeof(facts.lsms) - 1);
	cr_expect_eq(strlen(facts.lsm_label), sizeof(facts.lsm_label) - 1);
	cr_expect_eq(facts.seccomp_mode, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.sysctls.perf_event_paranoid, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.sysctls.kptr_restrict, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.sysctls.ptrace_scope, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.sysctls.perf_event_max_sample_rate, HOST_NUMBER_UNKNOWN);
	cr_expect_eq(facts.mounts_error, 0);
	cr_expect_not(facts.mounts.proc);
	cr_expect_eq(facts.pid_namespace, HOST_NAMESPACE_OTHER);
	make_bytes("/sys/kernel/btf/vmlinux", "\x9f\xeb\x02\x00", 4);
	collect();
	cr_expect_eq(facts.btf_error, EBADMSG);
	make_bytes("/sys/kernel/btf/vmlinux", "\x7f\x45\x4c\x46", 4);
	collect();
	cr_expect_eq(facts.btf_error, EBADMSG);
}

Test(host_facts, a_fifo_in_place_of_a_file_is_not_waited_for)
{
	cr_assert_eq(mkfifo(place("/proc/self/status"), 0644), 0);
	cr_assert_eq(mkfifo(place("/proc/self/mountinfo"), 0644), 0);
	collect();
	cr_expect_eq(facts.seccomp_mode, HOST_NUMBER_UNKNOWN);
}

Test(host_facts, container_runtimes_leave_a_file_or_a_variable)
{
	make("/.dockerenv", "");
	collect();
	cr_expect_eq(facts.runtime, HOST_RUNTIME_DOCKER);
	cr_assert_eq(remove(place("/.dockerenv")), 0);
	make("/run/.containerenv", "");
	collect();
	cr_expect_eq(facts.runtime, HOST_RUNTIME_DOCKER);
	setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	collect();
	cr_expect_eq(facts.runtime, HOST_RUNTIME_KUBERNETES);
}

/* --- limits of memory --- */

static uint64_t limit_of(const char *mountinfo, const char *cgroup)
{
	uint64_t bytes = 1;
	struct host_mounts mounts;
	char text[1024];

	snprintf(text, sizeof(text), "%s", mountinfo);
	host_mounts_parse(text, &mounts);
	make("/proc/self/cgroup", cgroup);
	return host_memory_read_limit(root, &mounts, &bytes) < 0 ? 0 : bytes;
}

#define V2 "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n"
#define V1 "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n"

Test(host_facts, the_least_limit_of_a_cgroup_and_those_above_counts)
{
	make("/cg/memory.max", "70000000\n");
	make("/cg/a/memory.max", "50000000\n");
	make("/cg/a/b/memory.max", "60000000\n");
	make("/cg/a/b/c/memory.max", "max\n");
	cr_expect_eq(limit_of(V2, "0::/a/b/c\n"), 50000000);
	cr_expect_eq(limit_of(V2, "3:cpu:/z\n0::/a/b\n"), 50000000);
	cr_expect_eq(limit_of(V2, "0::/\n"), 70000000);
	make("/cg/a/memory.max", "-5\n");
	cr_expect_eq(limit_of(V2, "0::/a/b/c\n"), 60000000);
}

Test(host_facts, limits_of_version_1)
{
	make("/m/memory.limit_in_bytes", "9223372036854771712\n");
	make("/m/a/memory.limit_in_bytes", "30000000\n");
	cr_expect_eq(limit_of(V1 V2, "4:cpu,memory:/a\n0::/x\n"), 30000000);
	cr_expect_eq(limit_of(V1, "4:memory:/\n"), HOST_MEMORY_UNLIMITED);
	/* In a container only its own directory is mounted. */
	make("/memory.limit_in_bytes", "1\n");
	cr_expect_eq(limit_of("35 31 0:32 /docker/x /m/a rw - cgroup cgroup rw,memory\n",
			      "4:memory:/docker/x\n"),
		     30000000);
}

Test(host_facts, a_cgroup_that_cannot_be_found_has_an_unknown_limit)
{
	cr_expect_eq(limit_of(V2, "0::/../x\n"), 0);
	cr_expect_eq(limit_of("1 1 0:1 /docker /cg rw - cgroup2 cgroup2 rw\n", "0::/other\n"), 0);
	cr_expect_eq(limit_of("", "0::/a\n"), 0);
	cr_expect_eq(limit_of(V2, ""), 0);
	cr_expect_eq(limit_of(V2, "0:\n::\n\n0::a\n"), 0);
}

/* --- small texts --- */

Test(host_facts, words_of_a_list)
{
	cr_expect(host_text_has_word("cpu,memory", "memory"));
	cr_expect(host_text_has_word("memory", "memory"));
	cr_expect(host_text_has_word("a memory\n", "memory"));
	cr_expect_not(host_text_has_word("memory2,xmemory", "memory"));
	cr_expect_not(host_text_has_word("", "memory"));
	cr_expect_not(host_text_has_word(",,  \n", "memory"));
}

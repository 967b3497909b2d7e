/* SPDX-License-Identifier: Apache-2.0 */
/* The trials are made on this host, whatever it permits. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/host_trials.h"

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

Test(host_trials, all_are_made_and_nothing_is_left)
{
	const int before = count_descriptors();
	struct host_trials trials;
	cap_t caps = cap_get_proc();

	host_trials_make(TRIALS_PROCESSES, &trials);
	cr_expect_neq(trials.perf_event, TRIAL_UNTRIED);
	cr_expect_neq(trials.bpf_map, TRIAL_UNTRIED);
	cr_expect_neq(trials.bpf_program, TRIAL_UNTRIED);
	cr_expect_neq(trials.bpf_kernel_read, TRIAL_UNTRIED);
	cr_expect_neq(trials.kernel_symbols, TRIAL_UNTRIED);
	cr_expect_eq(trials.seccomp, 0);
	cr_expect_eq(trials.memfd, 0);
	cr_expect_eq(count_descriptors(), before);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "the child is still there");
	cr_expect_eq(errno, ECHILD);
	cap_t after = cap_get_proc();
	cr_expect_eq(cap_compare(caps, after), 0, "capabilities were changed");
	cap_free(caps);
	cap_free(after);
}

Test(host_trials, without_privileges_the_kernel_refuses)
{
	struct host_trials trials;
	cap_t none = cap_init();

	cr_assert_eq(cap_set_proc(none), 0);
	cap_free(none);
	host_trials_make(TRIALS_PROCESSES, &trials);
	cr_expect(trials.bpf_program == EPERM || trials.bpf_program == EACCES, "%d",
		  trials.bpf_program);
}

/* In a child, because Criterion needs descriptors too. */
static bool is_untried_without_descriptors(void)
{
	const struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
	struct host_trials trials;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	host_trials_make(TRIALS_PROCESSES_STRICTLY, &trials);
	return trials.perf_event == TRIAL_UNTRIED && trials.seccomp == TRIAL_UNTRIED &&
	       trials.maps.permitted + trials.maps.refused == 0;
}

Test(host_trials, without_descriptors_for_the_pipe_all_is_untried)
{
	int status;
	const pid_t child = fork();

	if (child == 0)
		_exit(!is_untried_without_descriptors());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the identity of a real process from files in /proc. */
#include "symbolizer/worker/identity_read.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/stack_ids.h"
#include "tests/unit/symbolizer/identity_fixture.h"

static int open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path);
	return fd;
}

/* Adds samples of 20 processes, one started in each of 20 clock ticks, and answers all requests with
 * the same files. */
static void answer_ticks(struct worker *worker, struct msg_identity *answer,
			 struct message *message, uint64_t start_ns)
{
	for (uint64_t i = 0; i < 20; i++) {
		struct bh_sample header = sample_header(answer->tgid, 7);

		header.process_start_ns = start_ns + i * TICK_NS;
		sample_add_header(worker, &header);
		answer->cookie = sent.requests[i].cookie;
		identity_on_answer(worker, message);
	}
	batch_flush(&worker->batch);
}

/* The files are those of /proc. After the process has ended, the same descriptors give nothing. */
Test(identity_read, files_are_used_while_the_process_lives)
{
	char *const argv[] = {"sleep", "60", NULL};
	char *const environment[] = {"ONE=1", "OTEL_SERVICE_NAME=shop", "ONE=2", NULL};
	struct worker *worker = worker_new(2, true);
	const uint64_t before = clock_read_ns(CLOCK_BOOTTIME);
	const pid_t child = fork();

	if (child == 0) {
		execve("/bin/sleep", argv, environment);
		_exit(1);
	}
	struct msg_identity answer = {.tgid = (uint32_t)child};
	struct message message = {.payload = &answer, .length = sizeof(answer), .fd_count = 3};
	/* Wait until the exec has given the child its own environment. */
	char byte = 0;
	for (int i = 0; i < 1000 && byte != 'O'; i++) {
		message.fds[2] = open_proc(child, "environ");
		if (pread(message.fds[2], &byte, 1, 0) != 1 || byte != 'O') {
			close(message.fds[2]);
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		}
	}
	message.fds[0] = open_proc(child, "stat");
	message.fds[1] = open_proc(child, "cgroup");
	/* The child started some clock ticks after `before`: exactly one of them is right. */
	answer_ticks(worker, &answer, &message, before);
	unsigned int found = 0;
	for (unsigned int i = 0; i < sent.process_count; i++) {
		found += sent.processes[i].variable_count;
		if (!sent.processes[i].variable_count)
			continue;
		cr_assert_str_eq(sent.processes[i].service, "shop");
		cr_assert_str_eq(sent.processes[i].values[0], "1");
	}
	cr_assert_eq(found, 1, "one of the ticks is right");
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	stack_ids_reset(worker);
	sent.process_count = sent.request_count = 0;
	answer_ticks(worker, &answer, &message, before);
	cr_assert_eq(sent.process_count, 20);
	for (unsigned int i = 0; i < sent.process_count; i++)
		cr_assert_eq(sent.processes[i].variable_count, 0);
	for (int i = 0; i < 3; i++)
		close(message.fds[i]);
	worker_free(worker);
}

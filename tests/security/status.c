/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/security/attempt.h"

static uint64_t capability_mask(const cap_value_t *values)
{
	uint64_t mask = 0;

	for (; *values >= 0; values++)
		mask |= 1ull << *values;
	return mask;
}

/* Reads the line `key` of /proc/PID/file, with blanks reduced to one space. */
static bool proc_line(pid_t pid, const char *file, const char *key, char *value, size_t size)
{
	char path[64];
	_cleanup_free_ char *line = NULL;
	size_t room = 0, used = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		if (strncmp(line, key, strlen(key)))
			continue;
		for (const char *c = line + strlen(key); *c && used + 1 < size; c++) {
			const bool blank = *c == ' ' || *c == '\t' || *c == '\n';

			if (!blank || (used && value[used - 1] != ' '))
				value[used++] = blank ? ' ' : *c;
		}
		while (used && value[used - 1] == ' ')
			used--;
		value[used] = 0;
		return true;
	}
	return false;
}

static void check_line(struct tally *tally, pid_t pid, const char *name, const char *file,
		       const char *key, const char *expected)
{
	char value[128] = "(no such line)";

	proc_line(pid, file, key, value, sizeof(value));
	const bool good = !strcmp(value, expected);
	tally->cells++;
	tally->failures += !good;
	if (!good || tally->verbose)
		printf("%-5s %-16s %-36s expected: %s, is: %s\n", good ? "ok" : "FAIL", name, key,
		       expected, value);
}

static void check_process(struct tally *tally, pid_t pid, const struct sandbox_policy *policy,
			  const char *title)
{
	char caps[32], files[64], stack[64], threads[64], path[64];
	struct stat st = {0};

	snprintf(caps, sizeof(caps), "%016" PRIx64, capability_mask(policy->steady_capabilities));
	snprintf(files, sizeof(files), "%u %u files", policy->files_max, policy->files_max);
	snprintf(stack, sizeof(stack), "%u %u bytes", SANDBOX_STACK_BYTES, SANDBOX_STACK_BYTES);
	snprintf(threads, sizeof(threads), "%u %u processes", policy->threads_max,
		 policy->threads_max);
	check_line(tally, pid, title, "status", "Uid:", "61190 61190 61190 61190");
	check_line(tally, pid, title, "status", "Gid:", "61190 61190 61190 61190");
	check_line(tally, pid, title, "status", "Groups:", "");
	check_line(tally, pid, title, "status", "CapEff:", caps);
	check_line(tally, pid, title, "status", "CapPrm:", caps);
	check_line(tally, pid, title, "status", "CapInh:", "0000000000000000");
	check_line(tally, pid, title, "status", "CapAmb:", "0000000000000000");
	check_line(tally, pid, title, "status", "CapBnd:", "0000000000000000");
	check_line(tally, pid, title, "status", "NoNewPrivs:", "1");
	check_line(tally, pid, title, "status", "Seccomp:", "2");
	check_line(tally, pid, title, "status", "Seccomp_filters:", "1");
	check_line(tally, pid, title, "limits", "Max core file size", "0 0 bytes");
	check_line(tally, pid, title, "limits", "Max stack size", stack);
	check_line(tally, pid, title, "limits", "Max processes", threads);
	check_line(tally, pid, title, "limits", "Max open files", files);
	/* A process that is not dumpable: its files in /proc belong to root. */
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	const bool good = stat(path, &st) == 0 && st.st_uid == 0;
	tally->cells++;
	tally->failures += !good;
	if (!good)
		printf("FAIL  %-16s is dumpable\n", title);
}

/* Checks the capabilities of each role against the table in section 1 of ARCHITECTURE.md. */
static void check_capability_lists(struct tally *tally)
{
	const struct {
		uint64_t start, steady;
	} wanted[ROLES] = {
	    [LOADER] = {1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYSLOG,
			1ull << CAP_BPF | 1ull << CAP_PERFMON},
	    [OPENER] = {1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH |
			    1ull << CAP_CHECKPOINT_RESTORE,
			1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH |
			    1ull << CAP_CHECKPOINT_RESTORE},
	    [STRICT_OPENER] = {1ull << CAP_SYS_PTRACE, 1ull << CAP_SYS_PTRACE},
	    [STRICT_WORKER] = {1ull << CAP_SYS_PTRACE, 1ull << CAP_SYS_PTRACE},
	};

	for (unsigned int role = 0; role < ROLES; role++) {
		const bool good =
		    capability_mask(policies[role]->start_capabilities) == wanted[role].start &&
		    capability_mask(policies[role]->steady_capabilities) == wanted[role].steady;

		tally->cells++;
		tally->failures += !good;
		if (!good)
			printf("FAIL  %-16s its capabilities are not those of the design\n",
			       titles[role]);
	}
}

static void check_processes(struct tally *tally)
{
	for (unsigned int role = 0; role < ROLES; role++) {
		int link[2], status;
		char byte;

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
			abort();
		fflush(NULL);
		pid_t child = fork();
		if (child == 0) {
			close(link[0]);
			alarm(ATTEMPT_SECONDS);
			if (attempt_become(policies[role], NULL, NULL))
				_exit(EXIT_NOT_SANDBOXED);
			struct iovec part = {.iov_base = "x", .iov_len = 1};
			sendmsg(link[1], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1},
				MSG_NOSIGNAL);
			recvmsg(link[1], &(struct msghdr){0}, 0);
			_exit(0);
		}
		close(link[1]);
		if (recv(link[0], &byte, 1, 0) == 1)
			check_process(tally, child, policies[role], titles[role]);
		close(link[0]);
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		    WEXITSTATUS(status)) {
			printf("FAIL  %-16s did not end by itself\n", titles[role]);
			tally->failures++;
		}
	}
}

void status_check(struct tally *tally)
{
	check_capability_lists(tally);
	check_processes(tally);
}

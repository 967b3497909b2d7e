/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_trials.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"

enum {
	/* Some 1,500 symbols. The first ones may be offsets in per-CPU memory, the first of which
	 * is 0, but no kernel has that many of them. */
	SYMBOLS_BYTES = 64 << 10,
	RING_BYTES = 4096,
	/* Takes about a millisecond. */
	PROCESSES_TRIED = 256,
};

/* Sets the effective capabilities to those of the list that are permitted. */
static void trial_become(const cap_value_t *values, int count)
{
	cap_t caps = cap_get_proc();

	if (!caps)
		return;
	cap_clear_flag(caps, CAP_EFFECTIVE);
	for (int i = 0; i < count; i++) {
		cap_flag_value_t permitted = CAP_CLEAR;

		cap_get_flag(caps, values[i], CAP_PERMITTED, &permitted);
		cap_set_flag(caps, CAP_EFFECTIVE, 1, &values[i], permitted);
	}
	cap_set_proc(caps);
	cap_free(caps);
}

/* Closes the descriptor that a system call has returned. Returns 0 or an errno. */
static int trial_close(long fd)
{
	if (fd < 0)
		return errno;
	close((int)fd);
	return 0;
}

static int try_perf_event(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_CPU_CLOCK,
				       .sample_period = 1000000000,
				       .disabled = 1};

	return trial_close(syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
}

static int try_bpf_map(void)
{
	union bpf_attr attr;

	/* The kernel refuses bytes that are not 0 and that it does not know. */
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_RINGBUF;
	attr.max_entries = RING_BYTES;
	return trial_close(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static int try_bpf_load(const struct bpf_insn *program, uint32_t count)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_PERF_EVENT;
	attr.insns = (uint64_t)(uintptr_t)program;
	attr.insn_cnt = count;
	attr.license = (uint64_t)(uintptr_t) "Dual BSD/GPL";
	return trial_close(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

#define MOVE(to, value)                                                                            \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value)               \
	}
#define CALL(helper)                                                                               \
	{                                                                                          \
		.code = BPF_JMP | BPF_CALL, .imm = (helper)                                        \
	}
#define COPY(to, from)                                                                             \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from)            \
	}
#define EXIT                                                                                       \
	{                                                                                          \
		.code = BPF_JMP | BPF_EXIT                                                         \
	}

/* return 0; */
static int try_bpf_program(void)
{
	static const struct bpf_insn program[] = {MOVE(BPF_REG_0, 0), EXIT};

	return try_bpf_load(program, sizeof(program) / sizeof(program[0]));
}

/* word = bpf_task_pt_regs(bpf_get_current_task_btf())->r15; return 0; */
static int try_bpf_typed_read(void)
{
	static const struct bpf_insn program[] = {
	    CALL(BPF_FUNC_get_current_task_btf),
	    COPY(BPF_REG_1, BPF_REG_0),
	    CALL(BPF_FUNC_task_pt_regs),
	    {.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_0},
	    MOVE(BPF_REG_0, 0),
	    EXIT,
	};

	return try_bpf_load(program, sizeof(program) / sizeof(program[0]));
}

/* char word[8]; bpf_probe_read_kernel(word, 8, NULL); return 0; */
static int try_bpf_probe_read(void)
{
	static const struct bpf_insn program[] = {
	    COPY(BPF_REG_1, BPF_REG_10),
	    {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8},
	    MOVE(BPF_REG_2, 8),
	    MOVE(BPF_REG_3, 0),
	    CALL(BPF_FUNC_probe_read_kernel),
	    MOVE(BPF_REG_0, 0),
	    EXIT,
	};

	return try_bpf_load(program, sizeof(program) / sizeof(program[0]));
}

/* Reads a structure of the kernel as the sampling program does (bpf/sample/task.h): through a typed
 * pointer, or if the kernel is too old to have its helpers, by the helper that lockdown forbids. */
static int try_bpf_kernel_read(void)
{
	const int error = try_bpf_typed_read();

	return error == EINVAL ? try_bpf_probe_read() : error;
}

/* Returns whether a line of "ADDRESS TYPE NAME" has an address that is not 0. */
static bool symbols_have_address(const char *text)
{
	for (const char *line = text; *line;) {
		const size_t digits = strspn(line, "0123456789abcdef");

		if (digits && line[digits] == ' ' && strspn(line, "0") < digits)
			return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static void try_kernel_symbols(struct host_trials *trials)
{
	static char text[SYMBOLS_BYTES + 1];
	_cleanup_close_ int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const ssize_t n = fd < 0 ? -errno : file_read_fully(fd, text, SYMBOLS_BYTES);

	trials->kernel_symbols = n < 0 ? (int)-n : 0;
	if (n >= 0)
		trials->kernel_addresses = symbols_have_address(text) ? 0 : ENODATA;
}

static int try_memory(const char *pid, bool strict_memory)
{
	char path[64], byte;
	const struct iovec local = {&byte, 1}, remote = {NULL, 1};

	if (!strict_memory) {
		snprintf(path, sizeof(path), "/proc/%.16s/mem", pid);
		return trial_close(open(path, O_RDONLY | O_CLOEXEC));
	}
	/* Nothing is mapped at address 0, which is only found out if the access is permitted. */
	const ssize_t n = process_vm_readv((pid_t)strtol(pid, NULL, 10), &local, 1, &remote, 1, 0);
	return n >= 0 || errno == EFAULT ? 0 : errno;
}

static void count_trial(struct trial_count *count, int error)
{
	count->permitted += error == 0;
	count->refused += error == EPERM || error == EACCES;
}

/* Tries to look into other processes than `bulkhead` and this child, which would prove nothing. One
 * process is not enough: a security module may protect some, and containers allow a process to look
 * into those of its own container only. */
static void try_processes(bool strict_memory, struct host_trials *trials)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	const pid_t self = getpid(), parent = getppid();
	int tried = 0;

	for (struct dirent *entry; proc && tried < PROCESSES_TRIED && (entry = readdir(proc));) {
		const long pid = strtol(entry->d_name, NULL, 10);
		char path[64];

		if (pid <= 0 || pid == self || pid == parent)
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/maps", entry->d_name);
		count_trial(&trials->maps, trial_close(open(path, O_RDONLY | O_CLOEXEC)));
		count_trial(&trials->memory, try_memory(entry->d_name, strict_memory));
		tried++;
	}
}

static int try_seccomp(void)
{
	const uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ? errno : 0;
}

/* Asks for the version of Landlock (LANDLOCK_CREATE_RULESET_VERSION). */
static int try_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, 1u) < 0 ? errno : 0;
}

static void trials_make_in_child(enum trials_of_processes processes, struct host_trials *trials)
{
	static const cap_value_t loader[] = {CAP_BPF, CAP_PERFMON, CAP_SYSLOG};
	static const cap_value_t opener[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
					     CAP_CHECKPOINT_RESTORE};

	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	trials->seccomp = try_seccomp();
	trials->landlock = try_landlock();
	trials->memfd = trial_close(memfd_create("trial", MFD_CLOEXEC));
	/* As sandbox_drop() does: before Linux 5.11, BPF maps count against the limit. */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	trial_become(loader, 3);
	trials->perf_event = try_perf_event();
	trials->bpf_map = try_bpf_map();
	trials->bpf_program = try_bpf_program();
	trials->bpf_kernel_read = try_bpf_kernel_read();
	try_kernel_symbols(trials);
	if (processes == TRIALS_NO_PROCESSES)
		return;
	const bool strict_memory = processes == TRIALS_PROCESSES_STRICTLY;
	trial_become(opener, strict_memory ? 1 : 3);
	try_processes(strict_memory, trials);
}

void host_trials_clear(struct host_trials *trials)
{
	*trials = (struct host_trials){
	    .perf_event = TRIAL_UNTRIED,
	    .bpf_map = TRIAL_UNTRIED,
	    .bpf_program = TRIAL_UNTRIED,
	    .bpf_kernel_read = TRIAL_UNTRIED,
	    .kernel_symbols = TRIAL_UNTRIED,
	    .kernel_addresses = TRIAL_UNTRIED,
	    .seccomp = TRIAL_UNTRIED,
	    .landlock = TRIAL_UNTRIED,
	    .memfd = TRIAL_UNTRIED,
	};
}

void host_trials_make(enum trials_of_processes processes, struct host_trials *trials)
{
	int ends[2];

	host_trials_clear(trials);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid_t child = fork();
	if (child == 0) {
		trials_make_in_child(processes, trials);
		_exit(write(ends[1], trials, sizeof(*trials)) != sizeof(*trials));
	}
	close(ends[1]);
	_cleanup_close_ int end = ends[0];
	struct host_trials made;
	if (child > 0 && file_read_fully(end, &made, sizeof(made)) == (ssize_t)sizeof(made))
		*trials = made;
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

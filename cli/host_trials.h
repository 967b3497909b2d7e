/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel answers when a process with the capabilities of the loader, and then of the
 * opener, tries what these roles do.
 *
 * How this works. Settings, security modules and the filters of containers decide together, in ways
 * that no file describes. So a child process sets its effective capabilities to those of a role and
 * makes the same system calls. All of them only create something that ends with the child: an event
 * that is never enabled, a map of one page, programs of a few instructions that are never attached.
 *
 * Example: Debian sets kernel.perf_event_paranoid to 3, which refuses perf events to a process that
 * has CAP_PERFMON but not CAP_SYS_ADMIN. `bulkhead` as root has both and could open one; the child,
 * like the loader, gets EACCES.
 */
#ifndef CLI_HOST_TRIALS_H
#define CLI_HOST_TRIALS_H

#include <stdbool.h>

enum {
	TRIAL_UNTRIED = -1
};

/* How many processes allowed something and how many did not. Those that end meanwhile, and threads
 * of the kernel, which have no memory, do not count. */
struct trial_count {
	int permitted, refused;
};

/* Each result is 0, an errno, or TRIAL_UNTRIED. */
struct host_trials {
	/* As the loader. */
	int perf_event;	      /* a clock of CPU 0 */
	int bpf_map;	      /* a ring buffer */
	int bpf_program;      /* for perf events */
	int bpf_kernel_read;  /* the same, which reads a structure of the kernel */
	int kernel_symbols;   /* /proc/kallsyms is opened and read */
	int kernel_addresses; /* the same; ENODATA if all addresses in it are 0 */
	/* As the opener, or with --strict-memory as the worker. Of other processes. */
	struct trial_count maps;   /* /proc/PID/maps is opened */
	struct trial_count memory; /* /proc/PID/mem is opened; strict: process_vm_readv(2) */
	/* As every role. */
	int seccomp;  /* the kernel has filters that end a process */
	int landlock; /* the kernel has it; ENOSYS and EOPNOTSUPP: it has not */
	int memfd;    /* an anonymous file, in which each role compiles its filter */
};

/* Sets all results to TRIAL_UNTRIED. */
void host_trials_clear(struct host_trials *trials);

/* Whether other processes are looked into. What that shows never keeps a recording from starting,
 * so only `bulkhead doctor` does it. */
enum trials_of_processes {
	TRIALS_NO_PROCESSES,
	TRIALS_PROCESSES,
	TRIALS_PROCESSES_STRICTLY, /* as with --strict-memory */
};

/* Makes the trials. If the child cannot be started or dies, all are TRIAL_UNTRIED. */
void host_trials_make(enum trials_of_processes processes, struct host_trials *trials);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt: a child process drops its privileges exactly as a role does, enters the sandbox of
 * that role's policy, makes the attempt, and reports the outcome. All tests of this directory
 * consist of attempts.
 */
#ifndef TESTS_SECURITY_ATTEMPT_H
#define TESTS_SECURITY_ATTEMPT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/sandbox.h"

#ifdef BULKHEAD_SANITIZE
enum {
	SANITIZED = 1
};
#else
enum {
	SANITIZED = 0
};
#endif

enum {
	TEST_UID = 61190,
	EXIT_SKIPPED = 77,
	EXIT_NOT_SANDBOXED = 254,
	ATTEMPT_SECONDS = 10,
	LANDLOCK_TCP = 4 /* the first version of Landlock that restricts TCP */
};

/* The columns of the matrix: the policies under which attempts are made. */
enum {
	LOADER,
	MANAGER,
	OPENER,
	WORKER,
	EXPORTER,
	OTLP, /* the agent's exporter */
	/* With --strict-memory. */
	STRICT_OPENER,
	STRICT_WORKER,
	/* The columns from here on are in matrix_derived.c: they differ from others in few rows. */
	MATRIX_COLUMNS,
	CONTROL = MATRIX_COLUMNS,
	LOCAL_OTLP, /* the agent's exporter, if its backend listens on a Unix socket */
	CONNECTOR,  /* the helper that connects to it */
	ROLES
};

extern const struct sandbox_policy *const policies[ROLES];
/* Distinguishes processes that have the same name, such as the two exporters. */
extern const char *const titles[ROLES];

/* The outcome of an attempt: an errno other than 0, or one of these. */
enum {
	WORKS = 0,
	KILLED = -1, /* by SIGSYS, the filter's signal */
	/* Works although it should not: a documented gap. The test fails once the gap is closed. */
	KNOWN_GAP = -2,
	SKIPPED = -3,
	BROKEN = -4,	     /* the child failed before it made its attempt */
	REFUSED = -5,	     /* EACCES, EPERM or EXDEV, depending on the kernel */
	OTHER_SIGNAL = -100, /* minus the signal's number: killed, but not by the filter */
};

/* The targets of attempts. Root creates them before any child is started. */
struct fixture {
	char dir[64], file[96], program[96], socket[96]; /* anyone may write there */
	char spool[96];	   /* a directory in `dir` owned by TEST_UID, with the file "segment" */
	char secret[96];   /* owned by root, mode 0400 */
	char readable[96]; /* a file next to it that everybody may write */
	int regular;	   /* an open file, read and write */
	int pipe[2], sockets[2], epoll, inet, null, memory_file;
	int event, map;	 /* -1: this kernel grants none */
	int pidfd;	 /* of `victim` */
	pid_t victim;	 /* a process of root that does nothing */
	int identity[3]; /* stat, cgroup and environ of `victim` in /proc */
	char *memory;	 /* a page, readable and writable */
	int listener;	 /* a TCP socket on the loopback device */
	uint16_t port;	 /* its port, in network byte order */
	bool ipv6;
	int landlock; /* version of Landlock; 0: this kernel has none */
};

struct attempt {
	const char *name;
	int expected[MATRIX_COLUMNS];
	/* Either a raw system call, */
	long number;
	long args[6];
	/* or a function for an attempt of several calls, which returns 0 or an errno. */
	int (*fn)(const struct fixture *fixture);
	bool not_sanitized;  /* the sanitizers' runtime library may do it */
	bool stderr_is_file; /* otherwise it is /dev/null */
};

struct tally {
	unsigned int cells, failures, gaps;
	bool verbose;
};

/* Allows a role what it may open in spite of its policy, as configure.c of the agent's exporter
 * does. Returns 0 or a negative errno. */
typedef int (*attempt_allow_fn)(struct sandbox *sandbox, const struct fixture *fixture);

#define P(pointer) ((long)(uintptr_t)(pointer))
#define CALL(nr, ...) .number = (nr), .args = {__VA_ARGS__}
#define EVERYWHERE(outcome)                                                                        \
	{                                                                                          \
		outcome, outcome, outcome, outcome, outcome, outcome, outcome, outcome             \
	}
#define CHECK(rows) attempt_check_rows(tally, rows, sizeof(rows) / sizeof((rows)[0]), s)

/* Ends an attempt of several calls with the errno of the one that failed. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return errno ? errno : EPROTO;                                             \
	} while (0)

/* Drops privileges and enters the sandbox, as role_start and role_enter_sandbox do. */
int attempt_become(const struct sandbox_policy *policy, attempt_allow_fn allow,
		   const struct fixture *fixture);

/* Makes an attempt under a policy and returns its outcome. `allow` may be NULL. */
int attempt_outcome(const struct attempt *a, const struct sandbox_policy *policy,
		    attempt_allow_fn allow, const struct fixture *fixture);

/* Counts an outcome, and prints it if it is not the expected one. */
void attempt_judge(struct tally *tally, const char *title, const struct attempt *a, int expected,
		   int outcome);

/* Returns the outcome that is expected of an attempt in a derived column (matrix_derived.c). */
int matrix_derived(unsigned int column, const struct attempt *a);

/* Makes each attempt once for each role. */
void attempt_check_rows(struct tally *tally, const struct attempt *rows, size_t count,
			const struct fixture *fixture);

void fixture_init(struct fixture *s);
void fixture_fini(struct fixture *s);
/* Opens /proc/PID/name for reading. Returns a descriptor or -1. */
int fixture_open_proc(pid_t pid, const char *name);

/* Shows that every role can still do its work: what the filters must not forbid. */
void needs_try(struct tally *tally, const struct fixture *s);

/* Connects to the fixture's listener, as the agent's exporter does to its backend. */
int needs_loopback(const struct fixture *fixture);

/* Tries Landlock without the filter, and its exceptions for the agent's exporter. */
void landlock_try(struct tally *tally, const struct fixture *s);

/* Compares what /proc says of a sandboxed process with the design. */
void status_check(struct tally *tally);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt in a child that becomes nobody exactly as a role does, under that role's policy, and
 * what came of it: what the matrix (test_filters.c) and its neighbours are made of.
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
	ATTEMPT_SECONDS = 10
};

/* Columns of the matrix. */
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
	ROLES
};

extern const struct sandbox_policy *const policies[ROLES];
/* Two processes have the same name. */
extern const char *const titles[ROLES];

/* What may come of an attempt: an errno that is not 0, or one of these. */
enum {
	WORKS = 0,
	KILLED = -1, /* by SIGSYS */
	HOLE = -2,   /* works, and should not: known, see what is printed. A failure once it is
			closed. */
	SKIPPED = -3,
	BROKEN = -4,	     /* the child did not even come to its attempt */
	REFUSED = -5,	     /* EACCES, EPERM or EXDEV, as the kernel's version has it */
	OTHER_SIGNAL = -100, /* less the signal: killed, but not by the filter */
};

/* What there is to attack; made by root before any child. */
struct scene {
	char dir[64], file[96], program[96], socket[96]; /* anyone may write there */
	char spool[96];	   /* a directory in it, TEST_UID's, with the file "segment" */
	char secret[96];   /* root's, mode 0400 */
	char readable[96]; /* a file beside it, writable as far as its mode goes */
	int regular;	   /* an open file, read and write */
	int pipe[2], sockets[2], epoll, inet, null, memory_file;
	int event, map;	 /* -1: the kernel has none for us */
	int pidfd;	 /* of `victim` */
	pid_t victim;	 /* a process of root that does nothing */
	int identity[3]; /* its stat, cgroup and environ in /proc */
	char *memory;	 /* a page, readable and writable */
	int listener;	 /* on the loopback device, */
	uint16_t port;	 /* there, in network order */
	bool ipv6;
	int landlock; /* its version; 0: this kernel has none */
};

struct attempt {
	const char *name;
	int expected[ROLES];
	/* A raw system call, */
	long number;
	long args[6];
	/* or something that takes more than one: 0 or an errno. */
	int (*fn)(const struct scene *scene);
	bool not_sanitized;  /* the sanitizers' run time may do it */
	bool stderr_is_file; /* else it is /dev/null */
};

struct tally {
	unsigned int cells, failures, holes;
	bool verbose;
};

/* What may be opened all the same; as configure.c does it. 0 or a negative errno. */
typedef int (*attempt_allow_fn)(struct sandbox *sandbox, const struct scene *scene);

#define P(pointer) ((long)(uintptr_t)(pointer))
#define CALL(nr, ...) .number = (nr), .args = {__VA_ARGS__}
#define EVERYWHERE(outcome)                                                                        \
	{                                                                                          \
		outcome, outcome, outcome, outcome, outcome, outcome, outcome, outcome             \
	}
#define CHECK(rows) attempt_check_rows(tally, rows, sizeof(rows) / sizeof((rows)[0]), s)

/* In an attempt of more than one call. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return errno ? errno : EPROTO;                                             \
	} while (0)

/* As role_start and role_enter_sandbox do it. */
int attempt_become(const struct sandbox_policy *policy, attempt_allow_fn allow,
		   const struct scene *scene);

/* What came of an attempt under a policy. `allow` may be NULL. */
int attempt_outcome(const struct attempt *a, const struct sandbox_policy *policy,
		    attempt_allow_fn allow, const struct scene *scene);

/* Count it and print what is wrong. */
void attempt_judge(struct tally *tally, const char *title, const struct attempt *a, int expected,
		   int outcome);

/* One cell a role. */
void attempt_check_rows(struct tally *tally, const struct attempt *rows, size_t count,
			const struct scene *scene);

void scene_init(struct scene *s);
void scene_fini(struct scene *s);
/* A file of a process in /proc, to be read. Its fd or -1. */
int scene_proc(pid_t pid, const char *name);

/* What the filters are there not to forbid. */
void needs_try(struct tally *tally, const struct scene *s);

/* Landlock alone, and its exceptions for the agent's exporter. */
void landlock_try(struct tally *tally, const struct scene *s);

/* What the kernel says of a sandboxed process. */
void status_check(struct tally *tally);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attacker would do inside a role: actions of one or several system calls. Each succeeds in
 * a process of root without a sandbox, so that a role in which it fails has been held back.
 */
#ifndef TESTS_SECURITY_ACTIONS_H
#define TESTS_SECURITY_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ACTION_CALLS_MAX = 4,
	ACTIONS_MAX = 256
};

/* As an argument: the result of an earlier call of the same action. */
#define RESULT(call) (0x5e50170000000000l + (call))

struct action {
	const char *name;
	unsigned int call_count;
	struct {
		long number;
		long args[6];
	} calls[ACTION_CALLS_MAX];
};

struct actions {
	struct action of[ACTIONS_MAX];
	unsigned int count;
};

/* The targets, new for each process that is attacked. */
struct targets {
	char dir[64];	   /* anyone may write there */
	char file[96];	   /* in `dir`; anyone may read and write it */
	char secret[96];   /* in `dir`; of root, mode 0400 */
	pid_t victim;	   /* a process of root; its standard input is `secret` */
	pid_t other;	   /* another process that no role may reach, for example the supervisor */
	pid_t mortal;	   /* a process of root that may be killed */
	char *memory;	   /* an address in the victim */
	uint16_t port;	   /* of a listener of TCP on 127.0.0.1, in network byte order */
	char abstract[32]; /* the name of a listener of Unix in the abstract namespace, without its
			      first byte */
};

/* Appends the actions of one class. Their memory is in the arena (inject.h). */
void actions_add_files(struct actions *actions, const struct targets *targets);
void actions_add_names(struct actions *actions, const struct targets *targets);
void actions_add_network(struct actions *actions, const struct targets *targets);
void actions_add_processes(struct actions *actions, const struct targets *targets);
void actions_add_memory(struct actions *actions, const struct targets *targets);
void actions_add_kernel(struct actions *actions, const struct targets *targets);
void actions_add_privileges(struct actions *actions, const struct targets *targets);
void actions_add_namespaces(struct actions *actions, const struct targets *targets);

#endif

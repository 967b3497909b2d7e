/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about a process: the facts by which audit_judge.h compares it with its
 * policy. The process may be hostile. It cannot change what the kernel reports of its rights, but
 * it chooses its name and its command line, so neither decides anything.
 */
#ifndef CLI_AUDIT_PROCESS_H
#define CLI_AUDIT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum audit_capability_set {
	AUDIT_INHERITABLE,
	AUDIT_PERMITTED,
	AUDIT_EFFECTIVE,
	AUDIT_BOUNDING,
	AUDIT_AMBIENT,
	AUDIT_CAPABILITY_SETS
};

enum audit_limit {
	AUDIT_LIMIT_CORE,
	AUDIT_LIMIT_DATA,
	AUDIT_LIMIT_FILES,
	AUDIT_LIMIT_PROCESSES,
	AUDIT_LIMIT_STACK,
	AUDIT_LIMIT_COUNT
};

enum {
	AUDIT_IDS = 4, /* real, effective, saved, and for files */
	AUDIT_NAMESPACE_COUNT = 10,
	AUDIT_LABEL_BYTES = 256,
	AUDIT_GROUPS_BYTES = 128,
};

#define AUDIT_LIMIT_NONE UINT64_MAX

extern const char *const audit_namespace_names[AUDIT_NAMESPACE_COUNT];
extern const char *const audit_capability_set_names[AUDIT_CAPABILITY_SETS];
extern const char *const audit_limit_names[AUDIT_LIMIT_COUNT];

/* What /proc/PID/status and /proc/PID/task/TID/status say (proc_pid_status(5)). */
struct audit_credentials {
	pid_t parent, tracer;
	uid_t uids[AUDIT_IDS];
	gid_t gids[AUDIT_IDS];
	char groups[AUDIT_GROUPS_BYTES]; /* the supplementary ones; "": none */
	uint64_t capabilities[AUDIT_CAPABILITY_SETS];
	uint64_t no_new_privs, seccomp_mode;
	uint64_t seccomp_filters; /* 0 also before Linux 5.9, which does not say it */
};

struct audit_file_id {
	dev_t device;
	ino_t inode;
};

struct audit_process {
	pid_t pid;
	struct audit_credentials credentials;
	/* 0 where the kernel has no namespaces of this kind. */
	ino_t namespaces[AUDIT_NAMESPACE_COUNT];
	struct audit_file_id root;
	char label[AUDIT_LABEL_BYTES]; /* of the security module; "" without one */
	/* The higher of the two limits. */
	uint64_t limits[AUDIT_LIMIT_COUNT];
	bool dumpable;
	/* Of reading each of these: 0 or an errno. */
	int credentials_error, namespaces_error, root_error, label_error, limits_error,
	    dumpable_error;
};

/* Reads the text of a status file. Returns 0, or -EBADMSG if a line is missing or malformed. */
int audit_credentials_parse(const char *text, struct audit_credentials *credentials);

/* Reads the text of /proc/PID/limits. Returns 0, or -EBADMSG. */
int audit_limits_parse(const char *text, uint64_t limits[AUDIT_LIMIT_COUNT]);

/* Reads the credentials of a thread, or of the first thread of a process if `tid` is 0. Returns 0
 * or a negative errno. */
int audit_credentials_read(pid_t pid, pid_t tid, struct audit_credentials *credentials);

/* Reads all facts of a process. What cannot be read has its error. */
void audit_process_read(pid_t pid, struct audit_process *process);

#endif

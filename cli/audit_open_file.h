/* SPDX-License-Identifier: Apache-2.0 */
/* What a descriptor of another process refers to, as the kernel says. */
#ifndef CLI_AUDIT_OPEN_FILE_H
#define CLI_AUDIT_OPEN_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/audit_process.h"

enum audit_file_kind {
	AUDIT_FILE_OTHER,
	AUDIT_FILE_NULL, /* /dev/null */
	AUDIT_FILE_REGULAR,
	AUDIT_FILE_PROCESS_MEMORY, /* /proc/PID/mem or environ */
	AUDIT_FILE_DIRECTORY,
	AUDIT_FILE_PINS, /* a directory in a BPF file system */
	AUDIT_FILE_SOCKET,
	AUDIT_FILE_BPF_PROGRAM,
	AUDIT_FILE_BPF_MAP,
	AUDIT_FILE_BPF_TYPES,
	AUDIT_FILE_BPF_LINK,
	AUDIT_FILE_PERF_EVENT,
	AUDIT_FILE_EPOLL,
	AUDIT_FILE_EVENTFD,
	AUDIT_FILE_SIGNALFD,
};

enum {
	AUDIT_BPF_NAME_BYTES = 17,
	AUDIT_BPF_TAG_BYTES = 8,
};

struct audit_socket {
	int family, type, protocol;
	bool listens;
	pid_t peer_pid; /* of AF_UNIX: who has connected or listens; 0: nobody */
	uid_t peer_uid;
};

struct audit_bpf {
	uint32_t id, type;
	char name[AUDIT_BPF_NAME_BYTES];
	uint8_t tag[AUDIT_BPF_TAG_BYTES]; /* of a program */
};

struct audit_pins {
	size_t count;
	/* The directory and all pins belong to its owner, and nobody else may use them. */
	bool closed;
};

struct audit_open_file {
	enum audit_file_kind kind;
	bool writable;
	struct audit_file_id id;
	uid_t owner;
	struct audit_socket socket; /* only of this kind */
	struct audit_bpf bpf;	    /* of a program or map; of a link, the type */
	struct audit_pins pins;
	char name[PATH_MAX]; /* what the kernel shows of it, for people */
};

/* Returns a descriptor by which audit_open_file_read() can look into a process, or a negative
 * errno. The caller closes it. */
int audit_open_process(pid_t pid);

/* Finds out what descriptor `number` of a process refers to. Returns 0 or a negative errno: -EBADF
 * if it was closed meanwhile. */
int audit_open_file_read(int process, pid_t pid, int number, struct audit_open_file *file);

#endif

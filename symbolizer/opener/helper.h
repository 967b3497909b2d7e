/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper: a child of the opener, which does what may never return.
 *
 * How this works. To open a file, or only to ask for its file system, may take as long as somebody
 * else likes: a FUSE server below an overlay, or a process that holds a lock while it hangs. Some
 * of these waits do not even end with SIGKILL. So the opener lets a helper open everything that
 * belongs to others. The helper is a fork of the opener with the same capabilities and filter; of
 * its descriptors it only keeps its end of a socket, on which requests come and opened descriptors
 * go. If it does not answer in time it is killed and given up, and another one takes its place
 * (lane.h): this costs one request, not the opener.
 *
 * The helper has its own name, bulkhead-symh, and ends when the opener closes the socket or ends.
 * One that cannot end keeps nothing of the opener that others wait for: neither a connection to
 * another role nor the pipe to which log lines go.
 *
 * Example: the opener sends {OPENING_FILE, tgid 42, its mapping}. The helper opens
 * /proc/42/map_files/START-END and answers {0, same file} with the descriptor.
 */
#ifndef SYMBOLIZER_OPENER_HELPER_H
#define SYMBOLIZER_OPENER_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/messages.h"

enum opening_kind {
	OPENING_MAPS,	  /* /proc/TGID/maps and stat */
	OPENING_FILE,	  /* a file that is mapped */
	OPENING_IDENTITY, /* /proc/TGID/stat, cgroup and, if `environment`, environ */
	OPENING_MEMORY,	  /* /proc/TGID/mem */
	OPENING_NOTHING,  /* has its turn and is not sent to the helper */
};

enum {
	OPENED_FDS_MAX = 3
};

/* What is to be opened. */
struct opening {
	enum opening_kind kind;
	uint32_t tgid;
	uint32_t uid;	  /* of the process, for the answer */
	uint32_t cookie;  /* of the request, for the answer */
	bool environment; /* of OPENING_IDENTITY */
	bool by_name;	  /* of OPENING_FILE: see open_file_named() */
	union {
		struct msg_open_file file;
		struct msg_allow_memory memory;
	};
};

/* What was opened. The descriptors are the receiver's, in the order of enum opening_kind. */
struct opened {
	int error; /* 0 or a negative errno, and then there are no descriptors */
	bool same_file;
	unsigned int fd_count;
	int fds[OPENED_FDS_MAX];
};

/* Opens, in the helper. `opened` is empty before. */
typedef void (*opening_fn)(const struct opening *opening, struct opened *opened);

struct helper {
	pid_t pid; /* 0: there is none */
	int fd;	   /* the opener's end of the socket; -1: there is none */
};

/* Starts a helper that calls `perform` for each request. Returns 0 or a negative errno. */
int helper_start(struct helper *helper, opening_fn perform);

/* Sends a request. Returns 0; -EAGAIN if the socket is full; or -EPIPE if the helper is gone. */
int helper_send(struct helper *helper, const struct opening *opening);

/* Receives the answer to the oldest request that has none yet, without waiting. Returns 1; 0 if
 * there is none yet; or -EPIPE if the helper is gone. */
int helper_receive(struct helper *helper, struct opened *opened);

/* Closes the socket, and kills the helper. Does not wait for its end: returns its pid, which is to
 * be collected, or 0 if there was none. */
pid_t helper_drop(struct helper *helper);

/* Closes all descriptors of `opened`. */
void opened_close(struct opened *opened);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the opener's helpers open, and the packets that say so.
 *
 * To open a file, or only to ask for its file system, may take as long as somebody else likes: a
 * FUSE server below an overlay, or a process that holds a lock while it hangs. Some of these waits
 * do not even end with SIGKILL. So the opener lets a helper (role/helper.h) open everything that
 * belongs to others.
 *
 * Example: the opener sends {OPENING_FILE, tgid 42, its mapping}. The helper opens
 * /proc/42/map_files/START-END and answers {0, same file} with the descriptor.
 */
#ifndef SYMBOLIZER_OPENER_OPENING_H
#define SYMBOLIZER_OPENER_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"
#include "ipc/messages.h"
#include "role/helper.h"

enum opening_kind {
	OPENING_MAPS,	  /* /proc/TGID/maps, stat and, if there is one, cgroup */
	OPENING_FILE,	  /* a file that is mapped */
	OPENING_IDENTITY, /* /proc/TGID/stat, cgroup and, if `environment`, environ */
	OPENING_MEMORY,	  /* /proc/TGID/mem */
	/* A debug file, below the directories that come with the request. */
	OPENING_DEBUG,
	OPENING_DEBUG_OF_PROCESS, /* one near a file that a process maps, or as above */
	OPENING_JIT_MAP,	  /* jit-PID.dump or /tmp/perf-PID.map of TGID */
	OPENING_NOTHING,	  /* has its turn and is not sent to the helper */
};

enum {
	OPENED_FDS_MAX = 3
};

/* What is to be opened. */
struct opening {
	enum opening_kind kind;
	uint32_t tgid;
	uint32_t uid;	 /* of the process, for the answer */
	uint32_t cookie; /* of the request, for the answer */
	/* Of the process, as who asks knows it: see struct msg_open_maps. */
	uint64_t container;
	bool environment; /* of OPENING_IDENTITY */
	bool by_name;	  /* of OPENING_FILE and OPENING_JIT_MAP: see open_file_named() */
	union {
		struct msg_open_file file;
		struct msg_allow_memory memory;
		struct msg_open_debug debug;
	};
};

/* Descriptors of directories (O_PATH) in which debug files are searched. */
struct directories {
	unsigned int count;
	int fds[LIMIT_DEBUG_DIRECTORIES];
};

/* What was opened. The descriptors are the receiver's, in the order of enum opening_kind. */
struct opened {
	int error; /* 0 or a negative errno, and then there are no descriptors */
	bool same_file;
	bool is_dump;	     /* of OPENING_JIT_MAP */
	uint32_t debug_path; /* which path of the debug file it is */
	unsigned int fd_count;
	int fds[OPENED_FDS_MAX];
};

/* Opens, in the helper. `opened` is empty before. */
typedef void (*opening_fn)(const struct opening *opening, const struct directories *directories,
			   struct opened *opened);

/* Starts a helper that calls `perform` for each request. Returns as helper_start(). */
int opening_start(struct helper *helper, opening_fn perform);

/* Returns whether a debug file is to be opened. */
bool opening_is_for_debug(const struct opening *opening);

/* Sends a request, with the directories if it is one for a debug file. Returns 0; -EAGAIN if the
 * socket is full; or -EPIPE if the helper is gone. */
int opening_send(const struct helper *helper, const struct opening *opening,
		 const struct directories *directories);

/* Receives the answer to the oldest request that has none yet, without waiting. Returns 1; 0 if
 * there is none yet; or -EPIPE if the helper is gone. */
int opening_receive(const struct helper *helper, struct opened *opened);

/* Closes all descriptors of `opened`. */
void opened_close(struct opened *opened);

#endif

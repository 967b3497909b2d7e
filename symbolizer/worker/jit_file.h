/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a process names the code that it generates, and what was read of it: a map
 * (parse/perf_map.h) or a jitdump (parse/jit_dump.h).
 *
 * How this works. The process appends to the file as long as it runs, and may do anything else with
 * it. So it is read in slices from where the last one ended, and from its start if it became
 * shorter. What follows a broken record of a jitdump is not read. Names and lines go to a struct
 * jit_symbols.
 */
#ifndef SYMBOLIZER_WORKER_JIT_FILE_H
#define SYMBOLIZER_WORKER_JIT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/jit_dump.h"
#include "symbolizer/worker/jit_symbols.h"

struct perf_map_parser;

struct jit_file {
	int fd;		 /* -1: there is none */
	uint64_t offset; /* up to here it has been parsed */
	uint64_t end;	 /* where it ended when it was read last */
	bool unread;	 /* that end has not been reached */
	bool broken;
	struct perf_map_parser *map; /* NULL: it is a jitdump */
	struct jit_dump_parser dump;
	struct jit_symbols symbols;
};

/* What reading has changed, other than that there are further names. */
struct jit_file_changes {
	bool replaced; /* addresses have other names, or none */
	bool dropped;  /* names, for want of room */
};

/* Without a file. */
void jit_file_init(struct jit_file *file);

/* Starts with a file, whose descriptor is taken over. Returns 0; or -ENOMEM, and then the
 * descriptor stays the caller's. */
int jit_file_open(struct jit_file *file, int fd, bool is_dump);

/* Closes the file, if there is one, and drops the names. */
void jit_file_close(struct jit_file *file);

/* Reads the next slice, and clears `unread` at the end of the file, or if it cannot be read. Each
 * name gets the next one of the ids, `*id` being the last that was assigned. */
void jit_file_read(struct jit_file *file, uint64_t *id, struct jit_file_changes *changes);

/* Sets `unread` if there is more to read. If the file became shorter, drops the names, which sets
 * `changes->replaced`. Returns 0, or a negative errno if the file cannot be asked. */
int jit_file_check(struct jit_file *file, struct jit_file_changes *changes);

/* Finds the name that an address had at a time; `*line` is the source line or 0, and `*source` the
 * source file or "". Returns NULL if there is none. The strings are valid until more is read. */
const char *jit_file_find(const struct jit_file *file, uint64_t address, uint64_t time_ns,
			  const char **source, uint32_t *line);

#endif

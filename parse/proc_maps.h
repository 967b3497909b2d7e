/* SPDX-License-Identifier: Apache-2.0 */
/* Parses /proc/PID/maps and /proc/PID/stat (proc_pid_maps(5), proc_pid_stat(5)). The kernel writes
 * them, but the names in them are chosen by the profiled process. Pure. */
#ifndef PARSE_PROC_MAPS_H
#define PARSE_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_mapping {
	uint64_t start, end, file_offset;
	uint32_t device_major, device_minor;
	uint64_t inode;
	bool executable, writable;
	const char *path; /* path_length bytes of the text, not NUL-terminated; none if anonymous */
	size_t path_length;
};

typedef void (*proc_mapping_fn)(void *context, const struct proc_mapping *mapping);

/* Calls `fn` for each well-formed line. Returns the number of other lines, which are skipped. */
unsigned int proc_maps_parse(const char *text, size_t length, proc_mapping_fn fn, void *context);

/* Copies the name of the process from /proc/PID/stat, cut at `size` - 1 bytes. It is in parentheses
 * and may contain parentheses itself. Returns false if there is none. */
bool proc_stat_comm(const char *text, size_t length, char *comm, size_t size);

/* Returns whether the first thread of a process has ended, by its /proc/PID/stat. Others may still
 * run. */
bool proc_stat_leader_ended(const char *text, size_t length);

/* Reads when the process started from /proc/PID/stat: clock ticks since boot, including time in
 * suspend, sysconf(_SC_CLK_TCK) per second. Returns false if the text is too short. */
bool proc_stat_start(const char *text, size_t length, uint64_t *ticks);

#endif

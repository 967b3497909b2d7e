/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/maps and /proc/PID/stat: text by the kernel, with names chosen by whoever is profiled.
 * Formats: proc(5). */
#ifndef PARSE_PROC_MAPS_H
#define PARSE_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_mapping {
	uint64_t start, end, file_offset;
	uint32_t device_major, device_minor;
	uint64_t inode;
	bool executable;
	const char *path; /* path_length bytes inside the text, "" for anonymous memory */
	size_t path_length;
};

typedef void (*proc_mapping_fn)(void *context, const struct proc_mapping *mapping);

/* Call `fn` for each well-formed line; others are skipped and counted in the return value. */
unsigned int proc_maps_parse(const char *text, size_t length, proc_mapping_fn fn, void *context);

/* The name in parentheses of /proc/PID/stat (which may itself contain parentheses), cut to `size`
 * with its NUL. false if there is none. */
bool proc_stat_comm(const char *text, size_t length, char *comm, size_t size);

/* When the process of /proc/PID/stat started: clock ticks (sysconf(_SC_CLK_TCK) a second) since
 * boot, suspended time included. false if it does not say. */
bool proc_stat_start(const char *text, size_t length, uint64_t *ticks);

#endif

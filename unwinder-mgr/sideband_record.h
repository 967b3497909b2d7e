/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the bodies of perf sideband records, which follow the header. Fields are as in
 * linux/perf_event.h, PERF_RECORD_*; their order in the record is their order below. All functions
 * return false if the body is too short, and then leave the output undefined.
 *
 * Each record ends with its time (sample_id_all with PERF_SAMPLE_TIME alone). But a record about
 * kernel text may claim to be longer than it is: for each further reader of such events on a CPU,
 * another profiler for example, the kernel makes it 8 bytes longer, which it does not write
 * (perf_event_ksymbol_output() in kernel/events/core.c, seen in Linux 6.18). So the time of these
 * is where their name ends.
 */
#ifndef UNWINDER_MGR_SIDEBAND_RECORD_H
#define UNWINDER_MGR_SIDEBAND_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cursor.h"

/* PERF_RECORD_MMAP2 without build ids. */
struct sideband_mmap {
	uint32_t tgid, tid;
	uint64_t start, length, file_offset;
	uint32_t device_major, device_minor;
	uint64_t inode;
	uint64_t generation; /* of the inode; not needed, since an open inode is not recycled */
	uint32_t protection, flags;
	const char *path; /* points into the record */
};

/* PERF_RECORD_COMM */
struct sideband_comm {
	uint32_t tgid, tid;
	const char *comm; /* points into the record */
};

/* PERF_RECORD_FORK and PERF_RECORD_EXIT */
struct sideband_task {
	uint32_t tgid, parent_tgid, tid, parent_tid;
};

/* PERF_RECORD_KSYMBOL */
struct sideband_ksymbol {
	uint64_t address;
	uint32_t length;
	uint16_t type, flags;
	const char *name; /* points into the record */
};

enum {
	SIDEBAND_TRAILER_BYTES = 8, /* the time */
};

/* Returns the time of a record: its header, body and time, `size` bytes in all. */
uint64_t sideband_record_time(const uint8_t *record, size_t size);

bool sideband_mmap_read(struct cursor *c, struct sideband_mmap *record);
bool sideband_comm_read(struct cursor *c, struct sideband_comm *record);
bool sideband_task_read(struct cursor *c, struct sideband_task *record);
bool sideband_ksymbol_read(struct cursor *c, struct sideband_ksymbol *record);

#endif

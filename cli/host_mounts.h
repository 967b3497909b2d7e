/* SPDX-License-Identifier: Apache-2.0 */
/* What the table of mounts (/proc/self/mountinfo, proc_pid_mountinfo(5)) says about the file
 * systems that matter to profiling. */
#ifndef CLI_HOST_MOUNTS_H
#define CLI_HOST_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	/* Longer paths of mounts are ignored; those of cgroups have some 30 bytes. */
	HOST_MOUNT_PATH_BYTES = 512,
	/* A host of containers has some hundreds of mounts with 200 bytes each. The rest of a
	 * longer table is not read. */
	HOST_MOUNTS_BYTES = 4 << 20,
};

/* A mounted file system: where it is, and which directory of it is visible there. */
struct host_mount {
	char path[HOST_MOUNT_PATH_BYTES]; /* empty: it is not mounted */
	char root[HOST_MOUNT_PATH_BYTES];
};

struct host_mounts {
	struct host_mount cgroup2;	 /* the first of cgroups version 2 */
	struct host_mount cgroup_memory; /* the first of version 1 with the memory controller */
	struct host_mount bpffs;
	bool proc;	       /* /proc is a proc file system */
	bool proc_subset_pid;  /* it has no files but those of processes */
	char proc_hidepid[16]; /* the value of its option; empty: it has none */
};

/* Parses the table, whose text is changed. Lines that are no mounts are ignored. */
void host_mounts_parse(char *text, struct host_mounts *mounts);

/* Reads and parses the table of this process. `root` is a directory before all paths, "" for the
 * host itself. Returns 0 or a negative errno. */
int host_mounts_read(const char *root, struct host_mounts *mounts);

#endif

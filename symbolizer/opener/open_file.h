/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOLIZER_OPENER_OPEN_FILE_H
#define SYMBOLIZER_OPENER_OPEN_FILE_H

#include <stdbool.h>

#include "ipc/messages.h"

/*
 * Open the file that process `tgid` has mapped at an address, read-only, through
 * /proc/PID/map_files: the very file, also when it was deleted or replaced since, and whatever root
 * or mount namespace the process lives in. Only regular files on local file systems. fd, and
 * whether device and inode are those requested; or a negative errno: -ESTALE if another file is
 * mapped there now, -EOPNOTSUPP for file systems that can hang whoever touches them.
 */
int open_file_mapped(const struct msg_open_file *request, bool *same_file);

/*
 * The same without CAP_DAC_READ_SEARCH, which map_files takes: by /proc/PID/exe, or by the name
 * that the mapping has in /proc/PID/maps, from the process's root on (or ours), no link followed.
 * What is not reachable so (deleted, replaced, in a directory that not everyone may enter) cannot
 * be had: -ENOENT or -EACCES.
 */
int open_file_named(const struct msg_open_file *request, bool *same_file);

/* /proc/TGID/<name>, read-only. fd or negative errno. */
int open_file_proc(unsigned int tgid, const char *name);

#endif

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

/* /proc/TGID/<name>, read-only. fd or negative errno. */
int open_file_proc(unsigned int tgid, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the file in which a process names the code that it generates: jit-PID.dump or
 * /tmp/perf-PID.map.
 *
 * How this works. PID is the pid that the process has in the innermost pid namespace that it is in,
 * which is the one that it knows itself by. The kernel reports it.
 *
 * A jitdump may be in any directory. Its writer maps it executable, because profilers see such
 * mappings, so it is the first file with this name that the process maps like that. It is opened as
 * other mapped files are (open_file.h), and no path is looked up.
 *
 * If there is none, the path of the map is fixed: the directory tmp below the root of the process.
 * Anybody may have made what is there, so no symbolic link is followed, and only local file systems
 * are entered (open_file_walk()).
 *
 * Both must be regular files, which is found out before they are opened for reading. They must
 * belong to the process's user, or to root if everybody may read them. So nobody names the code of
 * others, and nobody sees in his profile what he may not read. A process that was forked has
 * another pid, so it has not the file of its parent, whose mapping it inherits.
 *
 * Example: process 4711 is pid 7 in its container, as the user 100000. It maps /app/jit-7.dump at
 * 7f6ae8cd5000-7f6ae8cd6000 r-xp: /proc/4711/map_files/7f6ae8cd5000-7f6ae8cd6000 is opened if it
 * belongs to the user 100000. Otherwise /proc/4711/root/tmp/perf-7.map is.
 */
#ifndef SYMBOLIZER_OPENER_OPEN_JIT_MAP_H
#define SYMBOLIZER_OPENER_OPEN_JIT_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* `uid` is the process's user, and `by_name` says that mapped files cannot be opened by their
 * mapping (open_file_named()). Returns a descriptor, which the caller closes, and whether it is a
 * jitdump; or a negative errno: -ENOENT: there is no such file; -ESRCH: the process has ended;
 * -EACCES: it belongs to another user; -EINVAL: it is no regular file; -EOPNOTSUPP: it is on a file
 * system on which access may hang. */
int open_jit_map(uint32_t tgid, uint32_t uid, bool by_name, bool *is_dump);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files of other processes, read-only.
 *
 * How this works:
 * - Usual mode: /proc/PID/map_files/START-END is a link to the very file that is mapped. Opening it
 *   works for files that were deleted or replaced, and in any root or mount namespace.
 * - Strict mode, without the capability for map_files: the program is /proc/PID/exe, and libraries
 *   are opened by their name in /proc/PID/maps, below /proc/PID/root. A process could replace a
 *   directory of that path by a symbolic link to files of other users. So the path is walked one
 *   directory at a time, no link is followed, and device and inode must be those of the mapping.
 * - Before a file is opened for reading, it is opened with O_PATH to check its type and its file
 *   system: opening a device may do something, and on a file system that is not known to be local
 *   (NFS, FUSE), a read may hang forever. A file of an overlay must be in a layer that is local.
 * - Afterwards device and inode are checked. Overlayfs and btrfs report other numbers for a
 *   mapping than for the file; then the answer says that the identity is not certain.
 *
 * Example: process 42 maps libssl.so.3, which an upgrade has replaced. In the usual mode the old
 * file is opened. In the strict mode the file of that name has another inode: -ESTALE, and the
 * frames of the library are shown as module and offset.
 */
#ifndef SYMBOLIZER_OPENER_OPEN_FILE_H
#define SYMBOLIZER_OPENER_OPEN_FILE_H

#include <stdbool.h>

#include "ipc/messages.h"

/*
 * Opens the file that a process has mapped at an address, through /proc/PID/map_files. Only regular
 * files on local file systems are opened. Returns a descriptor, which the caller closes, and
 * whether device and inode are those requested; or a negative errno: -ESTALE if another file is
 * mapped there now, -EOPNOTSUPP for file systems on which access may hang.
 */
int open_file_mapped(const struct msg_open_file *request, bool *same_file);

/*
 * Does the same without CAP_DAC_READ_SEARCH, by /proc/PID/exe or by name. Also returns -ENOENT or
 * -EACCES for a file that was deleted, or is in a directory that not everyone may enter.
 */
int open_file_named(const struct msg_open_file *request, bool *same_file);

/*
 * Opens the memory of a process for reading, if the process maps the file that the manager names.
 * That is checked before and after the memory is opened, for one and the same process. So the
 * descriptor is of a program that maps the file, even if the pid was reused: see ARCHITECTURE.md.
 * Returns a descriptor, which the caller closes, or a negative errno: -ENOENT or -ESTALE if nothing
 * or another file is mapped there; -ENOENT or -ESRCH if the process has ended.
 */
int open_file_memory(const struct msg_allow_memory *allowed);

/* Opens for reading what is open with O_PATH, if it is a regular file on a local file system. The
 * device is what the kernel reports for a mapping of the file, or the one of its status. Returns a
 * descriptor or a negative errno. */
int open_file_again(int path_fd, uint32_t device_major, uint32_t device_minor);

/* Finds the path at which a process maps a file with this inode, as the process sees it, or as this
 * role does if both have the same mounts. The kernel appends " (deleted)" to that of a file that is
 * gone. Returns 0 and the path, which the caller frees; -ENOENT: the process maps no such file, or
 * has ended; -E2BIG: it is not among the first mappings of a process that has very many; or another
 * negative errno. */
int open_file_name(uint32_t tgid, uint64_t inode, char **name);

/* Finds the first executable mapping of a file whose path ends with `end`, which starts with a
 * slash. Returns 0 and the request for open_file_mapped() or open_file_named(), without a cookie;
 * or an error of open_file_name(). */
int open_file_find_executable(uint32_t tgid, const char *end, struct msg_open_file *request);

/* Opens a path below `root` with O_PATH, directory by directory. A symbolic link could lead
 * anywhere, and a lookup on a file system that is not local may never return, so neither is done.
 * With a `uid`, only directories are entered that everybody or this user, as the owner, may enter.
 * `path` is modified. Returns a descriptor or a negative errno: -EOPNOTSUPP: a file system that is
 * not local; -EACCES; -EINVAL: the path has "." or "..". A link at the end is not followed: the
 * descriptor is of the link. */
int open_file_walk(int root, char *path, const uint32_t *uid);

/* Returns the effective uid of a process, as this role sees it, or TENANT_UID_UNKNOWN if it has
 * ended. */
uint32_t open_file_uid(unsigned int tgid);

/* Opens /proc/TGID/NAME. Returns a descriptor or a negative errno. */
int open_file_proc(unsigned int tgid, const char *name);

/* Does the same for a file that shows the memory of the process, also if its first thread has ended
 * (living_thread.h). */
int open_file_of_memory(unsigned int tgid, const char *name);

#endif

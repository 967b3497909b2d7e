/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens debug files: files with the symbols and the debug information of a program or library that
 * has none itself. Distributions package them, and other tools collect them.
 *
 * How this works. Paths are made by the rules of debuggers (GDB manual, "Separate Debug Files").
 * They have a number, from 0 on, so that the next one can be asked for. Whether a file is the right
 * one is found out by the worker, which reads it.
 *
 * On the host, the path is made of the build id and nothing else, so nobody can choose another one.
 * It is searched below the directories that the CLI opened, under the names that debuggers use and
 * those of debuginfod's cache. Links are followed, because collections of debug files consist of
 * them; so that a link opens nothing that is secret, the file must be one that everybody may read,
 * or belong to the owner of the directory if that is not root. As with mapped files, the type and
 * the file system are checked before the file is opened for reading.
 *
 * The file of the kernel is also searched there by the version of the kernel, as the opener itself
 * knows it, since packages of kernels have no link with the build id.
 *
 * Near a file that a process maps, the path is made of three parts: the root of the process or of
 * the host; the directory of the file, which the kernel reports (/proc/PID/maps), so that nobody
 * can choose another one; and the name in the file's section .gnu_debuglink. Anybody may have
 * written that one, so it must be the name of a file and end with ".debug". These roots may have
 * been made by anybody, too. Therefore no link is followed below them, only local file systems are
 * entered, and directories and files must be open to everybody or to the process's user.
 *
 * The alternate file of a file (parse/debug_link.h) is searched in the same ways. In addition, it
 * may have the name that the file says in a directory where distributions put alternate files,
 * below the directories of the CLI and /usr/lib/debug of the root. That name has to end with
 * ".debug", too.
 *
 * Split DWARF (parse/dwarf_split.h) is searched near the mapped file, too. The package has its
 * name, with ".dwp". The file of a unit has a path, which anybody may have written: it must end
 * with ".dwo" and must not lead upwards, and it starts at the directory of the mapped file. It is
 * also searched there without its directories, and then not in ".debug".
 *
 * Example: for the build id 2f3c..., /usr/lib/debug/.build-id/2f/3c....debug is opened; if it does
 * not exist, /usr/lib/debug/2f3c.../debuginfo; then the same below the next directory. Process 42
 * maps /opt/bin/x with this build id and the link x.debug. Then these are tried, below
 * /proc/42/root: usr/lib/debug/.build-id/2f/3c....debug, opt/bin/x.debug, opt/bin/.debug/x.debug,
 * usr/lib/debug/opt/bin/x.debug; if that is not our root, /opt/bin/x.debug and
 * /opt/bin/.debug/x.debug; and opt/bin/x.debug below each of the directories. If x has the
 * alternate file y.debug, .dwz/x86_64-linux-gnu/y.debug and .dwz/y.debug are tried below these
 * directories, in the order by directory, and below usr/lib/debug in the root.
 */
#ifndef SYMBOLIZER_OPENER_OPEN_DEBUG_H
#define SYMBOLIZER_OPENER_OPEN_DEBUG_H

#include "symbolizer/opener/opening.h"

/* Opens the debug file on the host: the first one from the path request->first on. Returns a
 * descriptor, which the caller closes, and the number of its path; -ENOENT if there is no such
 * file; -EINVAL if the length of the build id is out of range; or another negative errno: there may
 * be one. */
int open_debug_file(const struct directories *directories, const struct msg_open_debug *request,
		    uint32_t *path);

/* Opens the debug file near a file that a process maps, in the same way. `uid` is the process's
 * user. Returns the same; a build id or a link that cannot be used counts as none; -ESRCH if the
 * process has ended or does not map the file any more. */
int open_debug_file_of_process(const struct directories *directories,
			       const struct msg_open_debug *request, uint32_t uid, uint32_t *path);

#endif

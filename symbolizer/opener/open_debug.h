/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens debug files: files with the symbols and the debug information of a program or library that
 * has none itself. Distributions package them, and other tools collect them.
 *
 * How this works. The path is made of the build id and nothing else, so nobody can choose another
 * one. It is searched below the directories that the CLI opened, under the names that debuggers use
 * (GDB manual, "Separate Debug Files") and those of debuginfod's cache. Links are
 * followed, because collections of debug files consist of them; so that a link opens nothing that
 * is secret, the file must be one that everybody may read, or belong to the owner of the directory
 * if that is not root. As with mapped files, the type and the file system are checked before the
 * file is opened for reading. Whether it
 * is the right file is found out by the worker, which reads it.
 *
 * Example: for the build id 2f3c..., /usr/lib/debug/.build-id/2f/3c....debug is opened; if it does
 * not exist, /usr/lib/debug/2f3c.../debuginfo; then the same below the next directory.
 */
#ifndef SYMBOLIZER_OPENER_OPEN_DEBUG_H
#define SYMBOLIZER_OPENER_OPEN_DEBUG_H

#include "symbolizer/opener/opening.h"

/* Returns a descriptor, which the caller closes; -ENOENT if there is no such file; -EINVAL if the
 * length of the build id is out of range; or another negative errno: there may be one. */
int open_debug_file(const struct directories *directories, const struct msg_open_debug *request);

#endif

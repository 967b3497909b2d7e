/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user can do about functions without names: install the debug files of the programs and
 * libraries in which many of them were sampled.
 *
 * How this works. On Debian the lists of dpkg say which package a file belongs to. The package with
 * its debug file has the same name with -dbgsym, or with -dbg where the package makes it itself.
 * Elsewhere, and for files of no package, the build id says what to look for.
 *
 * Example: cc1plus has been stripped, and is in 46.2 % of the samples. The file is in the list
 * g++-12.list, so the package is g++-12.
 */
#ifndef CLI_DEBUG_HINT_H
#define CLI_DEBUG_HINT_H

#include <stdio.h>

#include "ipc/messages.h"

enum {
	DEBUG_HINTS_MAX = 3
};

/* Adds a module to a list of DEBUG_HINTS_MAX, unless it is full. The texts of the message may lack
 * the NUL at their end; those in the list have it. */
void debug_hint_add(struct msg_unnamed_module *modules, unsigned int *count,
		    const struct msg_unnamed_module *module);

/* Prints a line for each of the modules that is in at least one percent of the samples, up to the
 * first one whose path is none. `lists` is the directory of dpkg's lists; it need not exist. */
void debug_hint_print(const struct msg_unnamed_module *modules, unsigned int count,
		      uint64_t samples, const char *lists, FILE *out);

#endif

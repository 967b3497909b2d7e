/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a recording writes. The CLI opens them with the rights of the user who started it
 * and hands the descriptors to the exporter, which has no access to the file system.
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "cli/options.h"

enum {
	OUTPUTS_NAME_BYTES = 192
};

/* Writes the name of an output without -o: "bulkhead-HOST-20261122-153000.html", with the extension
 * of `format`. `attempt` 2 and later appends "-2", ..., for a name that is taken. Characters of
 * `host` that are awkward in file names become '_'. */
void outputs_default_name(const char *host, const struct tm *time, const char *format,
			  unsigned int attempt, char name[static OUTPUTS_NAME_BYTES]);

/* Opens a file to be written, or standard output for "-". A new file gets mode 0600 and, if sudo
 * was used, the user who used it as its owner. An older one keeps its mode, its owner and, for now,
 * its contents: if there is no new result, it is still there. Returns a descriptor, or -1 with
 * errno set. */
int outputs_open_path(const char *path, bool *created);

/* Opens all outputs and the statistics file. An existing file keeps its contents until
 * outputs_truncate(). Returns STATUS_DONE, or another exit status after a message. */
int outputs_open(struct record_options *options);

/* Removes what older recordings left in the outputs, when the recording begins. */
void outputs_truncate(struct record_options *options);

/* Removes the files that outputs_open() created, when the recording did not begin. */
void outputs_remove_created(const struct record_options *options);

#endif

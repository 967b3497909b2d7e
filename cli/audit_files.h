/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The installed programs: only root may change them, they give no rights to the user who
 * starts them, and they are those that were built.
 *
 * How this works. The build writes the SHA-256 hashes of the programs to bulkhead.sha256 next to
 * them, in the format of sha256sum(1). A user who can replace a program can replace that file too,
 * so
 * --manifest names a copy from elsewhere, for example from a package.
 *
 * Example of a line: "e3b0c442...  bulkhead-loader".
 */
#ifndef CLI_AUDIT_FILES_H
#define CLI_AUDIT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/audit_find.h"
#include "cli/audit_hash.h"
#include "cli/audit_report.h"

#define AUDIT_MANIFEST_NAME "bulkhead.sha256"

/* Finds the hash of a file in the text of a manifest. Returns false if there is none. */
bool audit_manifest_find(const char *text, const char *name, char hash[AUDIT_HASH_BYTES]);

/* Judges all programs and the directories above them. `manifest` is a path, or NULL for that next
 * to the programs. */
void audit_judge_files(struct audit_report *report, const struct audit_programs *programs,
		       const char *manifest);

#endif

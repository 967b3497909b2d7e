/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the files that the exporter of an agent needs: the spool directory, certificates, key and
 * headers. `bulkhead run` calls this with its own rights and passes the descriptors on. An exporter
 * that is a service calls it under its own uid, before it enters its sandbox.
 */
#ifndef CONFIG_EXPORT_FILES_H
#define CONFIG_EXPORT_FILES_H

#include <sys/types.h>

#include "config/config.h"
#include "ipc/messages.h"

/* Where the results go: descriptors to `fds`, by enum msg_otlp_fd, -1 where there is none; a bit of
 * each to `message->has`; and target, TLS and headers to `message`. */
struct export_files {
	const struct config *config;
	struct msg_configure_otlp *message;
	int *fds;
};

/* Sets the target and whether it gets TLS. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int export_files_set_target(struct export_files *files);

/* Sets the target, opens certificates and key, and reads the headers, as they are now. Returns
 * STATUS_DONE, or another exit status after a message. */
int export_files_open_backend(struct export_files *files);

/* Does it again, before another exporter is started. If something cannot be read any more, this is
 * logged, and the old ones stay in use. */
void export_files_reopen_backend(struct export_files *files);

/* Opens spool.directory again, which it makes if necessary, and makes `owner`, the exporter, its
 * owner. Without a usable directory this is logged, and samples are kept in memory. */
void export_files_open_spool(struct export_files *files, uid_t owner);

/* Adds a name and its value. Returns 0, or -ENOSPC if there is no room. */
int export_pairs_add(struct msg_pairs *pairs, const char *name, const char *value);

#endif

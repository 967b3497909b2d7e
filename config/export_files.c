/* SPDX-License-Identifier: Apache-2.0 */
#include "config/export_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "config/endpoint.h"
#include "config/key_values.h"

/* Where distributions keep the certificates of the authorities that the system trusts: Debian and
 * most others; Fedora; Alpine. */
static const char *const system_ca[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

/* --- spool --- */

static int make_directories(const char *path)
{
	char part[CONFIG_TEXT_BYTES];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Makes `uid`, the exporter, the owner of the spool directory, which nobody else may enter. Files
 * that an exporter with another uid left are handed over too. Only regular files with one link are:
 * any other could be a trap that makes root change the owner of a foreign file. */
static int hand_over_spool(int directory, uid_t uid)
{
	struct stat st;

	if (fstat(directory, &st) < 0)
		return -errno;
	if (st.st_uid == uid && (st.st_mode & 077) == 0)
		return 0;
	if (fchown(directory, uid, (gid_t)uid) < 0 || fchmod(directory, 0700) < 0)
		return -errno;
	_cleanup_closedir_ DIR *entries = fdopendir(openat(directory, ".", O_RDONLY));
	for (struct dirent *entry; entries && (entry = readdir(entries));) {
		_cleanup_close_ int fd = openat(directory, entry->d_name,
						O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		    fchown(fd, uid, (gid_t)uid) < 0)
			return -errno;
	}
	return 0;
}

void export_files_open_spool(struct export_files *files, uid_t owner)
{
	const char *path = files->config->spool_directory;
	int *spool = &files->fds[MSG_OTLP_SPOOL_DIRECTORY];

	if (*spool >= 0)
		close(*spool);
	*spool = -1;
	files->message->has &= ~(1u << MSG_OTLP_SPOOL_DIRECTORY);
	if (!path[0])
		return;
	int r = make_directories(path);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (!r && fd < 0)
		r = -errno;
	if (!r)
		r = hand_over_spool(fd, owner);
	/* A directory that cannot be written now is passed too: it may be writable later. */
	if (fd >= 0) {
		*spool = TAKE_FD(fd);
		files->message->has |= 1u << MSG_OTLP_SPOOL_DIRECTORY;
	}
	if (r < 0)
		log_warning(
		    "cannot use spool.directory; samples that wait are kept in memory, and lost "
		    "when the agent ends: path=%s error=%s",
		    path, strerror(-r));
}

/* --- the backend --- */

static int open_file(struct export_files *files, enum msg_otlp_fd which, const char *path)
{
	if (!path[0])
		return STATUS_DONE;
	files->fds[which] = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (files->fds[which] < 0) {
		log_error("cannot read a certificate or key that export.ca_file, "
			  "export.certificate_file or export.key_file names: path=%s error=%s",
			  path, strerror(errno));
		return STATUS_USAGE;
	}
	files->message->has |= 1u << which;
	return STATUS_DONE;
}

static int open_ca(struct export_files *files)
{
	const char *path = files->config->ca_file;

	for (size_t i = 0; !path[0] && i < sizeof(system_ca) / sizeof(system_ca[0]); i++) {
		if (access(system_ca[i], R_OK) == 0)
			path = system_ca[i];
	}
	if (!path[0]) {
		log_error("the system has no certificates to verify the backend with; set "
			  "export.ca_file, or install ca-certificates");
		return STATUS_USAGE;
	}
	return open_file(files, MSG_OTLP_CA, path);
}

int export_files_set_target(struct export_files *files)
{
	struct msg_configure_otlp *message = files->message;
	struct endpoint endpoint;

	const char *wrong =
	    endpoint_parse(files->config->endpoint, files->config->insecure, &endpoint);
	if (wrong) {
		log_error("export.endpoint: %s", wrong);
		return STATUS_USAGE;
	}
	snprintf(message->target, sizeof(message->target), "%s", endpoint.target);
	message->tls = endpoint.tls;
	return STATUS_DONE;
}

static int open_certificates(struct export_files *files)
{
	int status = open_ca(files);

	if (!status)
		status = open_file(files, MSG_OTLP_CERTIFICATE, files->config->certificate_file);
	if (!status)
		status = open_file(files, MSG_OTLP_KEY, files->config->key_file);
	return status;
}

int export_pairs_add(struct msg_pairs *pairs, const char *name, const char *value)
{
	const size_t name_bytes = strlen(name) + 1, value_bytes = strlen(value) + 1;

	if (name_bytes + value_bytes > sizeof(pairs->text) - pairs->bytes)
		return -ENOSPC;
	memcpy(pairs->text + pairs->bytes, name, name_bytes);
	memcpy(pairs->text + pairs->bytes + name_bytes, value, value_bytes);
	pairs->bytes += (uint32_t)(name_bytes + value_bytes);
	return 0;
}

static int add_pairs(struct msg_pairs *pairs, const struct key_values *list)
{
	int r = 0;

	for (size_t i = 0; i < list->count && !r; i++)
		r = export_pairs_add(pairs, key_values_key(list, i), key_values_value(list, i));
	if (r < 0)
		log_error("export.headers and export.headers_file are longer than %d bytes "
			  "together; shorten them",
			  MSG_PAIRS_BYTES);
	return r < 0 ? STATUS_USAGE : STATUS_DONE;
}

static int set_headers(struct export_files *files)
{
	_cleanup_key_values_ struct key_values headers = {0};
	char reason[KEY_VALUES_REASON_BYTES];
	unsigned int line;
	bool exposed = false;

	const char *wrong = NULL;

	/* The second source wins for a name that is in both. */
	if (files->config->headers_file[0])
		wrong = key_values_read_headers(files->config->headers_file, &headers, &line,
						&exposed, reason);
	if (!wrong)
		wrong =
		    key_values_parse(KEY_VALUES_HEADERS, files->config->headers, &headers, reason);
	if (wrong) {
		log_error("export.headers or export.headers_file: %s", wrong);
		return STATUS_USAGE;
	}
	if (exposed)
		log_warning(
		    "headers are secret, and everyone may read export.headers_file; change its "
		    "mode to 0600: path=%s",
		    files->config->headers_file);
	return add_pairs(&files->message->headers, &headers);
}

int export_files_open_backend(struct export_files *files)
{
	int status = export_files_set_target(files);

	if (!status && files->message->tls)
		status = open_certificates(files);
	if (!status)
		status = set_headers(files);
	return status;
}

void export_files_reopen_backend(struct export_files *files)
{
	const struct msg_configure_otlp before = *files->message;
	int fds_before[MSG_OTLP_FD_COUNT];

	files->message->has &= (1u << MSG_OTLP_CA) - 1;
	files->message->headers = (struct msg_pairs){0};
	for (int i = MSG_OTLP_CA; i < MSG_OTLP_FD_COUNT; i++) {
		fds_before[i] = files->fds[i];
		files->fds[i] = -1;
	}
	const bool reopened = !export_files_open_backend(files);
	const int *unused = reopened ? fds_before : files->fds;
	for (int i = MSG_OTLP_CA; i < MSG_OTLP_FD_COUNT; i++) {
		if (unused[i] >= 0)
			close(unused[i]);
	}
	if (reopened)
		return;
	log_warning("the next exporter gets the certificates, key and headers of the last one, "
		    "because the present ones cannot be read");
	*files->message = before;
	memcpy(files->fds + MSG_OTLP_CA, fds_before + MSG_OTLP_CA,
	       (MSG_OTLP_FD_COUNT - MSG_OTLP_CA) * sizeof(int));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output_format.h"
#include "common/exit_status.h"
#include "common/log.h"

enum {
	HOST_BYTES_SHOWN = 64, /* Linux limits a host name to this (uname(2), __NEW_UTS_LEN) */
	DEFAULT_NAME_ATTEMPTS = 100,
};

void outputs_default_name(const char *host, const struct tm *time, const char *format,
			  unsigned int attempt, char name[static OUTPUTS_NAME_BYTES])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.";
	char clean[HOST_BYTES_SHOWN + 1], when[32], suffix[16] = "";

	snprintf(clean, sizeof(clean), "%s", *host ? host : "localhost");
	for (char *c = clean + strspn(clean, letters); *c; c += strspn(c, letters))
		*c = '_';
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", time);
	if (attempt > 1)
		snprintf(suffix, sizeof(suffix), "-%u", attempt);
	snprintf(name, OUTPUTS_NAME_BYTES, "bulkhead-%s-%s%s%s", clean, when, suffix,
		 output_format_extension(format));
}

/* Reads an id from an environment variable of sudo. */
static bool sudo_id(const char *name, uint32_t *id)
{
	const char *text = secure_getenv(name);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	const unsigned long value = strtoul(text, &end, 10);
	/* The largest number means "none" to fchown(2). */
	if (errno || *end || value >= UINT32_MAX)
		return false;
	*id = (uint32_t)value;
	return true;
}

/* Makes the user who ran sudo the owner of a file that was just created. Otherwise only root could
 * read it, and that user would have to run the browser as root, or make the file readable to
 * everybody. The variables are believed because a user whom sudo lets run this as root may read
 * everything anyway. */
static void hand_over(int fd, const char *path)
{
	uint32_t uid, gid;

	if (geteuid() || !sudo_id("SUDO_UID", &uid) || !sudo_id("SUDO_GID", &gid))
		return;
	if (fchown(fd, uid, gid) < 0)
		log_warning("cannot make the user who ran sudo the owner of an output, so only "
			    "root may read it: path=%s uid=%u error=%s",
			    path, uid, strerror(errno));
}

/* Creates a file for writing, which must not exist. Only its owner may read it, because a profile
 * names what everybody on the host runs. Returns a descriptor, or -1 with errno set. */
static int create_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd >= 0)
		hand_over(fd, path);
	return fd;
}

/* Opens an output under a default name. The current directory may be one that others write to, such
 * as /tmp. Therefore a file or link that exists under this name is never opened: the next name is
 * tried. */
static int open_default(struct output *output)
{
	static char name[OUTPUTS_NAME_BYTES];
	char host[HOST_NAME_MAX + 1] = "";
	const time_t now = time(NULL);
	struct tm local;
	int fd = -1;

	gethostname(host, sizeof(host) - 1);
	localtime_r(&now, &local);
	for (unsigned int i = 1; fd < 0 && i <= DEFAULT_NAME_ATTEMPTS; i++) {
		outputs_default_name(host, &local, output->format, i, name);
		fd = create_file(name);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	output->path = name;
	output->created = fd >= 0;
	return fd;
}

int outputs_open_path(const char *path, bool *created)
{
	*created = false;
	if (!strcmp(path, "-"))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	int fd = create_file(path);
	*created = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd;
}

static int refuse_output(const char *path)
{
	fprintf(stderr, "bulkhead: cannot write %s: %s; name another file with -o\n", path,
		strerror(errno));
	return STATUS_FAILED;
}

int outputs_open(struct record_options *o)
{
	bool created;

	for (unsigned int i = 0; i < o->output_count; i++) {
		struct output *output = &o->outputs[i];

		output->fd = output->path ? outputs_open_path(output->path, &output->created)
					  : open_default(output);
		if (output->fd < 0)
			return refuse_output(output->path);
	}
	if (o->stats_path) {
		o->stats_fd = outputs_open_path(o->stats_path, &created);
		if (o->stats_fd < 0) {
			fprintf(stderr,
				"bulkhead: cannot write %s: %s; name another file with --stats\n",
				o->stats_path, strerror(errno));
			return STATUS_FAILED;
		}
	}
	return STATUS_DONE;
}

void outputs_truncate(struct record_options *o)
{
	/* Only regular files can be truncated; pipes and devices need no truncation. */
	for (unsigned int i = 0; i < o->output_count; i++) {
		if (ftruncate(o->outputs[i].fd, 0) == 0)
			o->outputs[i].created = false;
	}
	if (o->stats_fd >= 0 && ftruncate(o->stats_fd, 0) < 0)
		log_debug("cannot truncate the statistics file: %s", strerror(errno));
}

void outputs_remove_created(const struct record_options *o)
{
	for (unsigned int i = 0; i < o->output_count; i++) {
		if (o->outputs[i].created)
			unlink(o->outputs[i].path);
	}
}

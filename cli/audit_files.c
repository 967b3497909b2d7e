/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see audit_files.h. */
#include "cli/audit_files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/audit_hash.h"
#include "cli/host_text.h"
#include "cli/program_path.h"
#include "common/cleanup.h"

enum {
	MANIFEST_BYTES = 16 << 10,
};

bool audit_manifest_find(const char *text, const char *name, char hash[AUDIT_HASH_BYTES])
{
	const size_t digits = AUDIT_HASH_BYTES - 1, length = strlen(name);

	for (const char *line = text; *line;) {
		const size_t size = strcspn(line, "\n");

		/* Two characters separate the hash and the name: spaces, or a space and "*". */
		if (strspn(line, "0123456789abcdef") == digits && size == digits + 2 + length &&
		    !memcmp(line + digits + 2, name, length)) {
			memcpy(hash, line, digits);
			hash[digits] = 0;
			return true;
		}
		line += size;
		line += *line == '\n';
	}
	return false;
}

static void judge_rights(struct audit_report *report, const struct audit_subject *subject,
			 const struct stat *st, bool file)
{
	/* Others may add files to a directory with the sticky bit, but not replace any. */
	const bool kept = !file && st->st_mode & S_ISVTX;

	if (st->st_uid == 0)
		audit_ok(report, subject, "owner", "root");
	else
		audit_difference(report, subject, "owner", "root", "uid %u", st->st_uid);
	if ((st->st_mode & (S_IWGRP | S_IWOTH) && !kept) ||
	    (file && st->st_mode & (S_ISUID | S_ISGID)))
		audit_difference(report, subject, "mode",
				 file ? "not writable by others than the owner, no set-id bits"
				      : "not writable by others than the owner, or sticky",
				 "%04o", st->st_mode & 07777);
	else
		audit_ok(report, subject, "mode", "%04o", st->st_mode & 07777);
}

static void judge_hash(struct audit_report *report, const struct audit_subject *subject, int fd,
		       const char *manifest)
{
	char hash[AUDIT_HASH_BYTES], wanted[AUDIT_HASH_BYTES] = "";
	const int r = audit_hash_file(fd, hash);

	if (r)
		audit_unverified(report, subject, "hash", -r);
	else if (!audit_manifest_find(manifest, subject->name, wanted))
		audit_difference(report, subject, "hash", "a line in the manifest", "%s", hash);
	else if (strcmp(hash, wanted))
		audit_difference(report, subject, "hash", wanted, "%s", hash);
	else
		audit_ok(report, subject, "hash", "%s", hash);
}

static void judge_program(struct audit_report *report, const struct audit_program *program,
			  const char *manifest)
{
	struct audit_subject subject = {0};
	struct stat st;

	snprintf(subject.name, sizeof(subject.name), "%s", strrchr(program->path, '/') + 1);
	_cleanup_close_ int fd = open(program->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		audit_unverified(report, &subject, "file", errno);
		return;
	}
	judge_rights(report, &subject, &st, true);
	if (fgetxattr(fd, "security.capability", NULL, 0) >= 0)
		audit_difference(report, &subject, "file-capabilities", "none", "some");
	else if (errno == ENODATA || errno == EOPNOTSUPP)
		audit_ok(report, &subject, "file-capabilities", "none");
	else
		audit_unverified(report, &subject, "file-capabilities", errno);
	judge_hash(report, &subject, fd, manifest);
}

/* A user who may write to a directory above the programs can replace them. */
static void judge_directories(struct audit_report *report, const char *program)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", program);
	for (char *slash; (slash = strrchr(path, '/'));) {
		struct audit_subject subject = {.name = "directory"};
		struct stat st;
		const size_t first = report->count;

		*(slash == path ? slash + 1 : slash) = 0;
		if (stat(path, &st) < 0) {
			audit_unverified(report, &subject, "mode", errno);
			return;
		}
		judge_rights(report, &subject, &st, false);
		for (size_t i = first; i < report->count; i++) {
			struct audit_result *result = &report->results[i];
			const size_t used = strlen(result->found);

			snprintf(result->found + used, sizeof(result->found) - used, " %.250s",
				 path);
		}
		if (slash == path)
			return;
	}
}

static bool same_directory(const char *a, const char *b)
{
	const size_t length = (size_t)(strrchr(a, '/') - a);

	return !strncmp(a, b, length) && b + length == strrchr(b, '/');
}

void audit_judge_files(struct audit_report *report, const struct audit_programs *programs,
		       const char *manifest)
{
	const struct audit_subject subject = {.name = "manifest"};
	char text[MANIFEST_BYTES], path[PATH_MAX];

	if (manifest)
		snprintf(path, sizeof(path), "%s", manifest);
	else
		program_path(AUDIT_MANIFEST_NAME, path, sizeof(path));
	const ssize_t n = host_text_read("", path, text, sizeof(text));
	if (n < 0)
		audit_unverified(report, &subject, "file", (int)-n);
	for (size_t i = 0; i < programs->count; i++)
		judge_program(report, &programs->programs[i], text);
	for (size_t i = 0; i < programs->count; i++) {
		if (!i ||
		    !same_directory(programs->programs[i].path, programs->programs[i - 1].path))
			judge_directories(report, programs->programs[i].path);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/role_uids.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/file_read.h"

enum {
	/* The range of systemd's DynamicUser= (systemd.exec(5)). No distribution assigns these uids
	 * to users. */
	DYNAMIC_UID_FIRST = 61184,
	DYNAMIC_UID_COUNT = 65519 - DYNAMIC_UID_FIRST + 1,
	UIDS_PER_RUN = 8, /* at least ROLE_COUNT */
	/* /proc/PID/status has its line of uids within the first 200 bytes or so. */
	STATUS_BYTES = 1024,
	UIDS_OF_A_PROCESS = 4, /* real, effective, saved, and for files */
};

struct uid_set {
	uid_t *uids;
	size_t count, capacity;
};

static bool uid_set_has(const struct uid_set *set, uid_t uid)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->uids[i] == uid)
			return true;
	}
	return false;
}

static int uid_set_add(struct uid_set *set, uid_t uid)
{
	if (uid_set_has(set, uid))
		return 0;
	int r = ARRAY_RESERVE(set->uids, set->capacity, set->count + 1, 64, ARRAY_UNLIMITED);
	if (r < 0)
		return r;
	set->uids[set->count++] = uid;
	return 0;
}

/* Adds what one process runs as. A process that has just ended has no uids any more. */
static int add_process(struct uid_set *set, int proc, const char *pid)
{
	char path[64], status[STATUS_BYTES + 1];

	snprintf(path, sizeof(path), "%.32s/status", pid);
	_cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : file_read_fully(fd, status, STATUS_BYTES);
	if (n < 0)
		return 0;
	status[n] = 0;
	/* A newline in the name of a process, which comes first, is escaped. */
	const char *line = strstr(status, "\nUid:");
	if (!line)
		return 0;
	char *at = (char *)(uintptr_t)line + strlen("\nUid:");
	int r = 0;
	for (int i = 0; i < UIDS_OF_A_PROCESS && !r; i++)
		r = uid_set_add(set, (uid_t)strtoul(at, &at, 10));
	return r;
}

static int add_processes(struct uid_set *set, const char *proc)
{
	_cleanup_closedir_ DIR *directory = opendir(proc);
	int r = directory ? 0 : -errno;

	for (struct dirent *entry; !r && (entry = readdir(directory));) {
		if (isdigit((unsigned char)entry->d_name[0]))
			r = add_process(set, dirfd(directory), entry->d_name);
	}
	return r;
}

/* Returns the next uid of the range, from the place `*next` on, that nobody has, or 0. */
static uid_t next_dynamic_uid(const struct uid_set *taken, unsigned int *next)
{
	for (int i = 0; i < DYNAMIC_UID_COUNT; i++) {
		const uid_t uid = DYNAMIC_UID_FIRST + (*next)++ % DYNAMIC_UID_COUNT;

		if (!uid_set_has(taken, uid) && !getpwuid(uid))
			return uid;
	}
	return 0;
}

static int choose(struct uid_set *taken, bool agent, struct peer_uids *uids)
{
	unsigned int next = agent ? 0 : (unsigned int)getpid() * UIDS_PER_RUN;

	uids->uid[ROLE_CONTROL] = geteuid();
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct passwd *user = getpwnam(role_names[role].user);
		uid_t uid = user ? user->pw_uid : 0;

		if (!uid || uid_set_has(taken, uid))
			uid = next_dynamic_uid(taken, &next);
		if (!uid)
			return -EUSERS;
		int r = uid_set_add(taken, uid);
		if (r < 0)
			return r;
		uids->uid[role] = uid;
	}
	return 0;
}

int role_uids_choose(const char *proc, bool agent, struct peer_uids *uids)
{
	struct uid_set taken = {0};
	int r = add_processes(&taken, proc);

	if (!r)
		r = choose(&taken, agent, uids);
	free(taken.uids);
	return r;
}

bool role_uids_may_be(enum role_id role, uid_t uid)
{
	const struct passwd *user = getpwnam(role_names[role].user);

	return uid && ((user && user->pw_uid == uid) ||
		       (uid >= DYNAMIC_UID_FIRST && uid < DYNAMIC_UID_FIRST + DYNAMIC_UID_COUNT));
}

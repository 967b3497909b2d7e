/* SPDX-License-Identifier: Apache-2.0 */
#include "role/service_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "ipc/fd_passing.h"

enum {
	FIRST_KEPT = 3,	      /* SD_LISTEN_FDS_START */
	KEPT_MAX = 64,	      /* more than any service has stored */
	KEEP_TEXT_BYTES = 64, /* "FDSTORE=1" and a name */
};

int service_manager_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const size_t length = path ? strlen(path) : 0;

	if (length < 2 || length >= sizeof(address.sun_path) || !strchr("/@", path[0]))
		return -1;
	memcpy(address.sun_path, path, length);
	/* A name that starts with '@' is an abstract one. */
	if (path[0] == '@')
		address.sun_path[0] = 0;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0) {
		log_debug("cannot connect to the service manager: %s", strerror(errno));
		return -1;
	}
	return TAKE_FD(fd);
}

void service_manager_send(int fd, const char *text)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
	const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0 && sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("cannot notify the service manager: %s", strerror(errno));
}

void service_manager_keep(int notify_fd, const char *name, int fd)
{
	char text[KEEP_TEXT_BYTES];

	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	if (notify_fd >= 0 &&
	    fd_passing_send(notify_fd, text, strlen(text), &fd, 1, MSG_DONTWAIT) < 0)
		log_debug("the service manager did not take a descriptor");
}

void service_manager_drop(int notify_fd, const char *name)
{
	char text[KEEP_TEXT_BYTES];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	service_manager_send(notify_fd, text);
}

unsigned int service_manager_kept_count(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");

	/* The variables may be meant for a process that has started this one. */
	if (!pid || !count || strtol(pid, NULL, 10) != getpid())
		return 0;
	const unsigned long kept = strtoul(count, NULL, 10);
	return kept < KEPT_MAX ? (unsigned int)kept : 0;
}

int service_manager_kept(const char *name)
{
	const char *at = getenv("LISTEN_FDNAMES");
	const unsigned int count = service_manager_kept_count();

	for (unsigned int i = 0; at && i < count; i++) {
		const size_t length = strcspn(at, ":");

		if (length == strlen(name) && !memcmp(at, name, length)) {
			const int fd = (int)(FIRST_KEPT + i);

			return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
		}
		at += length;
		at += *at == ':';
	}
	return -1;
}

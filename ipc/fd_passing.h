/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors over Unix sockets (SCM_RIGHTS, see unix(7) and cmsg(3)). */
#ifndef IPC_FD_PASSING_H
#define IPC_FD_PASSING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ipc/messages.h"

/* Sends one packet with `fd_count` descriptors, at most MESSAGE_FDS_MAX, which stay the caller's.
 * `flags` are those of sendmsg(2); no signal is raised. Returns 0 or a negative errno. */
int fd_passing_send(int socket, const void *bytes, size_t length, const int *fds,
		    unsigned int fd_count, int flags);

/* Receives one packet. `flags` are those of recvmsg(2). Returns its length, 0 at the end, or a
 * negative errno. `*fd_count` is how many descriptors came; the first `fds_max` of them are in
 * `fds` and the caller's, and further ones are closed. `*truncated`: bytes or descriptors had no
 * room. */
ssize_t fd_passing_receive(int socket, void *bytes, size_t size, int flags, int *fds,
			   unsigned int fds_max, unsigned int *fd_count, bool *truncated);

#endif

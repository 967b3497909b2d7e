/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service tells the service manager: readiness, state and signs of life, as sd_notify(3)
 * defines it. The socket is opened before the sandbox, which allows neither socket(2) nor names.
 */
#ifndef ROLE_SERVICE_MANAGER_H
#define ROLE_SERVICE_MANAGER_H

/* Connects to the socket that NOTIFY_SOCKET names. Returns its descriptor, which is the caller's,
 * or -1 if there is no service manager that wants to know. */
int service_manager_open(void);

/* Sends lines such as "READY=1", separated by newlines. With `fd` -1, does nothing. Nothing waits,
 * and what cannot be sent is dropped. */
void service_manager_send(int fd, const char *text);

/* Has the service manager keep a duplicate of a descriptor for the next process of this service, if
 * it starts one in the place of this one; and has it closed again. `notify_fd` as above. */
void service_manager_keep(int notify_fd, const char *name, int fd);
void service_manager_drop(int notify_fd, const char *name);

/* Returns how many descriptors the service manager has kept for this process: they are 3, 4 and so
 * on (sd_listen_fds(3)). */
unsigned int service_manager_kept_count(void);

/* Returns the descriptor that was kept under this name, which is the caller's, or -1. */
int service_manager_kept(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* For the code that starts threads of a role, and for the policy that allows that. */
#ifndef ROLE_PROCESS_WORK_FLAGS_H
#define ROLE_PROCESS_WORK_FLAGS_H

#include <sched.h>

/* A thread as the C library makes them, but with the thread-local storage of the one that starts
 * it. */
#define PROCESS_WORK_THREAD_FLAGS                                                                  \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SELinux labels of peers.
 *
 * How this works. Under the policy of deploy/selinux each role is in a domain of its own,
 * bulkhead_ROLE_t. The kernel tells the label of the process at the other end of a connection
 * (SO_PEERSEC), like its uid. A role that is in its own domain accepts and looks for peers in
 * theirs only: a process that has got hold of the uid of a role, but runs in another domain, is
 * none. A role in any other domain, as in a recording that an administrator starts
 * (unconfined_t), and one without SELinux, cannot expect that.
 *
 * Example: the label of the worker is "system_u:system_r:bulkhead_worker_t:s0". Its third field,
 * the type, is what is compared: users, roles of SELinux and levels are matters of the host.
 */
#ifndef IPC_PEER_LABEL_H
#define IPC_PEER_LABEL_H

#include <stdbool.h>

#include "common/roles.h"

/* Returns whether this process is in the SELinux domain of a role. Makes a pair of sockets to find
 * out, so it is called before the sandbox closes. */
bool peer_label_is_own(enum role_id self);

/* Returns whether the process at the other end of a connected socket is in the domain of a role. */
bool peer_label_is(int fd, enum role_id role);

#endif

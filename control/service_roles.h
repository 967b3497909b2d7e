/* SPDX-License-Identifier: Apache-2.0 */
/* The part of service_roles.c that is not in control/roles.h. */
#ifndef CONTROL_SERVICE_ROLES_H
#define CONTROL_SERVICE_ROLES_H

#include "ipc/peer.h"

/* Sets as whom the roles run. To look users up takes files, so this comes before the sandbox. */
void service_roles_set_uids(const struct peer_uids *uids);

#endif

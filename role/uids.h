/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROLE_UIDS_H
#define ROLE_UIDS_H

#include "ipc/peer.h"

/* Finds out as whom roles run that are services, unless `uids` has it already, and checks that this
 * process, which has the role `self`, was started as its user or as root. They run as the system
 * users of common/roles.def. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int role_uids_of_service(struct peer_uids *uids, enum role_id self);

#endif

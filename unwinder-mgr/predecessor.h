/* SPDX-License-Identifier: Apache-2.0 */
/* What the manager of an agent finds in the shared tables if it is not the first one. */
#ifndef UNWINDER_MGR_PREDECESSOR_H
#define UNWINDER_MGR_PREDECESSOR_H

#include "unwinder-mgr/manager.h"

/*
 * Empties the tables of processes and modules, and waits until no walker can be using what they
 * referred to: slabs and rules may be written then. Stacks are deferred until the processes are
 * known again. The ids of modules go on after those of the last manager, because samples that are
 * on their way contain them. Both tables are mapped. Returns 0, or -EOVERFLOW if too many ids were
 * used.
 */
int predecessor_clear(struct manager *manager);

#endif

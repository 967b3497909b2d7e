/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager's state. What it knows comes from three places: the sideband (what happens), the
 * opener (maps and files), the ring `deferred` (stacks that could not wait). What it makes of it
 * goes to two: the tables that BPF reads, and the worker.
 */
#ifndef UNWINDER_MGR_MANAGER_H
#define UNWINDER_MGR_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"
#include "role/role.h"
#include "unwinder-mgr/deferred.h"
#include "unwinder-mgr/limits.h"
#include "unwinder-mgr/modules.h"
#include "unwinder-mgr/processes.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/sideband.h"
#include "unwinder-mgr/slabs.h"

struct manager {
	struct role role;
	struct slabs slabs;
	struct rules rules;
	struct modules modules;
	struct processes processes;
	struct sideband sideband;
	struct deferred deferred;
	struct msg_losses losses;
	bool scanning, scan_wanted;
	uint64_t started_ns, scanned_ns, reclaimed_ns, drain_deadline_ns;
};

#endif

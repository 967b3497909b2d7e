/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager's state.
 *
 * Its input comes from three sources: the sideband (what processes do), the opener (their maps and
 * files), and the ring `deferred` (stacks whose tables came too late). Its output goes to two: the
 * tables that BPF reads, and the worker, which hears of processes, modules and deferred samples.
 */
#ifndef UNWINDER_MGR_MANAGER_H
#define UNWINDER_MGR_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"
#include "role/process_reader.h"
#include "role/role.h"
#include "unwinder-mgr/deferred.h"
#include "unwinder-mgr/limits.h"
#include "unwinder-mgr/modules.h"
#include "unwinder-mgr/processes.h"
#include "unwinder-mgr/rules.h"
#include "unwinder-mgr/shares.h"
#include "unwinder-mgr/sideband.h"
#include "unwinder-mgr/slabs.h"
#include "unwinder-mgr/table_builds.h"

struct manager {
	struct role role;
	struct slabs slabs;
	struct rules rules;
	struct shares shares;
	struct modules modules;
	struct table_builds builds;
	struct processes processes;
	struct sideband sideband;
	struct deferred deferred;
	struct process_reader reader; /* of /proc/PID/maps */
	struct msg_losses losses;
	bool scanning, scan_wanted;
	bool worker_told;   /* that it has heard of everything (SCANNED) */
	bool watch_refused; /* a request of the worker, and the log has it */
	uint64_t started_ns, scanned_ns, scan_took_ns, reclaimed_ns, drain_deadline_ns;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to `bulkhead status`: one struct, then the agent closes the connection. The agent
 * reads nothing from the other end. */
#ifndef CONTROL_AGENT_REPORT_H
#define CONTROL_AGENT_REPORT_H

#include <stdint.h>

#include "role/export_stats.h"

#define AGENT_REPORT_MAGIC 0x34746b6862ull /* "bhkt4" */

struct agent_report_role {
	uint32_t pid; /* 0: not running */
	uint32_t restarts;
	uint64_t rss_bytes, pss_bytes;
	uint64_t heard_ns_ago;
};

struct agent_report {
	uint64_t magic, bytes;
	/* The present in both clocks, by which a time of CLOCK_BOOTTIME becomes a Unix time. */
	uint64_t now_unix_ns, now_boot_ns;
	uint64_t started_boot_ns;
	uint32_t phase; /* enum supervisor_phase */
	uint32_t ready, sampling;
	uint32_t frequency_hz, probability_percent, reserved;
	uint64_t map_bytes, bpf_run_ns, bpf_run_count, deferred;
	uint64_t paused_ns;	       /* control/sampling_pause.h */
	struct msg_losses lost_worker; /* not in `stats` yet */
	struct msg_runtime runtimes[RUNTIME_ID_COUNT];
	struct agent_report_role roles[ROLE_COUNT];
	struct export_stats stats;
	char endpoint[MSG_TARGET_BYTES];
};

/* In the run directory. */
#define AGENT_REPORT_SOCKET "control/status"

#endif

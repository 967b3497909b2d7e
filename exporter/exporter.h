/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a recording's exporter. */
#ifndef EXPORTER_EXPORTER_H
#define EXPORTER_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "exporter/model/aggregate.h"
#include "exporter/model/counters.h"
#include "exporter/sinks/sink.h"
#include "role/role.h"

struct exporter {
	struct role role;
	struct msg_configure_exporter config;
	int outputs[LIMIT_OUTPUTS];
	struct counters counters;
	struct aggregate aggregate;
	struct sink_options sink_options;
	uint64_t started_ns, duration_ns;
	bool ended; /* the worker has sent END */
	uint32_t outputs_written, output_failed, failed_index;
};

#endif

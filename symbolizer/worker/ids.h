/* SPDX-License-Identifier: Apache-2.0 */
/* The ids under which everything is defined for the exporter: dense, from 1 on, assigned when a
 * thing is first seen, and valid until all are reset at once. */
#ifndef SYMBOLIZER_WORKER_IDS_H
#define SYMBOLIZER_WORKER_IDS_H

#include <stdint.h>

#include "symbolizer/worker/id_map.h"

struct ids {
	struct id_map modules, functions, frames, stacks, processes, threads;
	/* The last id that was assigned of each. */
	uint32_t module, function, frame, label_set, stack, process, thread;
};

#endif

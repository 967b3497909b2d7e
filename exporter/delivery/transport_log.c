/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/transport_log.h"

#include <grpc/support/log.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/log.h"

/* The rate is limited because a peer can cause log lines. */
enum {
	LINES_PER_SECOND_MAX = 10
};

static void on_message(gpr_log_func_args *args)
{
	/* The library's callback has no context, and any of its threads may call it. The upper half
	 * of `spent` is the current second, the lower half counts its lines. */
	static _Atomic uint64_t spent;
	const uint64_t second = clock_monotonic_ns() / NS_PER_S << 32;
	uint64_t before = atomic_load_explicit(&spent, memory_order_relaxed);
	char text[512];

	if ((before & ~(uint64_t)UINT32_MAX) != second)
		atomic_compare_exchange_strong(&spent, &before, second);
	if ((atomic_fetch_add(&spent, 1) & UINT32_MAX) >= LINES_PER_SECOND_MAX)
		return;
	log_debug("grpc: %s", log_escape(args->message, text, sizeof(text)));
}

void transport_log_init(void)
{
	gpr_set_log_function(on_message);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/transport_log.h"

#include <grpc/support/log.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/log.h"

/* A peer can make it talk. */
enum {
	LINES_A_SECOND_MAX = 10
};

static void on_message(gpr_log_func_args *args)
{
	/* Its function has no context, and it calls it from any of its threads: a second in the
	 * upper half, the lines it has had in the lower one. */
	static _Atomic uint64_t spent;
	const uint64_t second = clock_monotonic_ns() / 1000000000u << 32;
	uint64_t before = atomic_load_explicit(&spent, memory_order_relaxed);
	char text[512];

	if ((before & ~(uint64_t)UINT32_MAX) != second)
		atomic_compare_exchange_strong(&spent, &before, second);
	if ((atomic_fetch_add(&spent, 1) & UINT32_MAX) >= LINES_A_SECOND_MAX)
		return;
	log_debug("grpc: %s", log_escape(args->message, text, sizeof(text)));
}

void transport_log_init(void)
{
	gpr_set_log_function(on_message);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

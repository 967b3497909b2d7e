/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter of a recording verifies and aggregates the worker's batches. At the end it writes
 * the profile to each output, in that output's format. handlers.c receives the messages, and
 * result.c writes the outputs. `bulkhead report` runs the same program as a converter
 * (convert.c). */
#include <string.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "exporter/convert.h"
#include "exporter/exporter.h"
#include "exporter/handlers.h"
#include "exporter/limits.h"
#include "exporter/policy.h"

int main(int argc, char **argv)
{
	static struct exporter exporter;

	if (argc > 1 && !strcmp(argv[1], "--convert"))
		return convert_main(argc, argv);
	int status = role_start(&exporter.role, ROLE_EXPORTER, &exporter_policy, argc, argv);
	exporter_set_handlers(&exporter);
	if (!status)
		status = role_meet(&exporter.role);
	if (!status)
		status = role_enter_sandbox(&exporter.role);
	if (status)
		return status;
	int r = aggregate_init(&exporter.aggregate, LIMIT_PROFILE_BYTES);
	if (r < 0) {
		log_error("cannot start an empty profile, so the exporter ends: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	if (role_watch_peers(&exporter.role) < 0)
		return STATUS_FAILED;
	exporter_start_ticks(&exporter);
	return loop_run(&exporter.role.loop);
}
